/* SPDX-License-Identifier: MIT */
/*
 * Ends generations: takes one out of units->live and adds it to the history; fails one, and tells
 * people and its checkpoint.
 *
 * Takes the units' lock, except in functions that end in _locked. It does not publish (publish.c),
 * nor drop a generation because a program removed its name (generation_name.c). It leaves the
 * staging file of a failed generation to a publisher (units->litter).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/base/wait.h"
#include "engine/unit/checkpoint.h"
#include "engine/unit/internal.h"
#include "engine/unit/live.h"

/* @g has failed: the newest generation of its name that is left is shown. */
static void show_older_locked(const struct generation *g)
{
	const struct live *lv = &g->units->live;
	struct generation *o = live_newest(lv, &g->target.dir_id, g->target.name);

	while (o && (o == g || o->overtaken))
		o = live_older(lv, o);
	if (o)
		o->visible = true;
}

/* Drops the list's reference; the caller has another. */
void generation_end_locked(struct generation *g, enum generation_state state)
{
	generation_set_state(g, state);
	if (g->visible && state == GENERATION_FAILED)
		show_older_locked(g);
	g->visible = false;
	g->ended_ns = clock_mono_ns();
	if (state != GENERATION_DURABLE)
		history_note(&g->units->history, g);
	g->units->nr_committed += state == GENERATION_COMMITTED;
	g->units->nr_failed += state == GENERATION_FAILED;
	live_remove(&g->units->live, g);
	g->refs--;
	waitq_wake_all(&g->units->changed);
	if (g->checkpoint && list_empty(&g->checkpoint->files))
		waitq_wake(&g->units->commits); /* the checkpoint may have waited for this file */
}

void generation_fail(struct generation *g, int err, const char *reason)
{
	struct units *us = g->units;
	char path[PATH_MAX];
	bool first;

	generation_path(g, path, sizeof(path));
	{
		LOCK_SCOPE(&us->lock);
		first = generation_rests(g);
		/* Keeps the checkpoint from looking closed or flushed before it has failed, too. */
		if (first && g->checkpoint)
			g->checkpoint->nr_changing++;
		if (first || (!state_is_over(g->state) && !g->err)) {
			g->err = err; /* in the second case for generation_let_go */
			snprintf(g->reason, sizeof(g->reason), "%s", reason);
		}
		if (first) {
			free(g->path);
			g->path = strdup(path);
			g->refs++;
			generation_end_locked(g, GENERATION_FAILED);
		}
	}
	if (!first)
		return;
	failures_add(us->failures, g->owner.uid, "save", path, -err, reason);
	content_fail(g->content, err);
	content_discard(g->content);
	if (g->checkpoint) {
		checkpoint_fail(g->checkpoint, failure_of_backing(err), reason);
		checkpoint_leave(g->checkpoint);
	}
	/* -EBUSY, a conflict: whole, and kept beside it. A checkpoint is kept as a whole. */
	if (err == -EBUSY || g->checkpoint) {
		generation_put(g);
		return;
	}
	/* The thread that found the error must not wait for the backing; a publisher may. */
	LOCK_SCOPE(&us->lock);
	list_append(&us->litter, &g->link);
	waitq_wake(&us->work);
}

bool generation_let_go(struct generation *g, enum busy with)
{
	char reason[MESSAGE_MAX];
	int err;
	{
		LOCK_SCOPE(&g->units->lock);
		if (with)
			busy_end(g->units, &g->busy, with);
		else
			generation_set_state(g, GENERATION_SEALED);
		generation_settle_locked(g); /* handles and writers may have gone meanwhile */
		err = g->err;
		memcpy(reason, g->reason, sizeof(reason));
		waitq_wake_all(&g->units->changed);
		waitq_wake(&g->units->work);
	}
	if (err)
		generation_fail(g, err, reason);
	return err;
}

/* Finds a file of @cp that may be failed now, referenced. */
static struct generation *one_of_locked(struct checkpoint *cp)
{
	struct list *l;

	list_for_each (l, &cp->files) {
		struct generation *g = container_of(l, struct generation, beside);

		if (generation_rests(g)) {
			g->refs++;
			return g;
		}
	}
	return NULL;
}

/* Files that are being published are left alone: no program looks for them any more. */
void generations_fail(struct checkpoint *cp, int err, const char *reason)
{
	for (;;) {
		struct generation *g;
		{
			LOCK_SCOPE(&cp->units->lock);
			g = one_of_locked(cp);
		}
		if (!g)
			return;
		generation_fail(g, err, reason);
		generation_put(g);
	}
}
