/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include "engine/content/structure_inside.h"

const char structure_unreadable[] = "it cannot be read";

bool structure_get(struct check *c, uint64_t off, void *buf, size_t len)
{
	ssize_t n = c->src->read(c->src->arg, buf, len, off);

	if (n < 0)
		c->err = (int)n;
	else if ((size_t)n != len)
		c->err = -EIO; /* the file became shorter meanwhile */
	return !c->err;
}

uint64_t structure_le(const unsigned char *p, size_t len)
{
	uint64_t n = 0;

	while (len)
		n = n << 8 | p[--len];
	return n;
}

struct reader *structure_reader_create(struct check *c, uint64_t off, uint64_t len)
{
	struct reader *r = malloc(sizeof(*r));

	if (!r) {
		c->err = -ENOMEM;
		return NULL;
	}
	r->c = c;
	r->off = off;
	r->end = off + len;
	r->at = r->len = 0;
	return r;
}

uint64_t structure_left(const struct reader *r)
{
	return r->end - r->off + r->len - r->at;
}

static bool fill(struct reader *r)
{
	uint64_t rest = r->end - r->off;
	size_t len = rest < sizeof(r->buf) ? (size_t)rest : sizeof(r->buf);

	if (!len || !structure_get(r->c, r->off, r->buf, len))
		return false;
	r->off += len;
	r->at = 0;
	r->len = len;
	return true;
}

int structure_next(struct reader *r)
{
	if (r->at == r->len && !fill(r))
		return -1;
	return r->buf[r->at++];
}

bool structure_take(struct reader *r, unsigned char *out, size_t len)
{
	while (len) {
		int c = structure_next(r);

		if (c < 0)
			return false;
		*out++ = (unsigned char)c;
		len--;
	}
	return true;
}

bool structure_skip(struct reader *r, size_t len)
{
	size_t here = r->len - r->at;

	if (len > structure_left(r))
		return false;
	if (len <= here) {
		r->at += len;
	} else {
		r->off += len - here;
		r->at = r->len = 0;
	}
	return true;
}
