/* SPDX-License-Identifier: MIT */
#include "engine/commit/trash_thread.h"

#include <stdlib.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/wait.h"
#include "engine/commit/journal_removal_work.h"
#include "engine/commit/start.h"
#include "engine/save/trash_queue.h"

static bool free_some(struct units *us, const struct room_want *w)
{
	if (wrecks_clear(us) || removals_hasten(us, w->uid, NULL))
		return true;
	return us->room.delete_last && removals_hasten(us, w->uid, &w->dir);
}

static bool room_is_wanted(struct units *us)
{
	return !list_empty(&us->room.wanted) || us->room.wrecks;
}

/* Drops the lock meanwhile. */
static void room_work(struct units *us)
{
	struct room_want *w;
	bool freed;

	if (list_empty(&us->room.wanted)) {
		us->room.wrecks = false;
		lock_drop(&us->lock);
		freed = wrecks_clear(us);
		lock_take(&us->lock);
		us->room.emptied += freed;
		return;
	}
	w = container_of(us->room.wanted.next, struct room_want, link);
	freed = us->room.emptied != w->emptied;
	if (!freed) {
		lock_drop(&us->lock);
		freed = free_some(us, w);
		lock_take(&us->lock);
	}
	trash_empty_locked(us);
	if (freed)
		us->room.freed = w->ticket;
	us->room.served = w->ticket;
	list_del(&w->link);
	free(w);
	waitq_wake_all(&us->changed);
}

static void recover_again_locked(struct units *us)
{
	lock_drop(&us->lock);
	units_recover(us);
	lock_take(&us->lock);
}

void *trash_main(void *units)
{
	struct units *us = units;

	lock_take(&us->lock);
	for (;;) {
		trash_empty_locked(us);
		if (us->ending)
			break;
		if (room_is_wanted(us))
			room_work(us);
		else if (us->recover_ns <= clock_mono_ns())
			recover_again_locked(us);
		else
			wait_out(&us->trashed, us->recover_ns);
	}
	if (us->recover_ns != CLOCK_NEVER)
		recover_again_locked(us);
	lock_drop(&us->lock);
	return NULL;
}
