/* SPDX-License-Identifier: MIT */
/*
 * The bounded namespace: a path is one to four components out of this table.
 * A token is how a component is written in a trace; usually it is the name.
 */
#include "randops.h"

#include <string.h>

#define A50  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define A250 A50 A50 A50 A50 A50

struct name {
	const char *token, *real;
};

/* The first NR_DIR_NAMES are mostly directories. */
static const struct name names[] = {
	{"d0", "d0"},
	{"d1", "d1"},
	{"d2", "d2"},
	{"d3", "d3"},
	{"f0", "f0"},
	{"f1", "f1"},
	{"f2", "f2"},
	{"f3", "f3"},
	{"f4", "f4"},
	{"f5", "f5"},
	{"f6", "f6"},
	{"f7", "f7"},
	{"f8.bin", "f8.bin"},
	{".hidden", ".hidden"},
	/* from here: odd names */
	{"-dash", "-dash"},
	{"SPACES", " two words "},
	{"NEWLINE", "new\nline"},
	{"NON_UTF8", "\xff\xfe\x80name"},
	{"BACKSLASH", "back\\slash*?\"'"},
	{"LONG255", A250 "55555"},
	{"TOO_LONG256", A250 "666666"},
};
enum { FIRST_FILE = NR_DIR_NAMES, FIRST_ODD = 14, LONG = 19, TOO_LONG = 20 };

const unsigned int nr_names = sizeof(names) / sizeof(names[0]);

static void path_join(const struct path *p, char *out, bool real)
{
	const char *part;
	int i;

	strcpy(out, p->n ? "" : ".");
	for (i = 0; i < p->n; i++) {
		part = real ? names[p->c[i]].real : names[p->c[i]].token;
		if (i)
			strcat(out, "/");
		strcat(out, part);
	}
}

void path_real(const struct path *p, char *out)
{
	path_join(p, out, true);
}

void path_token(const struct path *p, char *out)
{
	path_join(p, out, false);
}

static int token_find(const char *token, size_t len)
{
	unsigned int i;

	for (i = 0; i < nr_names; i++) {
		if (strlen(names[i].token) == len && !memcmp(names[i].token, token, len))
			return i;
	}
	return -1;
}

int path_parse(const char *text, struct path *p)
{
	size_t len;
	int id;

	p->n = 0;
	if (!strcmp(text, "."))
		return 0;
	for (;;) {
		len = strcspn(text, "/");
		id = token_find(text, len);
		if (id < 0 || p->n == PATH_DEPTH)
			return -1;
		p->c[p->n++] = id;
		if (!text[len])
			return 0;
		text += len + 1;
	}
}

unsigned int name_pick(struct rng *rng, bool long_ok, bool odd_ok, bool toolong_ok)
{
	unsigned int roll = rng_below(rng, 100);

	if (roll < 1 && toolong_ok)
		return TOO_LONG;
	if (roll < 6 && long_ok)
		return LONG;
	if (roll < 20 && odd_ok)
		return FIRST_ODD + rng_below(rng, LONG - FIRST_ODD);
	if (roll < 30)
		return rng_below(rng, NR_DIR_NAMES);
	return FIRST_FILE + rng_below(rng, FIRST_ODD - FIRST_FILE);
}

const char *xattr_name(unsigned int n)
{
	static const char *const list[NR_XATTR_NAMES] = {
		"user.a",
		"user.step",
		"user.with space",
		"user.a-rather-long-attribute-name-of-more-than-sixty-bytes-in-all",
	};

	return list[n % NR_XATTR_NAMES];
}
