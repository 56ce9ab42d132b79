/* SPDX-License-Identifier: MIT */
#include "tests/model/singles.h"

#include <errno.h>
#include <string.h>

#include "tests/model/look.h"
#include "tests/model/reference.h"

#define NR_SINGLES 2

static const unsigned names[NR_SINGLES] = {NAME_SINGLE, NAME_SINGLE_TEMP};

static struct single {
	struct version {
		bool there;
		unsigned len;
		char data[DATA_MAX];
	} versions[OPS_MAX + 2]; /* [0]: absent */
	int nr;
	bool unsure;
	int promised[OPS_MAX + 2]; /* after each mark: a version; -1: none is */
} singles[NR_SINGLES];

void singles_begin(void)
{
	unsigned i;

	memset(singles, 0, sizeof(singles));
	for (i = 0; i < NR_SINGLES; i++) {
		singles[i].nr = 1;
		singles[i].promised[0] = -1;
	}
}

static bool same(const struct version *a, const struct version *b)
{
	return a->there == b->there && a->len == b->len && !memcmp(a->data, b->data, a->len);
}

static bool is_open(int file)
{
	unsigned i;

	for (i = 0; file >= 0 && i < NR_OPENS; i++)
		if (ref.opens[i].used && ref.opens[i].file == file)
			return true;
	return false;
}

static const char *wanted; /* of the walk below */
static struct version found;

static void note_path(const char *path, bool directory, const char *data, unsigned len)
{
	if (directory || strcmp(path, wanted))
		return;
	found.there = true;
	found.len = len;
	memcpy(found.data, data, len);
}

void singles_note(void)
{
	unsigned i;

	for (i = 0; i < NR_SINGLES; i++) {
		struct single *s = &singles[i];

		wanted = name_of(names[i]);
		if (is_open(ref_file(wanted)))
			continue;
		memset(&found, 0, sizeof(found));
		ref_each(note_path);
		if (same(&found, &s->versions[s->nr - 1]) || s->nr == OPS_MAX + 2)
			continue;
		s->versions[s->nr++] = found;
		if (found.there)
			s->unsure = false;
	}
}

void singles_unsure(void)
{
	unsigned i;

	singles_note();
	for (i = 0; i < NR_SINGLES; i++)
		singles[i].unsure = true;
}

void singles_mark(unsigned mark)
{
	unsigned i;

	for (i = 0; i < NR_SINGLES; i++) {
		struct single *s = &singles[i];
		bool there = s->versions[s->nr - 1].there;

		s->promised[mark] = s->unsure || !there ? -1 : s->nr - 1;
	}
}

void singles_look_cut(struct backing *b, unsigned mark)
{
	unsigned i;

	for (i = 0; i < NR_SINGLES; i++) {
		const struct single *s = &singles[i];
		/* What the next operation has done may be there, too. */
		int from = s->promised[mark + 1] < 0 ? -1 : s->promised[mark], at = s->nr;
		struct version v = {.there = true};
		ssize_t n = look_file(b, name_of(names[i]), v.data);

		if (n < 0)
			v.there = false;
		v.len = n < 0 ? 0 : (unsigned)n;
		while (at-- > 0 && !same(&s->versions[at], &v))
			;
		if (n < 0 && n != -ENOENT)
			wrong("%s cannot be read: %s", name_of(names[i]), strerror((int)-n));
		else if (at < 0)
			wrong("%s is as it never was: %u bytes '%.*s'", name_of(names[i]), v.len,
			      (int)v.len, v.data);
		else if (at < from)
			wrong("%s is as it was before what was promised: %u bytes '%.*s'",
			      name_of(names[i]), v.len, (int)v.len, v.data);
	}
}
