/* SPDX-License-Identifier: MIT */
/*
 * The numbers of a map: 8, or "heads / kv_heads + 2". A word is a number of the model's
 * config.json; or one of the map itself, which may be such a text again. No state.
 */
#ifndef ENGINE_VIEWS_NUMBERS_H
#define ENGINE_VIEWS_NUMBERS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NUMBERS_WHY 256

struct numbers {
	const json_t *config, *own; /* objects, or NULL */
};

/*
 * The value of @text, a number or a text. False, with @why: a word is not known, a division leaves
 * a rest, or it is none at all.
 */
bool number_of(const struct numbers *n, const json_t *text, uint64_t *value, char why[NUMBERS_WHY]);

#endif
