/* SPDX-License-Identifier: MIT */
#include "engine/unit/journal_written.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/wait.h"
#include "engine/unit/accord.h"
#include "engine/unit/internal.h"
#include "engine/unit/journal.h"
#include "engine/unit/journal_held.h"
#include "engine/unit/journal_removal.h"

/* A longer file names nothing. */
#define POINTER_MAX 4096

#define ASK_NS NSEC_PER_SEC /* between two questions about one pointer */

/* The checkpoint that a name shows, if it is still to be committed. */
static struct checkpoint *pending_checkpoint_locked(struct units *us, const struct inode_id *dir,
						    const char *name)
{
	struct list *l;

	list_for_each (l, &us->checkpoints) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (cp->visible && (cp->rule || cp->follows) &&
		    same_inode(&cp->target.dir_id, dir) && !strcmp(cp->target.name, name))
			return cp;
	}
	return NULL;
}

/* The staging name of the unit that has that name and is still to be committed; NULL: none. */
static const char *pending_unit_locked(struct units *us, const struct inode_id *dir,
				       const char *name)
{
	const struct checkpoint *cp = pending_checkpoint_locked(us, dir, name);
	const struct generation *g;

	if (cp)
		return cp->staging;
	live_for_each_of (g, &us->live, dir, name)
		if (g->visible && !g->pointer)
			return g->staging;
	return NULL;
}

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
	return pending_unit_locked(us, dir, name);
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
		const char *found = pending_unit_locked(us, &t->dir_id, name);

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

void pointer_closed(struct generation *g)
{
	const char *name = g->said.names, *unit = NULL;
	bool asked = g->asks; /* then it keeps its turn among those of its name */
	struct checkpoint *cp = NULL;
	char path[NAME_MAX + 4];

	if (*name) {
		unit = pending_unit_locked(g->units, &g->target.dir_id, name);
		cp = unit ? pending_checkpoint_locked(g->units, &g->target.dir_id, name) : NULL;
	}
	if (!unit && *g->said.unit)
		unit = g->said.unit; /* that unit has failed or ended since */
	g->asks = g->said.unknown && !unit;
	snprintf(g->waits_for, sizeof(g->waits_for), "%s", unit ? unit : "");
	snprintf(g->names, sizeof(g->names), "%s", unit || g->asks ? name : "");
	snprintf(path, sizeof(path), "../%s", g->target.name);
	if (cp)
		checkpoint_event_locked(cp, EVIDENCE_CLOSE, path, g->rank);
	/* All may see it: it is applied as soon as it is durable. */
	if (!unit && !g->asks && !asked)
		generation_show_locked(g);
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

void pointer_say_waits(const char *names, bool asks, char *buf, size_t size)
{
	snprintf(buf, size,
		 asks ? "an answer whether '%s', which it names, is being saved on another node"
		      : "the commit of '%s', which it names",
		 names);
}

/* The state of the unit with that staging name, also after its end. */
static enum generation_state state_of(struct units *us, const char *unit)
{
	const struct generation *g;
	const struct ended *e;
	struct list *l;

	list_for_each (l, &us->checkpoints) {
		const struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (!strcmp(cp->staging, unit))
			return cp->state;
	}
	list_for_each (l, &us->wrecks.all)
		if (!strcmp(container_of(l, struct checkpoint, link)->staging, unit))
			return GENERATION_FAILED;
	g = live_find_staging(&us->live, unit);
	if (g)
		return g->state;
	e = history_find(&us->history, unit);
	return e ? e->state : GENERATION_DROPPED;
}

enum fate pointer_fate_of(struct units *us, const char *unit, bool asks, bool overtaken,
			  uint64_t since_ns)
{
	const struct fate_facts f = {
		.pointer = true,
		.awaited = *unit ? state_of(us, unit) : GENERATION_COMMITTED,
		.late = clock_mono_ns() - since_ns > us->order_ns,
		.overtaken = overtaken,
		.unknown = asks,
	};

	return fate_of(&f);
}

enum fate pointer_fate(const struct generation *g)
{
	return pointer_fate_of(g->units, g->waits_for, g->asks, g->overtaken, g->closed_ns);
}

void pointer_applied(struct units *us, const struct target *t, const struct inode_id *id,
		     uint64_t since_ns)
{
	struct generation *g;

	removal_of_file_replaced_locked(us, &t->dir_id, t->name);
	held_overtake_locked(us, t, since_ns);
	live_for_each_of (g, &us->live, &t->dir_id, t->name) {
		if (same_inode(&g->id, id))
			continue;
		g->replaces = true;
		g->replaced = *id;
		g->overtaken = g->overtaken || g->opened_ns < since_ns;
	}
}

void pointer_tell_dropped(struct units *us, uid_t uid, const char *path, const char *names,
			  const char *waits_for)
{
	char text[MESSAGE_MAX], name[NAME_MAX + 1];
	enum generation_state state;
	{
		LOCK_SCOPE(&us->lock);
		state = state_of(us, waits_for);
		snprintf(name, sizeof(name), "%s", names);
	}
	MESSAGE(text, POINTER_DROPPED, path, name,
		state == GENERATION_FAILED    ? "was not committed"
		: state == GENERATION_DROPPED ? "was removed before it was committed"
					      : "was not committed within order_timeout_s",
		path);
	failures_add(us->failures, uid, "pointer", path, ECANCELED, text);
}

/* A pointer of that name that is not visible, referenced. */
static struct generation *one_unseen_locked(struct units *us, const struct inode_id *dir,
					    const char *name)
{
	struct generation *g;

	live_for_each_of (g, &us->live, dir, name)
		if (g->pointer && !g->visible) {
			g->refs++;
			return g;
		}
	return NULL;
}

bool pointers_drop(struct units *us, const struct inode_id *dir, const char *name)
{
	while (rules_is_pointer(us->rules, name)) {
		struct generation *g;
		int err;
		{
			LOCK_SCOPE(&us->lock);
			g = one_unseen_locked(us, dir, name);
		}
		if (!g)
			break;
		err = generation_drop_one(g);
		generation_put(g);
		if (err && err != -EEXIST)
			break; /* the caller was interrupted */
	}
	return held_drop(us, dir, name);
}
