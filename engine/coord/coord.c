/* SPDX-License-Identifier: MIT */
#include "engine/coord/coord.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"

#define ID_DIGITS     (COORD_GEN_MAX - 1)
#define NUMBER_DIGITS 10
#define LOG	      "log"

/* A generation has many records of a kind with @numbers, and the numbers stand behind its name. */
static const struct {
	const char *name;
	unsigned numbers;
} kinds[] = {
	{COORD_NAME, 0}, {COORD_OPEN, 0},     {COORD_PREPARE, 0},
	{COORD_NEXT, 0}, {COORD_DECISION, 0}, {LOG, 2},
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

void coord_log_kind(char kind[COORD_KIND_MAX], uint32_t slot, uint32_t nr)
{
	snprintf(kind, COORD_KIND_MAX, LOG ".%u.%u", slot, nr);
}

bool coord_is_log(const char *kind)
{
	return !strncmp(kind, LOG ".", strlen(LOG "."));
}

void coord_uid_name(char name[COORD_UID_MAX], uid_t owner)
{
	snprintf(name, COORD_UID_MAX, "%u", (unsigned)owner);
}

void coord_record_name(char name[COORD_NAME_MAX], const char *gen, const char *kind)
{
	snprintf(name, COORD_NAME_MAX, "%s.%s", gen, kind);
}

size_t coord_parse_uid(const char *name, uid_t *owner)
{
	size_t digits = strspn(name, "0123456789");
	unsigned long nr = strtoul(name, NULL, 10);

	*owner = (uid_t)nr;
	if (digits > NUMBER_DIGITS || (*name == '0' && digits > 1) || nr >= (uid_t)-1)
		return 0;
	return digits;
}

const char *coord_parse_record(const char *name, char gen[COORD_GEN_MAX])
{
	if (strnlen(name, COORD_GEN_MAX) < COORD_GEN_MAX || name[ID_DIGITS] != '.')
		return NULL;
	memcpy(gen, name, ID_DIGITS);
	gen[ID_DIGITS] = '\0';
	return coord_gen_ok(gen) ? name + COORD_GEN_MAX : NULL;
}
