/* SPDX-License-Identifier: MIT */
/* The state of a checkpoint: sets it, and tells what holds. Changes nothing else. */
#include "engine/save/units.h"

#include "engine/base/fault.h"
#include "engine/base/lock.h"
#include "engine/save/accord.h"

void checkpoint_set_state_by_locked(struct checkpoint *cp, enum generation_state state,
				    const char *who)
{
	MACHINE_CHECK(&checkpoint_machine, cp->state, state, who, "'%s' (%s)", cp->target.name,
		      cp->staging);
	cp->state = state;
}

bool checkpoint_is_pending(struct checkpoint *cp)
{
	LOCK_SCOPE(&cp->units->lock);
	return !state_is_over(cp->state);
}

bool checkpoint_is_closed_here_locked(struct checkpoint *cp)
{
	return !cp->nr_changing &&
	       (list_empty(&cp->files) ||
		container_of(cp->files.next, struct generation, beside)->state != GENERATION_OPEN);
}

bool checkpoint_is_closed_locked(struct checkpoint *cp)
{
	return checkpoint_is_closed_here_locked(cp) && !accord_has_open(cp);
}

bool checkpoint_is_flushed_locked(struct checkpoint *cp)
{
	return FAULT(FLUSH_FORGOTTEN) || (!cp->nr_changing && list_empty(&cp->files));
}

bool checkpoint_is_nothing_locked(const struct checkpoint *cp)
{
	return checkpoint_rests_in_locked(cp, GENERATION_OPEN) && !cp->rule && !cp->inherits &&
	       !cp->nr_changing && !cp->filed.nr && list_empty(&cp->files) && !accord_is_shared(cp);
}
