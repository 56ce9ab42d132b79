/* SPDX-License-Identifier: MIT */
/*
 * A thread has a save for itself: to commit or publish it, or to change its name. An error is kept
 * meanwhile, and the save fails when the thread lets it go.
 *
 * Takes the units' lock, except in functions that end in _locked, which drop it while they wait.
 */
#include "engine/calls/generation_impl.h"

#include <errno.h>
#include <string.h>

#include "engine/base/lock.h"
#include "engine/base/wait.h"
#include "engine/calls/checkpoint_impl.h"
#include "engine/cluster/fail.h"
#include "engine/save/accord.h"

int checkpoint_hold_still_locked(struct checkpoint *cp)
{
	int err = 0;

	/*
	 * The committer looks for the end, too, but later: the next save would have begun in this
	 * one.
	 */
	checkpoint_look_for_end_locked(cp);
	while (!err && (cp->state == GENERATION_SEALED || checkpoint_is_held_locked(cp) ||
			(cp->state == GENERATION_OPEN && accord_is_cut(cp))))
		err = units_wait(cp->units);
	if (err)
		return err;
	switch (cp->state) {
	case GENERATION_OPEN:
		return 0;
	case GENERATION_FAILED:
		return cp->err;
	default:
		return -EEXIST;
	}
}

int checkpoint_hold_locked(struct checkpoint *cp, enum busy with)
{
	int err = checkpoint_hold_still_locked(cp);

	if (!err)
		busy_begin(&cp->busy, with);
	return err;
}

bool checkpoint_let_go(struct checkpoint *cp, enum busy with)
{
	char reason[MESSAGE_MAX];
	int err;
	{
		LOCK_SCOPE(&cp->units->lock);
		if (with)
			busy_end(cp->units, &cp->busy, with);
		else
			checkpoint_set_state(cp, GENERATION_SEALED);
		err = cp->err;
		memcpy(reason, cp->reason, sizeof(reason));
		waitq_wake_all(&cp->units->changed);
		waitq_wake(&cp->units->commits);
	}
	if (err)
		checkpoint_fail(cp, err, reason);
	return err;
}

bool checkpoint_give_back(struct checkpoint *cp)
{
	return checkpoint_let_go(cp, 0);
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
