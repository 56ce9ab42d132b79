/* SPDX-License-Identifier: MIT */
/*
 * Patterns of names: "layers.{n}.weight". `{n}` stands for some text without a '.', which is called
 * n. No state.
 */
#ifndef ENGINE_VIEWS_NAMES_H
#define ENGINE_VIEWS_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#define NAMES_CALLED 8
#define NAMES_STEPS  10000 /* a name that takes more to compare is not of the pattern */

/* What was called so in a name; keys and texts lie in the pattern and the name. */
struct called {
	struct {
		const char *key, *text;
		size_t key_len, len;
	} list[NAMES_CALLED];
	unsigned nr;
	unsigned steps; /* private */
};

/* True if each '{' has its '}', with a word between them, and there are no more than fit. */
bool pattern_ok(const char *pattern);

/* True if @name is of the pattern, which is ok. *@called: what is called how. */
bool pattern_matches(const char *pattern, const char *name, struct called *called);

/* Adds what the caller itself calls so. False: it is called something else there. */
bool pattern_call(struct called *called, const char *key, const char *text);

/* Writes the name that @pattern is of these. False: a word is not called, or it is too long. */
bool pattern_fill(const char *pattern, const struct called *called, char *name, size_t size);

#endif
