/* SPDX-License-Identifier: MIT */
/*
 * A removed checkpoint leaves the backing because something else gets its name: moves it to trash,
 * by one rename.
 *
 * Takes the units' lock, and makes no call to the backing with it: meanwhile the removal is busy
 * (BUSY_APPLY). Removes no bytes (trash_queue.c).
 */
#include "engine/journal/journal_removal_impl.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/lock.h"
#include "engine/redo/trash.h"
#include "engine/save/trash_queue.h"

static bool is_it(void *removal, int pin, const struct statx *stx)
{
	const struct removal *r = removal;
	struct inode_id id = inode_id_of(stx);

	(void)pin;
	return same_inode(&id, &r->id);
}

int removal_apply_whole(struct units *us, struct removal *r)
{
	const struct caller *owner = &removal_last_part(r)->owner;
	struct backing b = backing_for(us->contents->backing, owner);
	char id[STAGING_MAX];
	int err = trash_put(&b, owner, r->dir, r->name, is_it, r, id);
	if (err == 1)
		trash_empty_later(us, owner, r->dir, id);
	return err < 0 ? err : 0;
}

void removal_let_go(struct units *us, struct removal *r, bool done)
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
	err = removal_apply_whole(us, r);
	removal_let_go(us, r, !err);
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
