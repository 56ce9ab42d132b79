/* SPDX-License-Identifier: MIT */
/* The patterns of a rule, and which names and paths fit them. Pure. */
#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/rule/internal.h"

#define EXPANDED_MAX 4096 /* of a pattern with its placeholders replaced */

/* A pattern whose placeholders are being replaced. */
struct expansion {
	char *buf;
	size_t size, len;
	bool literal; /* the result is a name, so inserted text needs no backslashes */
};

static bool put(struct expansion *x, const char *text, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++) {
		if (x->len + 3 >= x->size)
			return false;
		if (!x->literal && strchr("*?[\\", text[i]))
			x->buf[x->len++] = '\\';
		x->buf[x->len++] = text[i];
	}
	return true;
}

/* Inserts {name}, or {name%SUFFIX}: the name without SUFFIX, with which it must end. */
static bool put_name(struct expansion *x, const char *name, const char *suffix, size_t len)
{
	size_t rest = strlen(name);

	if (rest <= len || memcmp(name + rest - len, suffix, len))
		return false;
	return put(x, name, rest - len);
}

/* Replaces {name}, {name%SUFFIX} and {rank} by @name and @rank, a number. */
static bool expand(const char *pattern, const char *name, const char *rank, struct expansion *x)
{
	while (*pattern) {
		size_t plain = strcspn(pattern, "{");
		const char *end = strchr(pattern + plain, '}');
		bool ok = true;

		if (x->len + plain + 1 > x->size)
			return false;
		memcpy(x->buf + x->len, pattern, plain);
		x->len += plain;
		pattern += plain;
		if (!*pattern)
			break;
		if (!strncmp(pattern, "{rank", 5))
			ok = put(x, rank, strlen(rank));
		else if (pattern[5] == '%')
			ok = put_name(x, name, pattern + 6, (size_t)(end - pattern - 6));
		else
			ok = put_name(x, name, "", 0);
		if (!ok)
			return false;
		pattern = end + 1;
	}
	x->buf[x->len] = '\0';
	return true;
}

static bool matches(const char *pattern, const char *path)
{
	return !fnmatch(pattern, path, FNM_PATHNAME);
}

static const char *last_component(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

bool patterns_fit_path(const json_t *patterns, const char *path)
{
	const json_t *json;
	size_t i;

	json_array_foreach (patterns, i, json) {
		const char *pattern = json_string_value(json);

		if (matches(pattern, strchr(pattern, '/') ? path : last_component(path)))
			return true;
	}
	return false;
}

/*
 * Strips the random end of a copy's temporary name: ".NAME.XXXXXX" becomes ".NAME". The dot may be
 * the file's own: a copy of ".metadata" is ".metadata.XXXXXX". False: not such a name.
 */
static bool copy_of(const char *temp, char out[NAME_MAX + 1])
{
	size_t len = strlen(temp), i;

	if (len < 9 || len > NAME_MAX || temp[0] != '.' || temp[len - 7] != '.')
		return false;
	for (i = len - 6; i < len; i++)
		if (!isalnum((unsigned char)temp[i]))
			return false;
	memcpy(out, temp, len - 7);
	out[len - 7] = '\0';
	return true;
}

bool rules_is_copy(const char *temp, const char *name)
{
	char dotted[NAME_MAX + 1];

	return copy_of(temp, dotted) && (!strcmp(dotted, name) || !strcmp(dotted + 1, name));
}

static bool fits_one(const json_t *patterns, const char *file)
{
	const json_t *json;
	size_t i;

	json_array_foreach (patterns, i, json)
		if (matches(json_string_value(json), file))
			return true;
	return false;
}

bool patterns_fit_file(const json_t *patterns, const char *file)
{
	int above = (int)(last_component(file) - file);
	char copy[PATH_MAX], dotted[NAME_MAX + 1];

	if (fits_one(patterns, file))
		return true;
	if (!copy_of(file + above, dotted) || strlen(file) >= sizeof(copy))
		return false;
	snprintf(copy, sizeof(copy), "%.*s%s", above, file, dotted);
	if (fits_one(patterns, copy))
		return true;
	snprintf(copy, sizeof(copy), "%.*s%s", above, file, dotted + 1);
	return fits_one(patterns, copy);
}

bool patterns_fit_beside(const json_t *names, const char *path,
			 bool (*beside)(void *arg, const char *name), void *arg)
{
	const json_t *json;
	size_t i;

	json_array_foreach (names, i, json) {
		char name[NAME_MAX + 3]; /* put() needs room for an escape */
		struct expansion x = {.buf = name, .size = sizeof(name), .literal = true};

		if (expand(json_string_value(json), last_component(path), "", &x) &&
		    x.len <= NAME_MAX && beside(arg, name))
			return true;
	}
	return false;
}

static bool matches_as(const char *pattern, const char *unit_name, const char *rank,
		       const char *path)
{
	char buf[EXPANDED_MAX];
	struct expansion x = {.buf = buf, .size = sizeof(buf)};

	return expand(pattern, unit_name, rank, &x) && matches(buf, path);
}

bool evidence_matches(const struct evidence *ev, const char *unit_name, const char *path, int *rank)
{
	size_t at, len;

	if (rank)
		*rank = -1;
	if (!ev->pattern)
		return false;
	if (!strstr(ev->pattern, "{rank}"))
		return matches_as(ev->pattern, unit_name, "", path);
	/* Any number in the path may be the rank. */
	for (at = 0; path[at]; at += len ? len : 1) {
		char number[10];

		len = strspn(path + at, "0123456789");
		if (!len || len >= sizeof(number))
			continue;
		memcpy(number, path + at, len);
		number[len] = '\0';
		if (!matches_as(ev->pattern, unit_name, number, path))
			continue;
		if (rank)
			*rank = atoi(number);
		return true;
	}
	return false;
}
