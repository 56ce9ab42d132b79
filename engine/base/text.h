/* SPDX-License-Identifier: MIT */
/*
 * Words for people, put together piece by piece in a buffer of one size; what does not fit is left
 * out.
 */
#ifndef ENGINE_BASE_TEXT_H
#define ENGINE_BASE_TEXT_H

#include <stddef.h>

struct text {
	char *buf;
	size_t size, len; /* of @buf; of what is in it, without the 0 at its end */
};

__attribute__((format(printf, 2, 3))) void text_say(struct text *t, const char *fmt, ...);

/* A size that a person can read: "0 B", "840.0 KiB", "12.3 MiB". Returns @buf. */
#define TEXT_BYTES_MAX 24
const char *text_bytes(char buf[TEXT_BYTES_MAX], double bytes);

#endif
