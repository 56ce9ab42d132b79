/* SPDX-License-Identifier: MIT */
/* The bytes of a tensor in memory of the host, whose rows may lie apart. */
#include <string.h>

#include "client/copy.h"
#include "client/device.h"

void ckpt_source_copy(const struct ckpt_source *s, uint64_t off, size_t len, void *to)
{
	char *at = to;

	if (!s->rows) {
		ckpt_copy(to, s->addr + off, len);
		return;
	}
	while (len) {
		uint64_t row = off / s->row_bytes, column = off % s->row_bytes;
		size_t part = s->row_bytes - column < len ? s->row_bytes - column : len;

		ckpt_copy(at, s->addr + row * s->pitch + column, part);
		at += part;
		off += part;
		len -= part;
	}
}

void ckpt_source_fill(const struct ckpt_source *s, uint64_t off, size_t len, const void *from)
{
	/* A source of captures is a destination here. */
	char *to = (char *)(uintptr_t)s->addr;
	const char *at = from;

	if (!s->rows) {
		memcpy(to + off, from, len);
		return;
	}
	while (len) {
		uint64_t row = off / s->row_bytes, column = off % s->row_bytes;
		size_t part = s->row_bytes - column < len ? s->row_bytes - column : len;

		memcpy(to + row * s->pitch + column, at, part);
		at += part;
		off += part;
		len -= part;
	}
}
