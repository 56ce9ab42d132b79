/* SPDX-License-Identifier: MIT */
/* A text that grows. Lack of memory sets @failed, which the caller checks once, at the end. */
#ifndef CLIENT_TEXT_H
#define CLIENT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ckpt_text {
	char *data; /* without a NUL behind it */
	size_t len, room;
	bool failed;
};

void ckpt_text_add(struct ckpt_text *t, const char *what, size_t len);
void ckpt_text_put(struct ckpt_text *t, const char *what);

/* Adds @what as it stands within quotes in JSON, without these. */
void ckpt_text_json(struct ckpt_text *t, const char *what, size_t len);

/* [1,2,3] */
void ckpt_text_numbers(struct ckpt_text *t, const uint64_t *n, size_t nr);

void ckpt_text_free(struct ckpt_text *t);

#endif
