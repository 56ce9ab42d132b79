/* SPDX-License-Identifier: MIT */
#include "engine/save/units.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/log.h"
#include "engine/redo/trash.h"

#define SWEEP_LEAST 64

int wrecks_init(struct wrecks *ws)
{
	ws->sweep_at = SWEEP_LEAST;
	return table_init(&ws->by_inode);
}

void wrecks_finish(struct units *us)
{
	while (us->wrecks.all.next && !list_empty(&us->wrecks.all)) {
		struct checkpoint *cp = container_of(us->wrecks.all.next, struct checkpoint, link);

		wreck_take_off_locked(cp);
		checkpoint_put(cp);
	}
	table_finish(&us->wrecks.by_inode);
}

/* --- without descriptors --- */

/* A descriptor of the parent directory, for the caller to close, or -errno. */
static int pin_parent(struct checkpoint *cp)
{
	struct backing b = backing_for(cp->units->contents->backing, &cp->owner);
	char path[PATH_MAX], *rest, *name;
	int at, next;
	{
		LOCK_SCOPE(&cp->units->lock);
		at = backing_dup(&b, cp->target.dir >= 0 ? cp->target.dir : b.root_fd);
		snprintf(path, sizeof(path), "%s",
			 cp->target.dir < 0 && cp->below ? cp->below : "");
	}
	for (name = strtok_r(path, "/", &rest); name && at >= 0;
	     name = strtok_r(NULL, "/", &rest)) {
		next = backing_pin(&b, at, name);
		close(at);
		at = next;
	}
	return at;
}

int checkpoint_fd(struct checkpoint *cp)
{
	struct backing b = backing_for(cp->units->contents->backing, &cp->owner);
	struct inode_id id;
	struct statx stx;
	int dir, fd, err;
	{
		LOCK_SCOPE(&cp->units->lock);
		if (cp->fd >= 0)
			return cp->fd;
	}
	dir = pin_parent(cp);
	fd = dir < 0 ? dir : backing_pin(&b, dir, cp->staging);
	if (dir >= 0)
		close(dir);
	err = fd < 0 ? fd : backing_stat(&b, fd, &stx);
	id = err ? cp->id : inode_id_of(&stx);
	if (!err && !same_inode(&id, &cp->id))
		err = -ESTALE;
	{
		LOCK_SCOPE(&cp->units->lock);
		if (!err && cp->fd < 0) /* else another thread was faster */
			cp->fd = take_fd(&fd);
		err = cp->fd >= 0 ? cp->fd : err;
	}
	if (fd >= 0)
		close(fd);
	return err == -ENOENT ? -ESTALE : err;
}

/* The wrecks that nothing else refers to, referenced, in an array for the caller to free. */
static struct checkpoint **take_resting_locked(struct units *us, size_t *nr)
{
	struct checkpoint **resting = malloc(us->wrecks.by_inode.nr * sizeof(*resting));
	struct list *l;

	*nr = 0;
	list_for_each (l, &us->wrecks.all) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (resting && wreck_rests_locked(cp) && !cp->decided) {
			cp->refs++;
			resting[(*nr)++] = cp;
		}
	}
	return resting;
}

/* Forgets @cp if its directory is gone or there are @too_many. The caller has a reference. */
static void forget(struct checkpoint *cp, bool too_many)
{
	struct units *us = cp->units;
	bool gone;
	{
		LOCK_SCOPE(&us->lock);
		gone = cp->refs == 2 && (cp->cleared || too_many);
		if (gone) {
			wreck_take_off_locked(cp);
			cp->refs--; /* the list's */
		}
	}
	if (gone && !cp->cleared)
		log_info("'%s', the remains of a checkpoint that failed, is left to `ckptfs fsck`",
			 cp->staging);
}

void wrecks_sweep(struct units *us)
{
	struct wrecks *ws = &us->wrecks;
	struct checkpoint **resting;
	size_t nr, i, surplus;
	{
		LOCK_SCOPE(&us->lock);
		if (ws->by_inode.nr < ws->sweep_at)
			return;
		ws->sweep_at = SIZE_MAX; /* keeps another thread from sweeping at once */
		surplus = ws->by_inode.nr > WRECKS_KEPT ? ws->by_inode.nr - WRECKS_KEPT : 0;
		resting = take_resting_locked(us, &nr);
	}
	for (i = 0; i < nr; i++) {
		bool known = us->knows && us->knows(us->knows_arg, &resting[i]->id);

		if (!known)
			forget(resting[i], surplus > 0);
		surplus -= !known && surplus;
		checkpoint_put(resting[i]);
	}
	free(resting);
	LOCK_SCOPE(&us->lock);
	ws->sweep_at = ws->by_inode.nr + SWEEP_LEAST;
}

/* --- removal --- */

void wrecks_outlived_locked(struct units *us, const struct checkpoint *cp)
{
	struct list *l;

	list_for_each (l, &us->wrecks.all) {
		struct checkpoint *o = container_of(l, struct checkpoint, link);

		if (same_inode(&o->target.dir_id, &cp->target.dir_id))
			o->outlived = true;
	}
}

/* The next wreck to remove, referenced. */
static struct checkpoint *next_locked(struct units *us)
{
	bool short_of_room = !list_empty(&us->room.wanted);
	struct list *l;

	list_for_each (l, &us->wrecks.all) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (cp->cleared || cp->decided || cp->nr_changing || cp->err == -EBUSY)
			continue;
		if (!cp->unwanted && !(cp->outlived && short_of_room))
			continue;
		cp->cleared = true;
		cp->refs++;
		return cp;
	}
	return NULL;
}

/* Removes its staging directory, as its owner or as the daemon. */
static int clear(struct checkpoint *cp)
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	int dir = pin_parent(cp), err;

	if (dir < 0)
		return dir;
	err = trash_remove(&b, cp->units->contents, dir, cp->staging);
	close(dir);
	return err;
}

bool wrecks_clear(struct units *us)
{
	bool any = false;

	for (;;) {
		struct checkpoint *cp;
		int err;
		{
			LOCK_SCOPE(&us->lock);
			cp = next_locked(us);
		}
		if (!cp)
			return any;
		err = clear(cp);
		if (err)
			log_warn("'%s' cannot be removed: %s. It is the remains of a checkpoint "
				 "that failed; `ckptfs fsck` clears it away",
				 cp->staging, strerror(-err));
		any = any || !err;
		checkpoint_put(cp);
	}
}
