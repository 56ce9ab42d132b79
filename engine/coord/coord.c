/* SPDX-License-Identifier: MIT */
#include "engine/coord/coord.h"

#include <string.h>

#include "engine/base/cleanup.h"

#define ID_DIGITS     (COORD_GEN_MAX - 1)
#define NUMBER_DIGITS 10

/* A generation has many records of a kind with @numbers, and the numbers stand behind its name. */
static const struct {
	const char *name;
	unsigned numbers;
} kinds[] = {
	{"name", 0}, {"open", 0}, {"prepare", 0}, {"next", 0}, {"decision", 0}, {"log", 2},
};

static bool is_id(const char *id)
{
	return strspn(id, "0123456789abcdef") == ID_DIGITS && !id[ID_DIGITS];
}

bool coord_gen_ok(const char *gen)
{
	return is_id(gen);
}

bool coord_node_ok(const char *node)
{
	return is_id(node);
}

/* True if @at is @nr times a dot and a number, and nothing else. */
static bool has_numbers(const char *at, unsigned nr)
{
	size_t digits;

	for (; nr; nr--, at += digits) {
		if (*at++ != '.')
			return false;
		digits = strspn(at, "0123456789");
		if (!digits || digits > NUMBER_DIGITS || (*at == '0' && digits > 1))
			return false;
	}
	return !*at;
}

bool coord_kind_ok(const char *kind)
{
	size_t i, len;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		len = strlen(kinds[i].name);
		if (!strncmp(kind, kinds[i].name, len) && has_numbers(kind + len, kinds[i].numbers))
			return true;
	}
	return false;
}
