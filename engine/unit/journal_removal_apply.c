/* SPDX-License-Identifier: MIT */
/*
 * Applies removals: moves a removed checkpoint to trash, by one rename, or begins the change to
 * what is left of it. That happens when something else gets the name, the removal is due, room is
 * short, or at umount.
 *
 * Takes the units' lock, and makes no call to the backing with it: meanwhile the removal is busy
 * (BUSY_APPLY). Does not decide when a removal is due (journal_removal_due.c,
 * journal_removal_judge.c), and removes no bytes (trash_thread.c).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/lock.h"
#include "engine/base/log.h"
#include "engine/redo/trash.h"
#include "engine/unit/journal_removal_impl.h"
#include "engine/unit/trash_queue.h"

static bool is_it(void *removal, int pin, const struct statx *stx)
{
	const struct removal *r = removal;
	struct inode_id id = inode_id_of(stx);

	(void)pin;
	return same_inode(&id, &r->id);
}

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
	const struct caller *owner = &removal_last_part(r)->owner;
	struct backing b = backing_for(us->contents->backing, owner);
	char id[STAGING_MAX];
	int err;

	if (!r->whole)
		return removal_change(us, r);
	err = trash_put(&b, owner, r->dir, r->name, is_it, r, id);
	if (err == 1)
		trash_empty_later(us, owner, r->dir, id);
	return err < 0 ? err : 0;
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

/* The caller was busy with @r. */
static void let_go(struct units *us, struct removal *r, bool done)
{
	{
		LOCK_SCOPE(&us->lock);
		removal_let_go_locked(us, r, done);
	}
	if (done)
		removal_destroy(r);
}

bool removal_is_being_replaced_locked(struct units *us, const struct removal *r)
{
	const struct generation *g;
	struct list *l;

	live_for_each_of (g, &us->live, &r->dir_id, r->name)
		if (generation_is_held_locked(g))
			return true;

	list_for_each (l, &us->checkpoints) {
		const struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (checkpoint_is_held_locked(cp) && same_inode(&cp->target.dir_id, &r->dir_id) &&
		    !strcmp(cp->target.name, r->name))
			return true;
	}
	return false;
}

static int make_way(struct units *us, const struct inode_id *dir, const char *name, bool files_only)
{
	struct removal *r;
	int err = 0;
	{
		LOCK_SCOPE(&us->lock);
		while (!err && (r = removal_find_locked(us, dir, name)) &&
		       (r->file ? r->busy || removal_is_being_replaced_locked(us, r)
				: r->busy && !files_only))
			err = units_wait(us);
		if (err || !r || !r->whole || (files_only && !r->file))
			return err;
		busy_begin(&r->busy, BUSY_APPLY);
	}
	err = removal_apply(us, r);
	let_go(us, r, !err);
	return err;
}

int removal_make_way(struct units *us, const struct inode_id *dir, const char *name)
{
	return make_way(us, dir, name, false);
}

int removal_of_file_makes_way(struct units *us, const struct inode_id *dir, const char *name)
{
	return removals_any(us) ? make_way(us, dir, name, true) : 0;
}

int removal_moved(struct units *us, const struct inode_id *from_dir, const char *from,
		  const struct place *at)
{
	struct removal *r;
	int err = 0, copy;

	if (!atomic_load(&us->nr_removals))
		return 0;
	copy = backing_dup(us->contents->backing, at->dir);
	if (copy < 0)
		return copy;
	{
		LOCK_SCOPE(&us->lock);
		while (!err && (r = removal_find_locked(us, from_dir, from)) && r->busy)
			err = units_wait(us);
		if (!err && r && !r->whole) {
			int old = r->dir;

			r->dir = copy;
			copy = old;
			r->dir_id = at->id;
			snprintf(r->name, sizeof(r->name), "%s", at->name);
		}
	}
	close(copy);
	return err;
}

bool removal_is_applied_locked(struct units *us, const struct inode_id *dir, const char *name)
{
	const struct removal *r = removal_find_locked(us, dir, name);

	return r && r->busy;
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
	let_go(us, r, apply_if_due(us, r, false));
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
		let_go(us, r, done);
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
