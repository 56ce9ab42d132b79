/* SPDX-License-Identifier: MIT */
/*
 * Applies removals: moves a removed checkpoint to trash, or begins the change to what is left of
 * it. That happens when the removal is due, room is short, or at umount. Where something else gets
 * the name, journal_removal_way.c does it.
 *
 * Takes the units' lock, and makes no call to the backing with it: meanwhile the removal is busy
 * (BUSY_APPLY). Does not decide when a removal is due (journal_removal_due.c,
 * journal_removal_judge.c).
 */
#include "engine/commit/journal_removal_work.h"

#include <errno.h>

#include "engine/base/cleanup.h"
#include "engine/base/lock.h"
#include "engine/base/log.h"
#include "engine/calls/checkpoint_impl.h"

int removal_change(struct units *us, const struct removal *r)
{
	const struct part *part = removal_last_part(r);
	struct checkpoint *cp;
	int err = checkpoint_inherit_now(us, &part->owner, part->process,
					 &(struct place){r->dir, r->dir_id, r->name}, r->changed_ns,
					 r->emptied, &cp);

	checkpoint_put(cp);
	return err;
}

int removal_apply(struct units *us, struct removal *r)
{
	return r->whole ? removal_apply_whole(us, r) : removal_change(us, r);
}

/* Looks at the backing, and applies @r if that is its fate. True: done. */
static bool apply_if_due(struct units *us, struct removal *r, bool hurry)
{
	enum fate fate;

	removal_look(us, r);
	{
		LOCK_SCOPE(&us->lock);
		fate = removal_fate_locked(us, r, hurry);
	}
	return fate == FATE_APPLY && !removal_apply(us, r);
}

void removal_apply_due(struct units *us, const struct inode_id *dir, const char *name)
{
	struct removal *r;
	{
		LOCK_SCOPE(&us->lock);
		/* The caller then drops the record by which a crash would redo the removal. */
		while ((r = removal_find_locked(us, dir, name)) && r->busy)
			if (units_wait(us))
				return;
		if (!r || !r->due || !r->whole || removal_is_being_replaced_locked(us, r))
			return; /* removal_make_way has applied it, or will */
		busy_begin(&r->busy, BUSY_APPLY);
	}
	removal_let_go(us, r, apply_if_due(us, r, false));
}

static struct removal *take_next_locked(struct units *us, unsigned round)
{
	struct list *l;

	list_for_each (l, &us->removals) {
		struct removal *r = container_of(l, struct removal, link);

		if (!r->whole || r->busy || r->looked_at == round ||
		    removal_is_being_replaced_locked(us, r))
			continue;
		busy_begin(&r->busy, BUSY_APPLY);
		r->looked_at = round;
		return r;
	}
	return NULL;
}

bool removals_hasten(struct units *us, uid_t uid, const struct inode_id *last_in)
{
	struct removal *r;
	bool done = false;
	unsigned round;
	{
		LOCK_SCOPE(&us->lock);
		round = ++us->room.rounds;
	}
	while (!done) {
		{
			LOCK_SCOPE(&us->lock);
			r = take_next_locked(us, round);
		}
		if (!r)
			break;
		if (!last_in)
			done = apply_if_due(us, r, true);
		else if (removal_last_part(r)->owner.uid == uid && same_inode(last_in, &r->dir_id))
			done = !removal_apply(us, r);
		if (done)
			log_info("'%s', which was removed, has left the backing before a newer one "
				 "was committed: there was no room",
				 r->name);
		removal_let_go(us, r, done);
	}
	return done;
}

void removals_finish(struct units *us)
{
	while (!list_empty(&us->removals)) {
		struct removal *r = container_of(us->removals.next, struct removal, link);

		if (!r->whole || !apply_if_due(us, r, true))
			log_info("'%s' was removed in the mount, and is kept on the backing: no "
				 "newer checkpoint was committed beside it, or a pointer names it",
				 r->name);
		removal_list_remove_locked(us, r);
		removal_destroy(r);
	}
}
