/* SPDX-License-Identifier: MIT */
#include "tests/crowd/records.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/table.h"

struct record {
	char kind[COORD_KIND_MAX];
	char *text;	/* NULL: missing */
	unsigned asked; /* on the backing: in which round */
};

static struct {
	struct backing *backing;
	struct caller owner;
	const char *gen;
	unsigned daemons, round;
	struct record *records;
	size_t size, nr;
} all;

void records_begin(struct backing *b, const struct caller *owner, const char *gen, unsigned daemons,
		   unsigned most)
{
	all.backing = b;
	all.owner = *owner;
	all.gen = gen;
	all.daemons = daemons;
	all.round = 1;
	for (all.size = 1024; all.size < 2ul * most;)
		all.size *= 2;
	all.records = calloc(all.size, sizeof(*all.records));
	if (!all.records)
		err(1, "records");
}

void records_refresh(void)
{
	all.round++;
}

static struct record *find(const char *kind)
{
	size_t i;

	for (i = hash_text(0, kind);; i++) {
		struct record *r = &all.records[i & (all.size - 1)];

		if (!*r->kind) {
			if (++all.nr > all.size / 4 * 3)
				errx(1, "too many records");
			snprintf(r->kind, sizeof(r->kind), "%s", kind);
		}
		if (!strcmp(r->kind, kind))
			return r;
	}
}

static bool is_real(const char *kind)
{
	unsigned slot;

	return sscanf(kind, "log.%u.", &slot) != 1 || slot < all.daemons;
}

static char *copy(const char *text, size_t len)
{
	char *s = strndup(text, len);

	if (!s)
		err(1, "records");
	return s;
}

const char *records_read(const char *kind)
{
	static char text[COORD_TEXT_MAX];
	struct record *r = find(kind);
	ssize_t len;

	if (r->text || !is_real(kind) || r->asked == all.round)
		return r->text;
	r->asked = all.round;
	len = coord_dir_ops.read(all.backing, all.owner.uid, all.gen, kind, text, sizeof(text));
	if (len >= 0)
		r->text = copy(text, (size_t)len);
	return r->text;
}

const char *records_make(const char *kind, const char *text, bool *ours)
{
	static char first[COORD_TEXT_MAX];
	struct record *r = find(kind);
	size_t len = 0;
	int made;

	if (!r->text && is_real(kind)) {
		made = coord_dir_ops.record(all.backing, &all.owner, all.gen, kind, text,
					    strlen(text), first, &len);
		if (made < 0)
			errx(1, "%s: %s", kind, strerror(-made));
		r->text = made ? copy(text, strlen(text)) : copy(first, len);
	} else if (!r->text) {
		r->text = copy(text, strlen(text));
	}
	*ours = !strcmp(r->text, text);
	return r->text;
}
