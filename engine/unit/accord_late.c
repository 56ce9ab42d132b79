/* SPDX-License-Identifier: MIT */
/*
 * A process is about to begin a checkpoint, and what had its name before has failed. If that was of the same start of its job, the
 * process has to hear so before it begins anew, alone, what the other ranks do not save.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/coord/nodes.h"
#include "engine/unit/accord_impl.h"
#include "engine/unit/claim.h"

#define LATE_SEED 2 /* in units.left, beside 0 and 1 of accord_join.c */

bool accord_is_only_seen_locked(const struct checkpoint *cp)
{
	return cp->accord && cp->accord->a.slot && list_empty(&cp->participants);
}

static struct checkpoint *former_part(struct units *us, const char *gen)
{
	struct list *l;

	list_for_each (l, &us->wrecks.all) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (!strcmp(accord_generation(cp), gen))
			return cp;
	}
	return accord_part(us, gen);
}

/*
 * When that was for which @c failed. Where this node took part it knows. Where this node itself has decided, for a root that is dead
 * (find_free), that was the end of the root's lease. If another node has, the records of former failures are gone before a process of
 * the next start is that old.
 */
static uint64_t failed_ns_locked(struct units *us, const struct claim *c,
				 const struct checkpoint *part)
{
	bool ours = !strcmp(c->decider, nodes_id(us->nodes));
	uint64_t served_ns = ours ? nodes_served_ns(us->nodes, c->node) : 0;

	if (part)
		return accord_cause_ns(part);
	return (served_ns ? served_ns : clock_mono_ns() - us->forget_ns) + START_TICK_NS;
}

/*
 * True if @c, which had the name of @cp before, has failed, and the process that makes @cp has to hear of that: other ranks of its job
 * count what they wrote there as saved. Where processes of this node have written to it, they are told without this. Where starts are
 * counted, the same key is the same start. Else a process that began later than what failed it is of the next start.
 */
static bool is_late(struct checkpoint *cp, const struct claim *c)
{
	struct units *us = cp->units;
	struct process *p = cp->maker;
	struct checkpoint *part;
	uint64_t *told;

	if (!c->failed || strcmp(c->job, p->key) || !nodes_alive(us->nodes, c->decider))
		return false;
	LOCK_SCOPE(&us->lock);
	part = former_part(us, c->end.last);
	if (part && !accord_is_only_seen_locked(part))
		return false;
	if (!job_counts_starts(p) && !casualty_concerns(failed_ns_locked(us, c, part), p))
		return false;
	told = known_make(&us->left, p, hash_text(LATE_SEED, c->end.last));
	if (!told || *told)
		return false;
	*told = clock_mono_ns();
	return true;
}

static int tell_late(struct checkpoint *cp)
{
	struct units *us = cp->units;
	char path[PATH_MAX];

	checkpoint_path(cp, path, sizeof(path));
	LOCK_SCOPE(&us->lock);
	casualty_add(&us->casualties, cp->maker, path, -EIO, clock_mono_ns());
	return checkpoints_tell_casualty_locked(us, cp->maker);
}

/* What had the name before is decided; here that may be known in a moment only. */
static int await_former(struct checkpoint *cp, const struct claim *c)
{
	struct units *us = cp->units;
	struct checkpoint *former;
	int err = 0;
	LOCK_SCOPE(&us->lock);

	while (!err && (former = accord_part(us, c->end.last)) && !state_is_over(former->state))
		err = units_wait(us);
	return err ? err : checkpoints_tell_casualty_locked(us, cp->maker);
}

int accord_hear_of_former(struct checkpoint *cp, const struct claim *c)
{
	int err = await_former(cp, c);

	return !err && is_late(cp, c) ? tell_late(cp) : err;
}
