/* SPDX-License-Identifier: MIT */
/*
 * Reads JSON from memory, piece by piece, as the caller asks for it: no tree is built, and strings
 * are decoded where they lie. Made for the headers of safetensors files, which may be hostile:
 * nothing outside of [at, end) is touched, and nothing recurses. An error sets bad, and every call
 * after it fails.
 */
#ifndef CLIENT_JSON_H
#define CLIENT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ckpt_json {
	char *at, *end; /* the text, which is overwritten; UTF-8 (ckpt_utf8) */
	bool bad;
};

/* True if all of it is UTF-8, as RFC 3629 has it. */
bool ckpt_utf8(const char *text, size_t len);

/* Takes a bracket or another sign, with the blanks before it. */
bool ckpt_json_take(struct ckpt_json *j, char c);

/*
 * Inside an object or array: true if one more member or element follows before @close; else takes
 * @close. *first is true at the beginning. The name of a member is next: ckpt_json_name.
 */
bool ckpt_json_more(struct ckpt_json *j, char close, bool *first);

/*
 * A string, decoded and ended with a NUL in its place; it lives as long as the text. A string that
 * holds a NUL is bad.
 */
char *ckpt_json_string(struct ckpt_json *j);

/* The same, with the colon behind it. */
char *ckpt_json_name(struct ckpt_json *j);

/* A whole number, written as such, that fits into 64 bits. */
bool ckpt_json_number(struct ckpt_json *j, uint64_t *n);

/* Skips any value; one of more than CKPT_JSON_DEPTH levels is bad. */
#define CKPT_JSON_DEPTH 32
bool ckpt_json_skip(struct ckpt_json *j);

/* True if nothing but blanks follows. */
bool ckpt_json_over(struct ckpt_json *j);

#endif
