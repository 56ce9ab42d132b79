/* SPDX-License-Identifier: MIT */
/*
 * Resolves what pointers name (journal_written.h): reads what a written one says, finds the unit
 * that it names, here or on another node, and asks again while the answer is unknown.
 *
 * Takes the units' lock, and drops it for the backing and for other nodes. What a pointer waits for
 * then is noted elsewhere (journal_written.c).
 */
#include "engine/calls/journal_resolve.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/wait.h"
#include "engine/cluster/cluster.h"
#include "engine/cluster/other_nodes.h"
#include "engine/journal/journal_written.h"
#include "engine/save/units.h"

/* A longer file names nothing. */
#define POINTER_MAX 4096

#define ASK_NS NSEC_PER_SEC /* between two questions about one pointer */

/* A failed checkpoint of that name: the program may name it before it hears of the failure. */
static const char *failed_unit_locked(struct units *us, const struct inode_id *dir,
				      const char *name)
{
	struct list *l;

	list_for_each (l, &us->wrecks.all) {
		const struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (same_inode(&cp->target.dir_id, dir) && !strcmp(cp->target.name, name))
			return cp->staging;
	}
	return NULL;
}

static bool is_here(struct units *us, const struct inode_id *dir, const char *name)
{
	LOCK_SCOPE(&us->lock);
	return pointer_unit_locked(us, dir, name);
}

/* The process may be gone when the question is repeated. */
static void note_writer(struct units *us, const struct caller *c, struct process **writer)
{
	if (!*writer)
		*writer = units_process(us, c);
}

/* Learns what another node saves under that name, and that it is a unit. False: not known now. */
static bool meet(struct units *us, const struct caller *c, struct process **writer,
		 const struct target *t, const char *name)
{
	struct checkpoint *cp = checkpoints_find(us, &t->dir_id, name);
	const struct rule *rule;
	char path[PATH_MAX];
	int err = 0;

	if (!cp && accord_has_others(us) && !is_here(us, &t->dir_id, name))
		err = accord_find(us, c, *writer, &(struct place){t->dir, t->dir_id, name}, false,
				  &cp);
	if (err)
		note_writer(us, c, writer);
	if (cp && accord_agreement(cp)) {
		checkpoint_path(cp, path, sizeof(path));
		rule = accord_rule_of_others(cp, path);
		if (!rule)
			rule = rules_suggest(us->rules, path);
		LOCK_SCOPE(&us->lock);
		if (rule && !cp->rule && checkpoint_rests_in_locked(cp, GENERATION_OPEN))
			checkpoint_takes_rule_locked(cp, rule);
	}
	checkpoint_put(cp);
	return !err;
}

enum pointed pointer_find(struct units *us, const struct caller *c, struct process **writer,
			  const struct target *t, const char *name, char unit[STAGING_MAX])
{
	struct backing b = backing_for(us->contents->backing, c);
	enum pointed what = POINTED_PENDING;
	struct statx stx;
	int err;

	*unit = '\0';
	if (!meet(us, c, writer, t, name))
		return POINTED_UNKNOWN;
	{
		LOCK_SCOPE(&us->lock);
		const char *found = pointer_unit_locked(us, &t->dir_id, name);

		if (!found) {
			what = POINTED_FAILED;
			found = failed_unit_locked(us, &t->dir_id, name);
		}
		snprintf(unit, STAGING_MAX, "%s", found ? found : "");
	}
	if (!*unit || what == POINTED_PENDING)
		return *unit ? what : POINTED_NOTHING;
	err = backing_stat_at(&b, t->dir, name, &stx);
	if (err == -ENOENT)
		return what;
	*unit = '\0';
	if (!err)
		return POINTED_NOTHING;
	note_writer(us, c, writer);
	return POINTED_UNKNOWN;
}

/* The name that @g says. Its content is in the cache, or was written back from there. */
static bool says(struct generation *g, char name[NAME_MAX + 1])
{
	char content[POINTER_MAX];
	ssize_t len = content_size(g->content) <= sizeof(content)
			      ? content_source_read(g->content, content, sizeof(content), 0)
			      : -EFBIG;

	return len >= 0 &&
	       rules_pointer_names(g->units->rules, g->target.name, content, (size_t)len, name);
}

void pointer_read(struct generation *g)
{
	struct units *us = g->units;
	struct pointer_said said = {0};
	enum pointed what;
	struct process *writer;
	struct target t;
	{
		LOCK_SCOPE(&us->lock);
		writer = g->writer ? process_get(g->writer) : NULL;
		said.turn = ++g->reads;
		t = g->target;
		t.dir = backing_dup(g->units->contents->backing,
				    g->target.dir); /* a rename closes the original */
	}
	if (!says(g, said.names)) {
		*said.names = '\0';
	} else {
		what = pointer_find(us, &g->owner, &writer, &t, said.names, said.unit);
		said.unknown = what == POINTED_UNKNOWN;
	}
	if (t.dir >= 0)
		close(t.dir);
	{
		LOCK_SCOPE(&us->lock);
		if (said.turn > g->said.turn) /* else a later read was faster */
			g->said = said;
		if (!g->writer) {
			g->writer = writer;
			writer = NULL;
		}
	}
	process_put(writer);
}

/* A pointer whose question is due again. */
static struct generation *next_asking_locked(struct units *us)
{
	uint64_t now = clock_mono_ns();
	struct list *l;

	list_for_each (l, &us->live.sealed) {
		struct generation *g = container_of(l, struct generation, sealed);

		if (g->pointer && !(g->busy & BUSY_ASK) && g->again_ns <= now &&
		    pointer_fate(g) == FATE_LOOK)
			return g;
	}
	return NULL;
}

bool pointers_work_locked(struct units *us)
{
	struct generation *g = next_asking_locked(us);

	if (!g)
		return false;
	busy_begin(&g->busy, BUSY_ASK);
	g->refs++;
	lock_drop(&us->lock);
	pointer_read(g);
	lock_take(&us->lock);
	busy_end(us, &g->busy, BUSY_ASK);
	g->again_ns = 0;
	if (g->state == GENERATION_SEALED && g->said.unknown)
		g->again_ns = clock_mono_ns() + ASK_NS;
	else if (g->state == GENERATION_SEALED)
		pointer_closed(g);
	waitq_wake(&us->work);
	lock_drop(&us->lock);
	generation_put(g);
	lock_take(&us->lock);
	return true;
}
