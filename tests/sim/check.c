/* SPDX-License-Identifier: MIT */
#include "tests/sim/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/format/commit.h"
#include "tests/sim/eye.h"
#include "tests/sim/ranks.h"
#include "tests/sim/save.h"
#include "tests/sim/service.h"
#include "tests/sim/story.h"
#include "tests/sim/world.h"

#define UNITS_MAX 64

struct unit {
	char name[32];
	uint64_t ino, commit_ino; /* as last seen; 0: it was not there */
	bool committed, may_go;
	bool dwindles; /* it was committed whole, and some of its files were removed since */
	bool with_all; /* and so may the directory that it is in */
	unsigned committed_at; /* when what it shows was committed, as check_changes counts */
	unsigned changed;      /* when it was last found to have changed, as check_changes counts */
	unsigned begun;	       /* when what it shows was begun, or earlier; 0: it is not known */
	unsigned next;	       /* when what it will show was; 0: not yet */
	struct made_by by;
	char generation[COMMIT_HEX];
};

static struct unit units[UNITS_MAX];
static unsigned nr_units;
static char latest[64];
static bool forgiven;
static unsigned changes, losses;

static struct unit *unit_of(const char *name)
{
	unsigned i;

	for (i = 0; i < nr_units; i++)
		if (!strcmp(units[i].name, name))
			return &units[i];
	if (nr_units == UNITS_MAX)
		return NULL;
	snprintf(units[nr_units].name, sizeof(units[0].name), "%s", name);
	return &units[nr_units++];
}

void check_may_go(const char *unit)
{
	unsigned nr, i;
	struct unit *u = shape_of_unit(unit, &nr) ? unit_of(unit) : NULL;
	size_t len = strlen(unit);

	if (u)
		u->may_go = true;
	for (i = 0; i < nr_units; i++)
		if (!strncmp(units[i].name, unit, len) && units[i].name[len] == '/')
			units[i].may_go = units[i].with_all = true;
}

void check_forgive(void)
{
	forgiven = true;
}

void check_power_failed(void)
{
	unsigned i;

	for (i = 0; i < nr_units; i++) {
		units[i].committed = false;
		units[i].next = 0;
		units[i].ino = units[i].commit_ino = 0;
	}
	*latest = '\0';
	losses++;
}

unsigned check_losses(void)
{
	return losses;
}

bool check_forgives(void)
{
	return forgiven;
}

bool check_committed(const char *unit)
{
	struct unit *u = unit_of(unit);

	return u && u->committed;
}

const char *check_latest(void)
{
	return latest;
}

unsigned check_changes(void)
{
	return changes;
}

void check_begins(const char *unit)
{
	struct unit *u = unit_of(unit);

	if (u && !u->next)
		u->next = changes + 1;
}

bool check_is_begun(const char *unit)
{
	const struct unit *u = unit_of(unit);

	return u && u->next;
}

bool check_next(unsigned *at, struct standing *s)
{
	const struct unit *u;

	if (*at == nr_units)
		return false;
	u = &units[(*at)++];
	*s = (struct standing){u->name,	  u->generation, u->committed,
			       u->may_go, u->changed,	 u->begun};
	return true;
}

/* --- one unit --- */

static uint64_t commit_ino(const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/%s", name, COMMIT_FILE);
	return eye_ino(path);
}

/*
 * Newer is what was committed later, as the sequence of commit files has it, or has a higher
 * number. Of two saves that overlap (tests/README.md) it may be the one that was committed later by
 * the clock.
 */
static bool has_newer(const struct unit *gone)
{
	unsigned i, nr, other;
	const struct shape *s = shape_of_unit(gone->name, &nr);

	for (i = 0; i < nr_units; i++)
		if (units[i].committed && shape_of_unit(units[i].name, &other) == s &&
		    (other > nr || units[i].by.sequence > gone->by.sequence ||
		     (units[i].committed_at > gone->committed_at &&
		      units[i].begun <= gone->committed_at)))
			return true;
	return false;
}

/* All generations that the backing has shown. */
static struct {
	char generation[COMMIT_HEX];
	unsigned gone; /* when it was found to have no name any more; 0: it has one */
} shown[256];
static unsigned nr_shown;

static unsigned shown_at(const char *generation)
{
	unsigned i;

	for (i = 0; i < nr_shown && strcmp(shown[i].generation, generation); i++)
		;
	return i;
}

static void note_shown(const char *generation)
{
	unsigned at = shown_at(generation);

	if (at == ARRAY_SIZE(shown))
		return;
	memcpy(shown[at].generation, generation, COMMIT_HEX);
	shown[at].gone = 0;
	if (at == nr_shown)
		nr_shown++;
}

/* No name leads to it any more, unless it was renamed. */
static void note_gone(const char *generation)
{
	unsigned at = shown_at(generation), i;

	for (i = 0; i < nr_units; i++)
		if (units[i].committed && !strcmp(units[i].generation, generation))
			return;
	if (at < nr_shown)
		shown[at].gone = changes;
}

static void look_gone(struct unit *u)
{
	if (!u->committed)
		return;
	u->committed = false;
	note_gone(u->generation);
	story("(the backing shows %s no more)", u->name);
	if (!u->may_go)
		wrong("I5: %s was committed, nobody has removed it, and it is gone", u->name);
	else if (!u->with_all && !has_newer(u))
		wrong("I5: %s was committed, and is gone before a newer one is committed", u->name);
}

bool check_was_shown(const char *generation, unsigned since)
{
	unsigned at = shown_at(generation);

	if (at == nr_shown)
		return nr_shown == ARRAY_SIZE(shown);
	return !shown[at].gone || shown[at].gone > since;
}

/* Its files are being removed one by one, and whoever does was held up: tests/README.md. */
static void note_dwindles(struct unit *u, const char *generation)
{
	if (u->committed)
		note_gone(u->generation);
	u->committed = false;
	u->dwindles = true;
	note_shown(generation);
	story("(the backing shows %s without some of its files)", u->name);
}

struct decided {
	const char *generation;
	unsigned nr_commit, nr_abort;
};

static bool is_commit(const char *kind, const char *text)
{
	return !strcmp(kind, "decision") &&
	       (!strncmp(text, "commit", 6) || strstr(text, "\"commit\""));
}

/* In the end: what was decided was done. */
static void look_decided(void *arg, const char *gen, const char *kind, const char *text)
{
	(void)arg;
	if (is_commit(kind, text) && !strstr(text, "\"ordinary\"") && shown_at(gen) == nr_shown)
		wrong("I3: generation %s was decided to be committed, and is published at no time: "
		      "%.200s",
		      gen, text);
}

static void count_decision(void *arg, const char *gen, const char *kind, const char *text)
{
	struct decided *d = arg;

	if (strcmp(gen, d->generation) != 0 || strcmp(kind, "decision") != 0)
		return;
	if (is_commit(kind, text))
		d->nr_commit++;
	else
		d->nr_abort++;
}

static void look_decision(const struct unit *u)
{
	struct decided d = {.generation = u->generation};

	service_each(count_decision, &d);
	if (d.nr_commit + d.nr_abort > 1)
		wrong("I2: generation %s of %s has %u decisions", u->generation, u->name,
		      d.nr_commit + d.nr_abort);
	if (world_has_service() && !d.nr_commit)
		wrong("I3: %s is published, and nothing has decided that", u->name);
	if (d.nr_abort)
		wrong("I3: %s is published, and its decision is to abort", u->name);
}

static void note_any(void *any, const char *path, bool directory)
{
	(void)path;
	(void)directory;
	*(bool *)any = true;
}

static bool is_empty(const char *dir)
{
	bool any = false;

	eye_list(dir, note_any, &any);
	return !any;
}

static void look_unit(struct unit *u)
{
	char why[256] = "", generation[COMMIT_HEX], former[COMMIT_HEX];
	const char *name;
	__cleanup_fd int dir = eye_pin_parent(u->name, &name);
	struct made_by by;

	u->changed = ++changes;
	switch (save_look(world_eye(), dir, name, &by, generation, why, sizeof(why))) {
	case SAVE_NONE:
		look_gone(u);
		return;
	case SAVE_PLAIN:
		if (is_empty(
			    u->name)) { /* no rule has claimed it yet: a directory like any other */
			u->ino = 0;
			return;
		}
		wrong("I1: the backing shows %s, which is not committed", u->name);
		return;
	case SAVE_TORN:
		if (u->may_go && (u->committed || u->dwindles)) {
			note_dwindles(u, generation);
			return;
		}
		if (strstr(why, strerror(ENOENT)) && !what_is_wrong() &&
		    ranks_may_be_of_former(u->name))
			listed("a rank joins no save that has failed, and is too young to hear of "
			       "it");
		wrong("I1: %s is committed, and torn: %s", u->name, why);
		return;
	case SAVE_WHOLE:
		break;
	}
	u->by = by;
	u->committed = true;
	u->dwindles = false;
	memcpy(former, u->generation, sizeof(former));
	memcpy(u->generation, generation, sizeof(generation));
	note_shown(generation);
	note_gone(former);
	if (strcmp(former, generation) != 0) {
		u->committed_at = changes;
		u->begun = u->next;
		u->next = 0;
	}
	story("(the backing shows %s: save %u of incarnation %u of %c, generation %.6s)", u->name,
	      by.save, by.incarnation, by.job, generation);
	look_decision(u);
}

static void look_again(struct unit *u)
{
	uint64_t ino = eye_ino(u->name), commit = ino ? commit_ino(u->name) : 0;

	if (ino == u->ino && commit == u->commit_ino)
		return;
	u->ino = ino;
	u->commit_ino = commit;
	look_unit(u);
}

static void look_latest(void)
{
	char text[64];
	struct unit *u;

	eye_read("latest", text, sizeof(text));
	if (!strcmp(text, latest))
		return;
	snprintf(latest, sizeof(latest), "%s", text);
	story("(the backing's latest names %s)", latest);
	u = *latest ? unit_of(latest) : NULL;
	if (u && !u->committed)
		wrong("I4: latest names %s, which is not committed", latest);
}

/* --- the backing --- */

/* In the top directory, and in what is in it. */
static void find_unit(void *unused, const char *path, bool directory)
{
	unsigned nr;

	if (shape_of_unit(path, &nr))
		unit_of(path);
	else if (directory && *path != '.' && !strchr(path, '/'))
		eye_list(path, find_unit, unused);
}

static void look_at_all(void)
{
	unsigned i;

	eye_list("", find_unit, NULL);
	/* What has come first: it may be what another one could go for. */
	for (i = 0; i < nr_units; i++)
		if (eye_ino(units[i].name))
			look_again(&units[i]);
	for (i = 0; i < nr_units; i++)
		look_again(&units[i]);
	look_latest();
}

bool check_step(void)
{
	static uint64_t seen;
	uint64_t changes = world_changes();

	if (changes != seen && !what_is_wrong()) {
		seen = changes;
		look_at_all();
	}
	return !what_is_wrong();
}

/* --- at the end --- */

static void look_finished(const struct finished *f)
{
	struct unit *u = unit_of(f->unit);

	if (u->may_go || forgiven)
		return;
	if (!u->committed)
		wrong("I6: %s was saved by all ranks, nothing has disturbed that, and it is not "
		      "committed",
		      f->unit);
}

static void look_promised(const struct finished *f)
{
	struct unit *u = unit_of(f->unit);

	if (!u->may_go && !u->committed)
		wrong("I8: a wait was told that %s is committed, and it is not there", f->unit);
}

void check_end(void)
{
	const struct finished *all;
	unsigned i, nr;

	for (i = 0; i < nr_units; i++)
		units[i].ino = 0; /* all of it once more */
	look_at_all();
	if (nr_shown < ARRAY_SIZE(shown))
		service_each(look_decided, NULL);
	for (nr = ranks_finished(&all), i = 0; i < nr; i++)
		look_finished(&all[i]);
	for (nr = ranks_promised(&all), i = 0; i < nr; i++)
		look_promised(&all[i]);
}
