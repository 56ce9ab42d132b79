/* SPDX-License-Identifier: MIT */
/*
 * A program removes or renames a checkpoint that is not committed yet.
 *
 * Takes the units' lock, and makes no call to the backing with it: meanwhile the checkpoint is busy
 * (BUSY_HELD), so that no other thread changes or ends it. This file gives no committed one its
 * name (publish_checkpoint.c).
 */
#include "engine/calls/checkpoint_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/cluster/checkpoint_stage.h"
#include "engine/cluster/cluster.h"
#include "engine/journal/journal_removal.h"

int checkpoint_remove(struct checkpoint *cp, const struct caller *c)
{
	struct units *us = cp->units;
	struct backing b = backing_owner(us->contents->backing, &cp->owner);
	struct process *p;
	int err;
	{
		LOCK_SCOPE(&us->lock);
		err = checkpoint_hold_locked(cp, BUSY_REMOVE);
	}
	if (err)
		return err;
	err = backing_unlink(&b, cp->target.dir, cp->staging, true);
	if (err && err != -ENOENT) {
		checkpoint_let_go(cp, BUSY_REMOVE);
		return err;
	}
	p = cp->replaces ? units_process(us, c) : NULL;
	if (p) /* programs saw one directory, and removed it */
		removal_of_replaced(cp, c, p);
	process_put(p);
	LOCK_SCOPE(&us->lock);
	busy_end(us, &cp->busy, BUSY_REMOVE);
	checkpoint_end_locked(cp, GENERATION_DROPPED);
	return 0;
}

/*
 * @cp is to get the name @at. What @cp changes, and is to replace, moves there with its name. Else
 * @cp replaces what is there: something removed, which stays until the next commit.
 */
static int take_along(struct checkpoint *cp, const struct place *at, bool *replaces,
		      struct inode_id *replaced)
{
	struct backing b = backing_for(cp->units->contents->backing, &cp->owner);
	bool hidden = removals_hide(cp->units, &cp->target.dir_id, cp->target.name);
	struct backing as = backing_as(&b, &cp->owner);
	struct statx stx;
	int err =
		cp->replaces ? backing_stat_at(&b, cp->target.dir, cp->target.name, &stx) : -ENOENT;

	*replaced = err ? cp->replaced : inode_id_of(&stx);
	*replaces = !err && same_inode(replaced, &cp->replaced) && !hidden;
	if (*replaces) {
		err = removal_make_way(cp->units, &at->id, at->name);
		if (err)
			return err;
		err = backing_rename(&as, cp->target.dir, cp->target.name, at->dir, at->name, 0);
		if (!err)
			removal_moved(cp->units, &cp->target.dir_id, cp->target.name, at);
		return err;
	}
	err = backing_stat_at(&b, at->dir, at->name, &stx);
	*replaces = !err;
	if (!err)
		*replaced = inode_id_of(&stx);
	return err == -ENOENT ? 0 : err;
}

int checkpoint_rename(struct checkpoint *cp, const struct place *at)
{
	struct units *us = cp->units;
	struct backing b = backing_owner(us->contents->backing, &cp->owner);
	int copy = backing_dup(&b, at->dir), err;
	struct inode_id replaced, old_id;
	char old_name[NAME_MAX + 1];
	bool replaces;
	{
		LOCK_SCOPE(&us->lock);
		err = copy < 0 ? -EMFILE : checkpoint_hold_locked(cp, BUSY_RENAME);
	}
	if (err) {
		if (copy >= 0)
			close(copy);
		return err;
	}
	if (!same_inode(&cp->target.dir_id, &at->id))
		err = backing_rename(&b, cp->target.dir, cp->staging, at->dir, cp->staging, 0);
	if (!err) {
		err = take_along(cp, &(struct place){copy, at->id, at->name}, &replaces, &replaced);
		if (err && !same_inode(&cp->target.dir_id, &at->id))
			backing_rename(&b, at->dir, cp->staging, cp->target.dir, cp->staging, 0);
	}
	if (!err) {
		LOCK_SCOPE(&us->lock);

		cp->replaces = replaces;
		cp->replaced = replaced;
		/* As in accord_join.c, keeps the number; both are open, so it cannot fail. */
		dup3(copy, cp->target.dir, O_CLOEXEC);
		old_id = cp->target.dir_id;
		memcpy(old_name, cp->target.name, sizeof(old_name));
		cp->target.dir_id = at->id;
		snprintf(cp->target.name, sizeof(cp->target.name), "%s", at->name);
		cp->changed_ns = clock_mono_ns();
		accord_tell_name(cp);
		checkpoint_event_locked(cp, EVIDENCE_RENAME, ".", -1);
	}
	if (!err && replaces)
		checkpoint_note_replaced(cp);
	if (!err)
		err = accord_renamed(cp, &old_id, old_name);
	close(copy);
	checkpoint_let_go(cp, BUSY_RENAME);
	return err;
}
