/* SPDX-License-Identifier: MIT */
/*
 * The end of a checkpoint: notes it in the history and takes it off the list. This file finds no
 * end (checkpoint_seal.c), and commits nothing (commit.c). wreck.h keeps what a failed one leaves.
 */
#include "engine/save/units.h"

#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/wait.h"
#include "engine/save/accord.h"

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
