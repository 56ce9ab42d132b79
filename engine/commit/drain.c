/* SPDX-License-Identifier: MIT */
#include "engine/commit/report.h"

#include <errno.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/wait.h"
#include "engine/calls/generation_impl.h"
#include "engine/calls/journal_held.h"
#include "engine/commit/journal_removal_work.h"
#include "engine/journal/journal_written.h"
#include "engine/save/accord.h"

/* True if a save opened at @opened_ns was begun in time for @d. */
static bool counts(const struct drain *d, uint64_t opened_ns)
{
	return !d->since_ns || opened_ns <= d->since_ns;
}

/* True if @d must wait for a generation. Hurries all that @d covers. */
static bool hurry_files_locked(struct units *us, const struct drain *d)
{
	struct list *l;
	bool any = false;

	list_for_each (l, &us->live.all) {
		struct generation *g = container_of(l, struct generation, link);
		const struct process *p = g->checkpoint ? g->checkpoint->maker : g->maker;
		bool covered = drain_covers_locked(d, p, g->owner.uid);

		g->hurried = g->hurried || covered;
		/*
		 * The job of a pointer is unknown, so every pointer counts. One that need not wait
		 * is applied in a moment. One whose target is unknown may name a committed unit.
		 */
		any = any || drain_lists_file_locked(d, g) ||
		      ((covered || g->pointer) && counts(d, g->opened_ns) &&
		       (generation_is_going_locked(g) ||
			(g->pointer && g->state == GENERATION_SEALED &&
			 pointer_fate(g) == FATE_LOOK)));
	}
	return any;
}

/* The same for checkpoints. */
static bool hurry_checkpoints_locked(struct units *us, const struct drain *d)
{
	struct list *l;
	bool any = false;

	list_for_each (l, &us->checkpoints) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (!drain_covers_locked(d, cp->maker, cp->owner.uid))
			continue;
		checkpoint_look_for_end_locked(cp);
		any = any || drain_lists_checkpoint_locked(d, cp) ||
		      (!accord_has_left(cp) && counts(d, cp->opened_ns) &&
		       (cp->state == GENERATION_SEALED || checkpoint_is_held_locked(cp)));
	}
	return any;
}

int units_drain_of(struct units *us, struct drain *d, uint64_t deadline_ns)
{
	bool any = true;
	int err = 0;
	LOCK_SCOPE(&us->lock);

	list_append(&us->drains, &d->link);
	while (any && !err) {
		any = hurry_files_locked(us, d);
		any = hurry_checkpoints_locked(us, d) || any;
		any = any || held_any_due_locked(us) || removals_any_in_part(us, d);
		if (!any)
			break;
		waitq_wake(&us->work);
		waitq_wake(&us->commits);
		err = clock_mono_ns() > deadline_ns ? -ETIMEDOUT : units_wait(us);
	}
	list_del(&d->link);
	return err;
}

int units_drain(struct units *us, uint64_t deadline_ns)
{
	return units_drain_of(us, &(struct drain){.all_users = true}, deadline_ns);
}
