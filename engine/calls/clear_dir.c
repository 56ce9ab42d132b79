/* SPDX-License-Identifier: MIT */
/*
 * Removes what is hidden in a directory that a program wants to remove, and that it sees empty:
 * overtaken saves, failed ones, and those of a killed daemon. A daemon that lives holds a lock on
 * each of its staging files, so a staging file without a lock is garbage.
 *
 * Takes the units' lock, and makes no call to the backing with it.
 */
#include "engine/calls/generation_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "engine/backing/dirwalk.h"
#include "engine/base/cleanup.h"
#include "engine/base/lock.h"
#include "engine/base/log.h"
#include "engine/journal/journal.h"
#include "engine/redo/trash.h"

/* Releases the lock on our failed checkpoint, so that it may be removed. */
static void let_go_failed(struct units *us, const char *name)
{
	struct list *l;
	LOCK_SCOPE(&us->lock);

	list_for_each (l, &us->wrecks.all) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (cp->fd >= 0 && !strcmp(cp->staging, name))
			backing_unlock(cp->fd);
	}
}

/* -ENOTEMPTY: a live daemon still saves to it. */
static int remove_one(struct units *us, struct backing *b, int dir, const char *name)
{
	struct generation *g = units_find_staging(us, name);
	int fd, err;

	if (g) {
		bool visible;
		{
			LOCK_SCOPE(&us->lock);
			visible = g->visible;
		}
		err = visible ? -ENOTEMPTY : generation_drop(g);
		generation_put(g);
		return err == -EEXIST ? -ENOTEMPTY : err;
	}
	let_go_failed(us, name);
	fd = backing_pin(b, dir, name);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	err = backing_reopen(b, fd, O_RDONLY);
	close(fd);
	if (err < 0)
		return err;
	fd = err;
	err = backing_lock(b, fd, true) ? -ENOTEMPTY : trash_remove(b, us->contents, dir, name);
	close(fd);
	if (!err)
		log_info("the remains of a save, '%s', went with their directory", name);
	return err == -ENOENT ? 0 : err;
}

static void note(void *any, const char *name, const struct inode_id *id, mode_t type)
{
	(void)name;
	(void)id;
	(void)type;
	*(bool *)any = true;
}

/* True if the mount shows something in the directory that is not on the backing yet. */
static bool shows_any(struct units *us, const struct inode_id *dir)
{
	bool any = false;

	units_list(us, dir, note, &any);
	return any;
}

/* Removes a hidden entry; -ENOTEMPTY for a visible one. */
static int clear_name(struct units *us, struct backing *b, const struct place *at)
{
	if (name_is_reserved(at->name))
		return remove_one(us, b, at->dir, at->name);
	/* It waits for the next checkpoint beside it, and none will come. */
	return removals_hide(us, &at->id, at->name) ? removal_make_way(us, &at->id, at->name)
						    : -ENOTEMPTY;
}

int units_clear_dir(struct units *us, struct backing *b, int dir, const char *name)
{
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;
	__cleanup_fd int pin = backing_pin(b, dir, name);
	struct inode_id id;
	struct statx stx;
	int err = pin < 0 ? pin : dirwalk_begin(&w, b, pin);

	if (err)
		return err;
	err = backing_stat(b, pin, &stx);
	id = inode_id_of(&stx);
	/* First look at all entries: a directory with a visible one stays as it is. */
	if (!err && shows_any(us, &id))
		err = -ENOTEMPTY;
	if (!err && removals_next_seen(us, &id, &w))
		err = -ENOTEMPTY;
	/* Removals first: the trash that they make goes with the rest. */
	for (int trash = 0; trash <= 1; trash++) {
		dirwalk_rewind(&w);
		while (!err && dirwalk_next(&w))
			if (name_is_reserved(w.name) == trash)
				err = clear_name(us, b, &(struct place){pin, id, w.name});
	}
	return err ? err : w.err;
}
