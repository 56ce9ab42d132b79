/* SPDX-License-Identifier: MIT */
/* Text for people, built piece by piece in a buffer of fixed size; the excess is left out. */
#ifndef ENGINE_BASE_TEXT_H
#define ENGINE_BASE_TEXT_H

#include <stddef.h>

struct text {
	char *buf;
	size_t size, len; /* of the buffer; of the text without its final 0 */
};

__attribute__((format(printf, 2, 3))) void text_say(struct text *t, const char *fmt, ...);

/* Formats a size for people: "0 B", "840.0 KiB", "12.3 MiB". Returns @buf. */
#define TEXT_BYTES_MAX 24
const char *text_bytes(char buf[TEXT_BYTES_MAX], double bytes);

#endif
