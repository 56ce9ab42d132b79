/* SPDX-License-Identifier: MIT */
/*
 * The staging directory of a checkpoint: makes it, or opens the one that another node has made,
 * notes what has the name, and shows the checkpoint under it.
 *
 * Takes the units' lock, and makes no call to the backing with it. Another node or a program may
 * take the name meanwhile, so it is looked at again when the checkpoint is shown.
 */
#include "engine/cluster/checkpoint_stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/journal/journal.h"
#include "engine/redo/unit_header.h"
#include "engine/save/units.h"

static struct process *maker_of(struct checkpoint *cp)
{
	LOCK_SCOPE(&cp->units->lock);

	return process_get(cp->maker);
}

int checkpoint_note_replaced(struct checkpoint *cp)
{
	struct backing b = backing_for(cp->units->contents->backing, &cp->owner);
	struct process *maker = maker_of(cp);
	struct backing shared = accord_backing(cp->units, maker, &cp->owner);
	struct statx stx;
	int pin = backing_pin_now(&shared, cp->target.dir, cp->target.name);
	int fd, err;

	process_put(maker);
	if (pin < 0)
		return pin;
	err = backing_stat(&b, pin, &stx);
	fd = err ? err : backing_reopen(&b, pin, O_RDONLY | O_DIRECTORY);
	close(pin);
	if (fd == -ESTALE) /* removed just now */
		return -ENOENT;
	if (fd < 0)
		return fd;
	cp->replaces = true;
	cp->replaced = inode_id_of(&stx);
	unit_generation(&b, fd, cp->replaced_generation);
	close(fd);
	return 0;
}

/* -EEXIST: something has its name, and programs see that. */
static int check_free(struct checkpoint *cp)
{
	struct units *us = cp->units;
	/* Asked first: what leaves the backing after that is no longer hidden. */
	struct backing b = backing_for(us->contents->backing, &cp->owner);
	bool hidden = removals_hide(us, &cp->target.dir_id, cp->target.name);
	struct statx stx;
	int err = backing_stat_at(&b, cp->target.dir, cp->target.name, &stx);

	if (!err)
		err = hidden ? checkpoint_note_replaced(cp) : -EEXIST;
	return err == -ENOENT ? 0 : err;
}

/* @was: the directory that has the name, and must have it in the end; NULL: nothing has. */
static int stage(struct checkpoint *cp, mode_t mode, const struct statx *was)
{
	struct units *us = cp->units;
	struct backing b = backing_for(us->contents->backing, &cp->owner);
	struct backing maker = backing_maker(&b, &cp->owner);
	struct statx stx;
	int pin, err = was ? checkpoint_note_replaced(cp) : check_free(cp);

	if (err)
		return err;
	err = backing_mkdir(&maker, cp->target.dir, cp->staging, mode);
	if (err)
		return err;
	pin = backing_pin(&b, cp->target.dir, cp->staging);
	err = pin < 0 ? pin : backing_stat(&b, pin, &stx);
	if (!err) {
		cp->id = inode_id_of(&stx);
		cp->fd = backing_reopen(&b, pin, O_RDONLY | O_DIRECTORY);
		/* The daemon may not read it: a pin does for all but the lock. */
		if (cp->fd < 0)
			cp->fd = take_fd(&pin);
		else
			backing_lock(&b, cp->fd, false);
	}
	if (pin >= 0)
		close(pin);
	if (err)
		backing_unlink(&b, cp->target.dir, cp->staging, true);
	return err;
}

static struct checkpoint *create(struct units *us, const struct caller *c, struct process *p,
				 const struct place *at)
{
	struct checkpoint *cp = calloc(1, sizeof(*cp));

	if (!cp)
		return NULL;
	cp->units = us;
	cp->owner = *c;
	cp->refs = 1;
	cp->fd = -1;
	cp->done = -1;
	cp->opened_ns = cp->changed_ns = clock_mono_ns();
	list_init(&cp->link);
	list_init(&cp->by_inode.link);
	list_init(&cp->events);
	list_init(&cp->participants);
	list_init(&cp->files);
	cp->maker = process_get(p);
	snprintf(cp->target.name, sizeof(cp->target.name), "%s", at->name);
	cp->target.dir_id = at->id;
	cp->target.dir = backing_dup(us->contents->backing, at->dir);
	return cp;
}

int checkpoint_make(struct units *us, const struct caller *c, struct process *p,
		    const struct place *at, mode_t mode, const struct statx *was,
		    struct checkpoint **out)
{
	struct checkpoint *cp = create(us, c, p, at);
	int err;

	*out = NULL;
	if (!cp)
		return -ENOMEM;
	err = cp->target.dir < 0 ? -EMFILE : staging_new(cp->staging);
	if (!err)
		err = stage(cp, mode, was);
	if (err)
		checkpoint_put(cp);
	else
		*out = cp;
	return err;
}

/* Opens the staging directory, which is there; another node may hold its lock. */
static int adopt_staged(struct checkpoint *cp)
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	struct statx stx;
	int pin = backing_pin(&b, cp->target.dir, cp->staging);
	int err = pin < 0 ? pin : backing_stat(&b, pin, &stx);

	if (!err && (!S_ISDIR(stx.stx_mode) || stx.stx_uid != cp->owner.uid))
		err = -ENOENT; /* only its owner's counts */
	if (!err) {
		cp->id = inode_id_of(&stx);
		cp->fd = backing_reopen(&b, pin, O_RDONLY | O_DIRECTORY);
		err = cp->fd < 0 ? cp->fd : 0;
	}
	if (!err)
		backing_lock(&b, cp->fd, false);
	if (pin >= 0)
		close(pin);
	if (err)
		return err;
	err = checkpoint_note_replaced(cp);
	return err == -ENOENT || err == -ENOTDIR || err == -ELOOP ? 0
								  : err; /* it replaces nothing */
}

int checkpoint_adopt(struct units *us, const struct caller *c, struct process *p,
		     const struct place *at, const char *gen, bool inherits, bool follows,
		     struct checkpoint **out)
{
	struct checkpoint *cp = create(us, c, p, at);
	int err;

	*out = NULL;
	if (!cp)
		return -ENOMEM;
	cp->inherits = inherits;
	cp->follows = follows;
	staging_name(cp->staging, gen);
	err = cp->target.dir < 0 ? -EMFILE : adopt_staged(cp);
	if (!err && inherits)
		err = checkpoint_knows_inherited(cp);
	if (err)
		checkpoint_put(cp);
	else
		*out = cp;
	return err;
}

int checkpoint_show(struct checkpoint *cp)
{
	int err;
	{
		LOCK_SCOPE(&cp->units->lock);
		err = checkpoint_show_locked(cp);
	}
	replaced_dirs_sweep(cp->units);
	return err;
}

int checkpoint_show_locked(struct checkpoint *cp)
{
	struct units *us = cp->units;

	if (checkpoints_find_locked(us, &cp->target.dir_id, cp->target.name))
		return -EEXIST; /* another thread was quicker */
	if (cp->replaces)
		replaced_dirs_add(&us->replaced_dirs, &cp->replaced);
	cp->visible = true;
	list_append(&us->checkpoints, &cp->link);
	atomic_fetch_add(&us->nr_checkpoints, 1);
	cp->refs++; /* the list's; the first is the caller's */
	return 0;
}

int checkpoint_check_free(struct checkpoint *cp)
{
	struct backing b = backing_for(cp->units->contents->backing, &cp->owner);
	struct statx stx;
	struct inode_id id;
	int err = backing_stat_at(&b, cp->target.dir, cp->target.name, &stx);

	if (err == -ENOENT)
		return 0;
	id = err ? (struct inode_id){0} : inode_id_of(&stx);
	if (!err && cp->replaces && same_inode(&id, &cp->replaced))
		return 0;
	return err ? err : -EEXIST;
}
