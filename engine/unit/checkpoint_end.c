/* SPDX-License-Identifier: MIT */
/*
 * The end of a checkpoint: notes it in the history and takes it off the list; fails it, with its
 * files, and has its job hear of that at its next call.
 *
 * Takes the units' lock, except in functions that end in _locked. This file finds no end
 * (checkpoint_seal.c), and commits nothing (commit.c). wreck.h keeps what a failed one leaves.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/base/wait.h"
#include "engine/unit/accord.h"
#include "engine/unit/checkpoint_impl.h"
#include "engine/unit/wreck.h"

void checkpoint_end_locked(struct checkpoint *cp, enum generation_state state)
{
	struct units *us = cp->units;
	struct ended *e = history_add(&us->history);
	/* false: another node has begun it, and it was over before it got into the list */
	bool shown = cp->visible;

	checkpoint_set_state(cp, state);
	cp->visible = false;
	cp->ended_ns = clock_mono_ns();
	accord_ended(cp);
	memcpy(e->staging, cp->staging, sizeof(e->staging));
	memcpy(e->name, cp->target.name, sizeof(e->name));
	e->id = cp->id;
	e->dir_id = cp->target.dir_id;
	e->path = cp->path ? strdup(cp->path) : NULL;
	e->reason = *cp->reason ? strdup(cp->reason) : NULL;
	e->state = state;
	e->uid = cp->owner.uid;
	e->err = cp->err;
	e->size = cp->size;
	e->job = strdup(cp->maker->key);
	e->opened_ns = cp->opened_ns;
	e->closed_ns = cp->closed_ns;
	e->flushed_ns = cp->flushed_ns;
	e->ended_ns = cp->ended_ns;
	us->nr_committed += state == GENERATION_COMMITTED;
	if (state == GENERATION_COMMITTED)
		atomic_fetch_add(&us->nr_published, 1);
	us->nr_failed += state == GENERATION_FAILED;
	if ((state == GENERATION_FAILED || state == GENERATION_DROPPED) && cp->accord)
		backing_unlock(cp->fd); /* another node may remove the directory around it */
	if (shown && state == GENERATION_FAILED) { /* calls in it get its error */
		wreck_add_locked(cp);
	} else if (shown) {
		list_del(&cp->link);
		atomic_fetch_sub(&us->nr_checkpoints, 1);
		cp->refs--;
	}
	waitq_wake_all(&us->changed);
	waitq_wake(&us->commits);
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
	generations_fail(cp, err, reason);
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
