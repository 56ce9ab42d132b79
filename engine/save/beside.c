/* SPDX-License-Identifier: MIT */
/*
 * What happens beside a checkpoint, as evidence of its end: operations on names in its directory,
 * and the next checkpoint of its job.
 */
#include "engine/save/units.h"

#include <stdatomic.h>
#include <stdio.h>

#include "engine/base/lock.h"
#include "engine/base/wait.h"
#include "engine/save/accord.h"

void checkpoints_note_beside(struct units *us, const struct inode_id *dir, enum evidence_kind kind,
			     const char *name)
{
	char path[NAME_MAX + 4];
	struct list *l;

	if (!atomic_load(&us->nr_checkpoints))
		return;
	snprintf(path, sizeof(path), "../%s", name);
	LOCK_SCOPE(&us->lock);
	list_for_each (l, &us->checkpoints) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (same_inode(&cp->target.dir_id, dir) && cp->rule &&
		    rule_seen(cp->rule, kind, cp->target.name, path))
			checkpoint_event_locked(cp, kind, path, -1);
	}
}

void checkpoints_note_pointed(struct units *us, const struct inode_id *dir, const char *target,
			      const char *name)
{
	char path[NAME_MAX + 4];
	struct checkpoint *cp;

	if (!atomic_load(&us->nr_checkpoints))
		return;
	cp = checkpoints_find(us, dir, target);
	if (!cp)
		return;
	snprintf(path, sizeof(path), "../%s", name);
	checkpoint_note(cp, EVIDENCE_CLOSE, path, -1);
	checkpoint_put(cp);
}

/* True if @p alone has written to it. */
static bool is_of_one_locked(struct checkpoint *cp, const struct process *p)
{
	return cp->participants.next == cp->participants.prev &&
	       checkpoint_participant_of_locked(cp, p);
}

void checkpoint_tell_sibling_locked(struct checkpoint *cp)
{
	struct list *l;

	if (cp->follows || state_is_over(cp->state))
		return; /* a late change to an older one; or over */
	list_for_each (l, &cp->units->checkpoints) {
		struct checkpoint *o = container_of(l, struct checkpoint, link);

		if (o == cp)
			break; /* the rest is newer; one that is not shown is the newest */
		if (o->rule == cp->rule && !accord_has_dead_writer(o) &&
		    epoch_same(o->maker, cp->maker) &&
		    same_inode(&o->target.dir_id, &cp->target.dir_id)) {
			o->has_sibling = true;
			o->goes_on = o->goes_on || is_of_one_locked(o, cp->maker);
		}
	}
	waitq_wake(&cp->units->commits);
}

void checkpoint_takes_rule_locked(struct checkpoint *cp, const struct rule *rule)
{
	cp->rule = rule;
	checkpoint_tell_sibling_locked(cp);
	waitq_wake_all(&cp->units->changed);
}
