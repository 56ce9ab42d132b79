/* SPDX-License-Identifier: MIT */
/* Which saves a drain covers, and waits for. Lock held. */
#include "engine/save/drain.h"

#include "engine/save/accord.h"
#include "engine/save/units.h"

bool drain_covers_locked(const struct drain *d, const struct process *p, uid_t uid)
{
	return (d->all_users || d->uid == uid) && (!d->job || (p && job_is(p->key, d->job)));
}

bool drains_cover_locked(const struct units *us, const struct process *p, uid_t uid)
{
	const struct list *l;

	list_for_each (l, &us->drains)
		if (drain_covers_locked(container_of(l, struct drain, link), p, uid))
			return true;
	return us->no_more_calls;
}

bool drain_lists_file_locked(const struct drain *d, const struct generation *g)
{
	return !g->checkpoint && !g->pointer && !state_is_over(g->state) &&
	       g->opened_ns <= d->since_ns && drain_covers_locked(d, g->maker, g->owner.uid);
}

bool drain_lists_checkpoint_locked(const struct drain *d, const struct checkpoint *cp)
{
	return !state_is_over(cp->state) && !checkpoint_is_nothing_locked(cp) &&
	       !accord_has_left(cp) && cp->opened_ns <= d->since_ns &&
	       drain_covers_locked(d, cp->maker, cp->owner.uid);
}
