/* SPDX-License-Identifier: MIT */
/*
 * Fails a save, and tells people. A file that fails fails its checkpoint, and a checkpoint that
 * fails fails its files; the job of a checkpoint hears of that at its next call.
 *
 * Takes the units' lock, except in functions that end in _locked. The staging file of a failed
 * generation is left to a publisher (units->litter), that of a checkpoint to wreck.h.
 */
#include "engine/cluster/fail.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/lock.h"
#include "engine/base/wait.h"
#include "engine/cluster/cluster.h"
#include "engine/save/units.h"

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

/*
 * Fails the files of a checkpoint that has failed. Without locks. Files that are being published
 * are left alone: no program looks for them any more.
 */
static void fail_files(struct checkpoint *cp, int err, const char *reason)
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

/* The processes of its job, and those that wrote to it, must hear of it before they go on. */
static void tell_writers_locked(struct checkpoint *cp, int err)
{
	struct casualties *cs = &cp->units->casualties;
	const char *path = cp->path ? cp->path : cp->target.name;
	bool by_job = cp->maker->read && !cp->maker->weak;
	uint64_t at_ns = accord_cause_ns(cp);
	struct list *l;

	if (err == -ECANCELED || err == -ESTALE || accord_tells_none_locked(cp, at_ns))
		return;
	if (by_job) /* one for the whole job */
		casualty_add(cs, cp->maker, path, err, at_ns);
	list_for_each (l, &cp->participants) {
		struct participant *part = container_of(l, struct participant, link);

		/* That does not reach a process that has come after the cause. */
		if (!part->ended && !(by_job && epoch_started_before(part->process, at_ns)))
			casualty_add(cs, part->process, path, err, at_ns);
	}
}

bool checkpoint_fail_if(struct checkpoint *cp, bool only_open, int err, const char *reason)
{
	struct units *us = cp->units;
	char path[PATH_MAX], below[PATH_MAX];
	bool first, found;

	checkpoint_path(cp, path, sizeof(path));
	found = !backing_path_below(us->contents->backing, cp->target.dir, below, sizeof(below));
	{
		LOCK_SCOPE(&us->lock);
		if (only_open && !checkpoint_rests_in_locked(cp, GENERATION_OPEN))
			return false;
		first = checkpoint_rests_locked(cp);
		if (first || (!state_is_over(cp->state) && !cp->err)) {
			cp->err = err;
			snprintf(cp->reason, sizeof(cp->reason), "%s", reason);
		}
		if (first) {
			free(cp->path);
			cp->path = strdup(path);
			cp->below = found ? strdup(below) : NULL;
			checkpoint_end_locked(cp, GENERATION_FAILED);
			tell_writers_locked(cp, err);
			if (room_is_short(err))
				wreck_unwanted_locked(cp);
		}
	}
	if (!first)
		return false;
	failures_add(us->failures, cp->owner.uid, "checkpoint", path, -err, reason);
	fail_files(cp, err, reason);
	wrecks_sweep(us);
	return true;
}

void checkpoint_fail(struct checkpoint *cp, int err, const char *reason)
{
	checkpoint_fail_if(cp, false, err, reason);
}

void checkpoint_fail_open(struct checkpoint *cp, int err, const char *reason)
{
	checkpoint_fail_if(cp, true, err, reason);
}
