/* SPDX-License-Identifier: MIT */
#include "engine/views/names.h"

#include <string.h>

bool pattern_ok(const char *pattern)
{
	unsigned nr = 0;

	for (; *pattern; pattern++) {
		const char *end = strpbrk(pattern + 1, "{}");

		if (*pattern == '}')
			return false;
		if (*pattern != '{')
			continue;
		if (!end || *end != '}' || end == pattern + 1 || ++nr > NAMES_CALLED)
			return false;
		pattern = end;
	}
	return true;
}

static int find(const struct called *c, const char *key, size_t len)
{
	for (unsigned i = 0; i < c->nr; i++)
		if (c->list[i].key_len == len && !memcmp(c->list[i].key, key, len))
			return (int)i;
	return -1;
}

static bool call(struct called *c, const char *key, size_t key_len, const char *text, size_t len)
{
	int i = find(c, key, key_len);

	if (i >= 0)
		return c->list[i].len == len && !memcmp(c->list[i].text, text, len);
	if (c->nr == NAMES_CALLED)
		return false;
	c->list[c->nr].key = key;
	c->list[c->nr].key_len = key_len;
	c->list[c->nr].text = text;
	c->list[c->nr].len = len;
	c->nr++;
	return true;
}

/* As deep as the pattern has words; a text is between two dots, so few lengths are tried. */
static bool match(const char *pattern, const char *name, struct called *c)
{
	const char *end;

	while (*pattern && *pattern != '{' && *pattern == *name) {
		pattern++;
		name++;
	}
	if (*pattern != '{')
		return !*pattern && !*name;
	end = strchr(pattern, '}');
	for (size_t len = 1; name[len - 1] && name[len - 1] != '.'; len++) {
		struct called tried = *c;

		if (++tried.steps > NAMES_STEPS)
			return false;
		if (call(&tried, pattern + 1, (size_t)(end - pattern - 1), name, len) &&
		    match(end + 1, name + len, &tried)) {
			*c = tried;
			return true;
		}
		c->steps = tried.steps;
	}
	return false;
}

bool pattern_matches(const char *pattern, const char *name, struct called *called)
{
	called->nr = called->steps = 0;
	return match(pattern, name, called);
}

bool pattern_call(struct called *called, const char *key, const char *text)
{
	return call(called, key, strlen(key), text, strlen(text));
}

bool pattern_fill(const char *pattern, const struct called *called, char *name, size_t size)
{
	size_t at = 0;

	while (*pattern) {
		const char *end = *pattern == '{' ? strchr(pattern, '}') : NULL;
		int i = end ? find(called, pattern + 1, (size_t)(end - pattern - 1)) : -1;
		const char *text = end ? (i < 0 ? NULL : called->list[i].text) : pattern;
		size_t len = !end ? 1 : i < 0 ? 0 : called->list[i].len;

		if (!text || at + len >= size)
			return false;
		memcpy(name + at, text, len);
		at += len;
		pattern = end ? end + 1 : pattern + 1;
	}
	name[at] = '\0';
	return at > 0;
}
