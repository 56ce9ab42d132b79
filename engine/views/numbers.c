/* SPDX-License-Identifier: MIT */
#include "engine/views/numbers.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 2  /* of numbers of the map that are said by others of it */
#define TEXT_MAX  64 /* so the work is bounded */

struct reading {
	const struct numbers *n;
	const char *text, *at;
	char *why;
	unsigned depth;
};

static bool value_of(const struct numbers *n, const json_t *text, uint64_t *value, char *why,
		     unsigned depth);

static bool fail(struct reading *r, const char *format, const char *word)
{
	if (!*r->why)
		snprintf(r->why, NUMBERS_WHY, format, word, r->text);
	return false;
}

static char next(struct reading *r)
{
	while (*r->at == ' ')
		r->at++;
	return *r->at;
}

static bool read_word(struct reading *r, uint64_t *value)
{
	size_t len = 0;
	char word[TEXT_MAX];
	const json_t *number;

	while (isalnum((unsigned char)r->at[len]) || r->at[len] == '_')
		len++;
	if (!len || len >= sizeof(word))
		return fail(r, "'%.80s' is no number, in '%.80s'", r->at);
	memcpy(word, r->at, len);
	word[len] = '\0';
	r->at += len;
	number = json_object_get(r->n->config, word);
	if (!number || json_is_null(number))
		number = json_object_get(r->n->own, word);
	if (!number)
		return fail(r, "the number '%.80s' is neither in config.json nor in the map%.0s",
			    word);
	return value_of(r->n, number, value, r->why, r->depth + 1);
}

static bool read_factor(struct reading *r, uint64_t *value)
{
	char *end;

	if (!isdigit((unsigned char)next(r)))
		return read_word(r, value);
	*value = strtoull(r->at, &end, 10);
	r->at = end;
	return true;
}

static bool read_product(struct reading *r, uint64_t *value)
{
	bool ok = read_factor(r, value);

	while (ok && (next(r) == '*' || *r->at == '/')) {
		bool times = *r->at++ == '*';
		uint64_t other;

		ok = read_factor(r, &other);
		if (ok && times)
			ok = !__builtin_mul_overflow(*value, other, value) ||
			     fail(r, "it is too large%.0s: '%.80s'", "");
		else if (ok && (!other || *value % other))
			ok = fail(r, "it leaves a rest%.0s: '%.80s'", "");
		else if (ok)
			*value /= other;
	}
	return ok;
}

static bool read_sum(struct reading *r, uint64_t *value)
{
	bool ok = read_product(r, value);

	while (ok && (next(r) == '+' || *r->at == '-')) {
		bool plus = *r->at++ == '+';
		uint64_t other;

		ok = read_product(r, &other);
		if (ok && (plus ? __builtin_add_overflow(*value, other, value)
				: __builtin_sub_overflow(*value, other, value)))
			ok = fail(r, "it is too large or below 0%.0s: '%.80s'", "");
	}
	return ok;
}

static bool value_of(const struct numbers *n, const json_t *text, uint64_t *value, char *why,
		     unsigned depth)
{
	struct reading r = {.n = n, .why = why, .depth = depth};

	if (json_is_integer(text) && json_integer_value(text) >= 0) {
		*value = (uint64_t)json_integer_value(text);
		return true;
	}
	r.text = r.at = json_is_string(text) ? json_string_value(text) : "";
	if (!json_is_string(text))
		return fail(&r, "a number is 8, or a text such as 'heads / 2'%.0s%.0s", "");
	if (depth > DEPTH_MAX)
		return fail(&r, "numbers of the map are said by each other%.0s: '%.80s'", "");
	if (strlen(r.text) >= TEXT_MAX)
		return fail(&r, "it is too long%.0s: '%.80s'", "");
	if (!read_sum(&r, value))
		return false;
	return !next(&r) || fail(&r, "'%.80s' is too much, in '%.80s'", r.at);
}

bool number_of(const struct numbers *n, const json_t *text, uint64_t *value, char why[NUMBERS_WHY])
{
	*why = '\0';
	return value_of(n, text, value, why, 0);
}
