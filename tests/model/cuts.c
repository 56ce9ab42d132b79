/* SPDX-License-Identifier: MIT */
#include "tests/model/cuts.h"

#include "engine/coord/coord.h"
#include "engine/redo/recover.h"
#include "engine/redo/trash.h"
#include "tests/backing/crash.h"
#include "tests/model/look.h"
#include "tests/model/point.h"
#include "tests/model/singles.h"
#include "tests/model/sweep.h"
#include "tests/model/world.h"

#define MARKS_MAX (OPS_MAX + 1)

/* All that a unit ever was, in order. */
static struct past {
	struct snap *snaps;
	unsigned nr, room;
	unsigned unknown_from; /* mark */
} pasts[NR_UNITS];

/* After each mark: since which moment of its past it is there; -1: nothing is promised. */
static int promised[MARKS_MAX][NR_UNITS];
static unsigned nr_marks;

void cuts_begin(void)
{
	unsigned u;

	memset(pasts, 0, sizeof(pasts));
	memset(promised, -1, sizeof(promised));
	singles_begin();
	nr_marks = 0;
	for (u = 0; u < NR_UNITS; u++)
		pasts[u].unknown_from = UINT_MAX;
}

void cuts_end(void)
{
	unsigned u;

	for (u = 0; u < NR_UNITS; u++)
		free(pasts[u].snaps);
	memset(pasts, 0, sizeof(pasts));
}

void cuts_may_be(unsigned u, const struct snap *s)
{
	struct past *p = &pasts[u];

	if (p->nr && snap_same(&p->snaps[p->nr - 1], s))
		return;
	if (p->nr == p->room) {
		p->room = p->room ? 2 * p->room : 16;
		p->snaps = realloc(p->snaps, p->room * sizeof(*p->snaps));
		if (!p->snaps)
			abort();
	}
	p->snaps[p->nr++] = *s;
}

void cuts_unknown(unsigned u)
{
	if (pasts[u].unknown_from > nr_marks)
		pasts[u].unknown_from = nr_marks;
}

static int last_time(const struct past *p, const struct snap *s)
{
	unsigned i;

	for (i = p->nr; i-- > 0;)
		if (snap_same(&p->snaps[i], s))
			return (int)i;
	return -1;
}

void cuts_mark(void)
{
	unsigned u;

	for (u = 0; u < NR_UNITS; u++) {
		const struct unit *n = &ref.units[u];

		if (n->back_unknown || n->view_unknown)
			cuts_unknown(u);
		promised[nr_marks + 1][u] =
			n->committed && !n->may_go ? last_time(&pasts[u], &n->old) : -1;
	}
	nr_marks++;
	singles_mark(nr_marks);
	if (world.record)
		record_mark(world.record, (int)nr_marks);
}

/* --- after a crash --- */

struct recovering {
	struct backing *backing;
	int err;
};

static void redone(void *recovering, const struct caller *owner, const char *unit,
		   const char *staging, int err)
{
	struct recovering *k = recovering;

	(void)owner;
	(void)staging;
	if (err) {
		wrong("recovery: %s: %s", unit, strerror(-err));
		k->err = err;
	}
}

static void followed(void *recovering, const struct caller *owner, const char *path, bool removed,
		     const char *unit, int err)
{
	struct recovering *k = recovering;

	(void)owner;
	(void)removed;
	if (err) {
		wrong("recovery: %s does not follow %s: %s", path, unit, strerror(-err));
		k->err = err;
	}
}

static void trashed(void *recovering, const struct caller *owner, int dir, const char *id)
{
	struct recovering *k = recovering;
	char name[64];

	(void)owner;
	trash_name(name, id);
	trash_remove(k->backing, NULL, dir, name);
}

static struct rules *rules;

static void recover(struct backing *b)
{
	struct recovering k = {.backing = b};
	struct recovery rec = {.backing = b,
			       .coord = &coord_dir_ops,
			       .coord_arg = b,
			       .alone = true,
			       .rules = rules,
			       .redone = redone,
			       .followed = followed,
			       .trashed = trashed,
			       .arg = &k};
	int err = recover_decided(&rec);

	if (err && !k.err)
		wrong("recovery: %s", strerror(-err));
}

/* @recovered: until then a unit that is replaced without an exchange may be absent. */
static void look_at(const struct crash_state *s, unsigned u, bool recovered)
{
	const struct past *p = &pasts[u];
	char generation[GENERATION], why[300] = "", text[600];
	int since = promised[s->mark][u], when;
	struct snap found;

	/* What the next operation has done may be there, too. */
	if (s->mark + 1 < MARKS_MAX && (unsigned)s->mark < nr_marks && promised[s->mark + 1][u] < 0)
		since = -1;
	if (p->unknown_from <= (unsigned)s->mark + 1)
		return;
	switch (look_unit(s->backing, u, &found, generation, why, sizeof(why))) {
	case FOUND_NOTHING:
		if (since >= 0 && recovered)
			wrong("%s was committed, and is not there", name_of(NAME_UNIT(u)));
		return;
	case FOUND_PLAIN:
		wrong("%s has no commit file", name_of(NAME_UNIT(u)));
		return;
	case FOUND_BROKEN:
		wrong("%s is broken: %s", name_of(NAME_UNIT(u)), why);
		return;
	case FOUND_UNIT:
		break;
	}
	when = last_time(p, &found);
	snap_print(&found, text, sizeof(text));
	if (when < 0)
		wrong("%s is as it never was: %s", name_of(NAME_UNIT(u)), text);
	else if (when < since)
		wrong("%s is as it was before it was committed anew: %s", name_of(NAME_UNIT(u)),
		      text);
}

static int check(void *arg, const struct crash_state *s)
{
	unsigned u;

	(void)arg;
	for (u = 0; u < NR_UNITS; u++)
		look_at(s, u, false);
	singles_look_cut(s->backing, (unsigned)s->mark);
	if (!is_wrong())
		recover(s->backing);
	if (!is_wrong())
		sweep(s->backing);
	for (u = 0; !is_wrong() && u < NR_UNITS; u++)
		look_at(s, u, true);
	if (!is_wrong())
		point_look_cut(s->backing);
	if (!is_wrong())
		singles_look_cut(s->backing, (unsigned)s->mark);
	return is_wrong();
}

unsigned cuts_explore(unsigned states)
{
	struct crash_options options = {.seed = 1, .random = 2, .max_states = states};
	struct crash_report report;
	struct error e;
	int err;

	if (rules_create(&rules, NULL, "", &e)) {
		wrong("%s", e.text);
		return 0;
	}
	err = crash_explore(world.record, &options, check, NULL, &report);
	rules_destroy(rules);
	if (err < 0)
		wrong("crashes could not be explored: %s", report.what);
	if (err == 1) {
		strncat(model_wrong,
			"\n    after this crash: ", MODEL_WRONG_MAX - strlen(model_wrong) - 1);
		strncat(model_wrong, report.what, MODEL_WRONG_MAX - strlen(model_wrong) - 1);
	}
	return (unsigned)report.checked;
}
