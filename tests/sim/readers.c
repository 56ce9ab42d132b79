/* SPDX-License-Identifier: MIT */
/*
 * Who asks `ckptfs ls` or `ckptfs latest`, in the mount or on the bare backing, and what must be
 * true of the answer:
 *
 *  I10 listed  what is called committed was so while it was asked; what stood committed all that
 *              time is called so; in a mount, what is being saved once more is called that instead.
 *              Nothing that a job saves is called foreign, and what is whole is not called damaged
 *  I11 newest  `latest` names what is called committed, and nothing beside it is newer, or was
 *              begun after that was there; nobody is told of an older one than before, unless that
 *              was removed, replaced, or is being saved once more
 *
 * A question takes time: what changes while it is asked may be told as it was or as it is. Which of
 * two is newer is told by the sequence in their commit files, as ckptfs(1) says. Where a call of
 * the program has failed, or a power cut took what was not durable, less is promised.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/commit/report.h"
#include "engine/save/units.h"
#include "fs/catalog.h"
#include "tests/sim/check.h"
#include "tests/sim/program.h"
#include "tests/sim/rank.h"

#define TOLD_MAX   64
#define ON_BACKING " on the backing"

/* One run of the program. */
struct question {
	const struct rank *r;
	const char *verb, *top;
	unsigned changes, losses; /* of check.h, when it was asked */
	json_t *pending;	  /* on its node, then */
	struct catalog c;
	unsigned errors; /* calls that have failed */
	struct error e;
	int err;
};

static void complain(const char *text)
{
	story("(ckptfs: %s)", text);
}

static bool in_mount(const struct question *q)
{
	return !strcmp(q->top, PROGRAM_MOUNT);
}

static void ask(struct question *q, struct rank *r, const char *verb, const char *where)
{
	*q = (struct question){.r = r,
			       .verb = verb,
			       .top = *where ? PROGRAM_BACKING : PROGRAM_MOUNT,
			       .changes = check_changes(),
			       .losses = check_losses()};
	q->pending = units_to_json(r->proc.m->en.units, 0, true);
	program_begin(&r->proc);
	q->err = catalog_read(&q->c, q->top, 0, complain, &q->e);
	program_end();
	q->errors = program_errors();
	if (q->err)
		story("(ckptfs: %s)", q->e.text);
}

static void answered(struct question *q)
{
	catalog_finish(&q->c);
	json_decref(q->pending);
}

/* The path as plans have it. */
static const char *name_of(const struct question *q, const struct unit_entry *u)
{
	return u->path + strlen(q->top) + 1;
}

static struct unit_entry *entry_of(const struct question *q, const char *name)
{
	size_t i;

	for (i = 0; i < q->c.nr; i++)
		if (!strcmp(name_of(q, &q->c.list[i]), name))
			return &q->c.list[i];
	return NULL;
}

static bool says_committed(const struct unit_entry *u)
{
	return u->state == UNIT_COMMITTED || (u->state == UNIT_MODIFIED && u->is_dir);
}

static bool is_in(const json_t *pending, const char *name)
{
	const json_t *p;
	size_t i;

	json_array_foreach (pending, i, p)
		if (!strcmp(json_get_text(p, "path", ""), name))
			return true;
	return false;
}

/* True if the node is saving it now, and was not when it was asked. */
static bool began_meanwhile(const struct question *q, const char *name)
{
	json_t *now = in_mount(q) ? units_to_json(q->r->proc.m->en.units, 0, true) : NULL;
	bool began = is_in(now, name) && !is_in(q->pending, name);

	json_decref(now);
	return began;
}

static bool is_saved_again(const struct question *q, const char *name)
{
	const struct unit_entry *u = entry_of(q, name);

	return in_mount(q) && ((u && u->state == UNIT_SAVING) || began_meanwhile(q, name));
}

/* True if some of it may be missing, by its own words. */
static bool is_excused(const struct question *q)
{
	return q->err || q->errors || q->c.nr_unseen || q->r->killed || check_losses() != q->losses;
}

/* --- I10 --- */

static bool changed_meanwhile(const struct question *q, const char *name)
{
	struct standing s;
	unsigned at = 0;

	while (check_next(&at, &s))
		if (!strcmp(s.name, name))
			return s.changed > q->changes;
	return false;
}

/* What is wrong with that answer; NULL: nothing. */
static const char *objection(const struct question *q, const struct unit_entry *u)
{
	if (says_committed(u))
		return check_was_shown(u->generation, q->changes) ? NULL : "which was not so";
	if (is_excused(q))
		return NULL;
	if (u->state == UNIT_FOREIGN && u->is_dir)
		return "which a job has saved";
	if (u->state == UNIT_DAMAGED && !changed_meanwhile(q, name_of(q, u)))
		return "which was whole";
	return NULL;
}

static void look_entry(const struct question *q, const struct unit_entry *u)
{
	const char *name = name_of(q, u), *why = objection(q, u);
	unsigned nr;

	if (!why || !shape_of_unit(name, &nr))
		return;
	wrong("I10: %s tells %c%u that %s is %s, %s (generation %.6s)", q->verb, q->r->job->name,
	      q->r->nr, name, u->word, why, u->generation);
}

static void look_standing(const struct question *q, const struct standing *s)
{
	const struct unit_entry *u = entry_of(q, s->name);

	/* The last question comes last: other threads run during the one before it. */
	if (!s->committed || s->may_go || is_saved_again(q, s->name) ||
	    changed_meanwhile(q, s->name))
		return;
	if (!u || !says_committed(u) || strcmp(u->generation, s->generation) != 0)
		wrong("I10: %s tells %c%u that %s is %s, and it is committed, as generation %.6s",
		      q->verb, q->r->job->name, q->r->nr, s->name, u ? u->word : "not there",
		      s->generation);
}

static void look_answer(const struct question *q)
{
	struct standing s;
	unsigned at = 0;
	size_t i;

	for (i = 0; i < q->c.nr; i++)
		look_entry(q, &q->c.list[i]);
	while (!is_excused(q) && check_next(&at, &s))
		look_standing(q, &s);
	if (q->err && !q->r->killed && !check_forgives())
		wrong("I10: %s tells %c%u nothing, and nothing has disturbed it: %s", q->verb,
		      q->r->job->name, q->r->nr, q->e.text);
}

/* --- I11 --- */

/* What `latest` has told a process, or those that have taken its place. */
struct told {
	char job;
	unsigned rank;
	const char *top;
	char name[32], generation[COMMIT_HEX];
	uint64_t sequence;
	unsigned losses;
};

static struct told all_told[TOLD_MAX];
static unsigned nr_told;

static struct told *told_of(const struct question *q)
{
	unsigned i;

	for (i = 0; i < nr_told; i++)
		if (all_told[i].job == q->r->job->name && all_told[i].rank == q->r->nr &&
		    !strcmp(all_told[i].top, q->top))
			return &all_told[i];
	if (nr_told == TOLD_MAX)
		return NULL;
	all_told[nr_told] = (struct told){.job = q->r->job->name, .rank = q->r->nr, .top = q->top};
	return &all_told[nr_told++];
}

/* True if what was told before has stood all the time, and is not being saved once more. */
static bool still_stands(const struct question *q, const struct told *t)
{
	struct standing s;
	unsigned at = 0;

	while (check_next(&at, &s))
		if (!strcmp(s.name, t->name))
			return s.committed && !s.may_go && s.changed <= q->changes &&
			       !strcmp(s.generation, t->generation) && !is_saved_again(q, s.name);
	return false;
}

static bool beside(const char *a, const char *b)
{
	size_t la = path_parent(a), lb = path_parent(b);

	return la == lb && !strncmp(a, b, la);
}

static void look_older(const struct question *q, const struct told *t, const struct unit_entry *u)
{
	if (!*t->name || t->losses != check_losses() || is_excused(q) || !still_stands(q, t))
		return;
	if (!u || (beside(name_of(q, u), t->name) && u->sequence < t->sequence))
		wrong("I11: latest tells %c%u of %s, and has told of %s before, which is there, "
		      "and newer",
		      t->job, t->rank, u ? name_of(q, u) : "nothing", t->name);
}

static void look_newer(const struct question *q, const struct unit_entry *u)
{
	size_t i;

	for (i = 0; u && i < q->c.nr; i++)
		if (says_committed(&q->c.list[i]) && beside(q->c.list[i].path, u->path) &&
		    q->c.list[i].is_dir && q->c.list[i].sequence > u->sequence)
			wrong("I11: latest tells %c%u of %s, and %s is newer", q->r->job->name,
			      q->r->nr, name_of(q, u), name_of(q, &q->c.list[i]));
}

static void note_told(struct told *t, const struct question *q, const struct unit_entry *u)
{
	if (!u)
		return;
	snprintf(t->name, sizeof(t->name), "%s", name_of(q, u));
	memcpy(t->generation, u->generation, sizeof(t->generation));
	t->sequence = u->sequence;
	t->losses = q->losses;
}

/*
 * What stood all the time, and was begun only after @u was there, is newer, whatever the commit
 * files say.
 */
static void look_later(const struct question *q, const struct unit_entry *u)
{
	struct standing s, told = {.name = NULL};
	unsigned at = 0;

	while (u && check_next(&at, &s))
		if (!strcmp(s.name, name_of(q, u)) && !strcmp(s.generation, u->generation))
			told = s;
	if (!told.name || is_excused(q))
		return;
	for (at = 0; check_next(&at, &s);)
		if (s.committed && !s.may_go && s.changed <= q->changes && s.begun > told.changed &&
		    beside(s.name, told.name) && !is_saved_again(q, s.name))
			wrong("I11: latest tells %c%u of %s, and %s was begun after that was there",
			      q->r->job->name, q->r->nr, told.name, s.name);
}

/* NULL: none. */
static const struct unit_entry *newest(struct question *q)
{
	const struct unit_entry *u = newest_committed(&q->c);
	struct told *t = told_of(q);

	story("%c%u is told by latest%s: %s", q->r->job->name, q->r->nr,
	      in_mount(q) ? "" : ON_BACKING, u ? name_of(q, u) : "nothing");
	look_newer(q, u);
	look_later(q, u);
	if (!t || q->r->killed)
		return u;
	look_older(q, t, u);
	note_told(t, q, u);
	return u;
}

/* --- the verbs --- */

static void tell_list(const struct question *q, char have[], size_t size)
{
	size_t i;

	*have = '\0';
	for (i = 0; i < q->c.nr; i++)
		if (says_committed(&q->c.list[i]))
			snprintf(have + strlen(have), size - strlen(have), "%s%s", *have ? " " : "",
				 name_of(q, &q->c.list[i]));
	if (!*have)
		snprintf(have, size, "nothing");
}

static int do_latest(struct rank *r, const char *where)
{
	struct question q;

	ask(&q, r, "latest", where);
	look_answer(&q);
	if (!q.err)
		newest(&q);
	answered(&q);
	return 0;
}

static int do_ls(struct rank *r, const char *where)
{
	char have[256];
	struct question q;

	ask(&q, r, "ls", where);
	look_answer(&q);
	tell_list(&q, have, sizeof(have));
	story("%c%u is told by ls%s: %s", r->job->name, r->nr, where, have);
	answered(&q);
	return 0;
}

/* "step-1 from latest", "step-1 step-2 from ls on the backing". */
static int do_hear(struct rank *r, const char *object)
{
	const char *from = strstr(object, " from "), *where = strstr(object, ON_BACKING);
	char have[256] = "nothing", want[96];
	const struct unit_entry *u;
	struct question q;
	bool latest;

	if (!from)
		return -EBADMSG;
	snprintf(want, sizeof(want), "%.*s", (int)(from - object), object);
	latest = !strncmp(from, " from latest", 12);
	ask(&q, r, latest ? "latest" : "ls", where ? where : "");
	look_answer(&q);
	if (!latest)
		tell_list(&q, have, sizeof(have));
	else if ((u = newest(&q)))
		snprintf(have, sizeof(have), "%s", name_of(&q, u));
	if (!q.err && !q.c.nr_unseen && strcmp(have, want) != 0)
		wrong("expected: %c%u hears %s, not '%s'", r->job->name, r->nr, object, have);
	answered(&q);
	return 0;
}

static const struct verb verbs[] = {
	{"asks for latest", do_latest},
	{"asks for ls", do_ls},
	{"hears ", do_hear},
};

const struct verb *verb_of_reader(const char *what)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(verbs); i++)
		if (!strncmp(what, verbs[i].text, strlen(verbs[i].text)))
			return &verbs[i];
	return NULL;
}
