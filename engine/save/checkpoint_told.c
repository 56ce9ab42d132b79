/* SPDX-License-Identifier: MIT */
/*
 * Has a process hear that a checkpoint of its job has failed: once, and before it goes on. Drops
 * the units' lock where it waits for a verdict, or for the failure.
 */
#include "engine/save/units.h"

#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/save/accord.h"

/* True if a writer of a checkpoint of its job has died, and the verdict is still to come. */
static bool job_awaits_verdict_locked(struct units *us, const struct process *p)
{
	struct list *l;

	list_for_each (l, &us->checkpoints) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (accord_awaits_verdict(cp) && epoch_same(cp->maker, p) &&
		    epoch_started_before(p, accord_cause_ns(cp)))
			return true;
	}
	return false;
}

int units_tell_casualty_locked(struct units *us, struct process *p)
{
	char text[MESSAGE_MAX], path[PATH_MAX];
	int err = casualty_tell(&us->casualties, p, path, sizeof(path));

	if (err) {
		MESSAGE(text, CHECKPOINT_CASUALTY, *path ? path : "?", strerror(-err));
		failures_add(us->failures, p->uid, "save", path, -err, text);
	}
	return err;
}

int checkpoints_tell_casualty_locked(struct units *us, struct process *p)
{
	uint64_t until = clock_mono_ns() + us->commit_ns;
	int err = 0;

	while (!err && job_awaits_verdict_locked(us, p) && clock_mono_ns() < until)
		err = units_wait(us);
	return err ? err : units_tell_casualty_locked(us, p);
}

/* True if @g has failed, and the thread that found out is about to fail its checkpoint, too. */
static bool is_about_to_fail_locked(const struct generation *g)
{
	const struct checkpoint *cp = g->checkpoint;

	return (g->state == GENERATION_FAILED || (live_has(g) && content_error(g->content))) &&
	       !state_is_over(cp->state);
}

void checkpoint_told(struct generation *g, const struct caller *c)
{
	struct units *us = g->units;
	struct process *p = units_process(us, c);
	char path[PATH_MAX];
	int err = 0;

	if (!p)
		return;
	{
		LOCK_SCOPE(&us->lock);
		/* Else @p would be told of that once more. */
		while (!err && is_about_to_fail_locked(g))
			err = units_wait(us);
		casualty_tell(&us->casualties, p, path, sizeof(path)); /* the caller tells it */
	}
	process_put(p);
}
