/* SPDX-License-Identifier: MIT */
#include "tests/sim/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/format/commit.h"
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
	unsigned turn; /* when it was committed, among all */
	struct made_by by;
	char generation[COMMIT_HEX];
};

static struct unit units[UNITS_MAX];
static unsigned nr_units;
static char latest[64];
static bool forgiven;
static unsigned turns;

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
	struct unit *u = unit_of(unit);

	if (u)
		u->may_go = true;
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
		units[i].ino = units[i].commit_ino = 0;
	}
	*latest = '\0';
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

/* --- one unit --- */

static uint64_t ino_at(int dir, const char *name)
{
	struct statx stx;

	return backing_stat_at(world_eye(), dir, name, &stx) ? 0 : stx.stx_ino;
}

static uint64_t commit_ino(int top, const char *name)
{
	__cleanup_fd int pin = backing_pin(world_eye(), top, name);

	return pin < 0 ? 0 : ino_at(pin, COMMIT_FILE);
}

/* Newer is what was committed later, as the sequence of commit files has it, or has a higher number. */
static bool has_newer(const struct unit *gone)
{
	unsigned i, nr, other;
	const struct shape *s = shape_of_unit(gone->name, &nr);

	for (i = 0; i < nr_units; i++)
		if (units[i].committed && shape_of_unit(units[i].name, &other) == s &&
		    (other > nr || units[i].turn > gone->turn))
			return true;
	return false;
}

static void look_gone(struct unit *u)
{
	if (!u->committed)
		return;
	u->committed = false;
	story("(the backing shows %s no more)", u->name);
	if (!u->may_go)
		wrong("I5: %s was committed, nobody has removed it, and it is gone", u->name);
	else if (!has_newer(u))
		wrong("I5: %s was committed, and is gone before a newer one is committed", u->name);
}

struct decision {
	const char *generation;
	unsigned nr_commit, nr_abort;
};

/* All generations that the backing has shown. */
static char shown[256][COMMIT_HEX];
static unsigned nr_shown;

static bool was_shown(const char *generation)
{
	unsigned i;

	for (i = 0; i < nr_shown; i++)
		if (!strcmp(shown[i], generation))
			return true;
	return false;
}

static bool is_commit(const char *kind, const char *text)
{
	return !strcmp(kind, "decision") &&
	       (!strncmp(text, "commit", 6) || strstr(text, "\"commit\""));
}

/* In the end: what was decided was done. */
static void look_decided(void *arg, const char *gen, const char *kind, const char *text)
{
	(void)arg;
	if (is_commit(kind, text) && !strstr(text, "\"ordinary\"") && !was_shown(gen))
		wrong("I3: generation %s was decided to be committed, and is published at no time: "
		      "%.200s",
		      gen, text);
}

static void count_decision(void *arg, const char *gen, const char *kind, const char *text)
{
	struct decision *d = arg;

	if (strcmp(gen, d->generation) != 0 || strcmp(kind, "decision") != 0)
		return;
	if (is_commit(kind, text))
		d->nr_commit++;
	else
		d->nr_abort++;
}

static void look_decision(const struct unit *u)
{
	struct decision d = {.generation = u->generation};

	service_each(count_decision, &d);
	if (d.nr_commit + d.nr_abort > 1)
		wrong("I2: generation %s of %s has %u decisions", u->generation, u->name,
		      d.nr_commit + d.nr_abort);
	if (world_has_service() && !d.nr_commit)
		wrong("I3: %s is published, and nothing has decided that", u->name);
	if (d.nr_abort)
		wrong("I3: %s is published, and its decision is to abort", u->name);
}

static void look_unit(int top, struct unit *u)
{
	char why[256] = "", generation[COMMIT_HEX];
	struct made_by by;

	switch (save_look(world_eye(), top, u->name, &by, generation, why, sizeof(why))) {
	case SAVE_NONE:
		look_gone(u);
		return;
	case SAVE_PLAIN:
		wrong("I1: the backing shows %s, which is not committed", u->name);
		return;
	case SAVE_TORN:
		wrong("I1: %s is committed, and torn: %s", u->name, why);
		return;
	case SAVE_WHOLE:
		break;
	}
	u->by = by;
	u->turn = u->committed ? u->turn : ++turns;
	u->committed = true;
	memcpy(u->generation, generation, sizeof(generation));
	if (nr_shown < ARRAY_SIZE(shown) && !was_shown(generation))
		memcpy(shown[nr_shown++], generation, sizeof(generation));
	story("(the backing shows %s: save %u of incarnation %u of %c, generation %.6s)", u->name,
	      by.save, by.incarnation, by.job, generation);
	look_decision(u);
}

static void look_again(int top, struct unit *u)
{
	uint64_t ino = ino_at(top, u->name), commit = ino ? commit_ino(top, u->name) : 0;

	if (ino == u->ino && commit == u->commit_ino)
		return;
	u->ino = ino;
	u->commit_ino = commit;
	look_unit(top, u);
}

static void look_latest(int top)
{
	struct backing *b = world_eye();
	__cleanup_fd int pin = backing_pin(b, top, "latest"), fd = -1;
	char text[64] = "";
	struct unit *u;
	ssize_t n;

	fd = pin < 0 ? pin : backing_reopen(b, pin, O_RDONLY);
	n = fd < 0 ? 0 : backing_read(b, fd, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	if (!strcmp(text, latest))
		return;
	snprintf(latest, sizeof(latest), "%s", text);
	story("(the backing's latest names %s)", latest);
	u = *latest ? unit_of(latest) : NULL;
	if (u && !u->committed)
		wrong("I4: latest names %s, which is not committed", latest);
}

/* --- the backing --- */

struct entry {
	uint64_t ino;
	int64_t off;
	uint16_t len;
	uint8_t type;
	char name[];
};

static void find_units(struct backing *b, int top)
{
	char buf[4096] __attribute__((aligned(8)));
	__cleanup_fd int fd = backing_reopen(b, top, O_RDONLY | O_DIRECTORY);
	ssize_t len, at;
	unsigned nr;

	while (fd >= 0 && (len = backing_getdents(b, fd, buf, sizeof(buf))) > 0)
		for (at = 0; at < len; at += ((struct entry *)(buf + at))->len) {
			const char *name = ((struct entry *)(buf + at))->name;

			if (shape_of_unit(name, &nr))
				unit_of(name);
		}
}

static void look_at_all(void)
{
	struct backing *b = world_eye();
	unsigned i;

	find_units(b, b->root_fd);
	/* What has come first: it may be what another one could go for. */
	for (i = 0; i < nr_units; i++)
		if (ino_at(b->root_fd, units[i].name))
			look_again(b->root_fd, &units[i]);
	for (i = 0; i < nr_units; i++)
		look_again(b->root_fd, &units[i]);
	look_latest(b->root_fd);
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
