/* SPDX-License-Identifier: MIT */
/*
 * What is hidden in a directory that a program removes, which saw it empty: saves that have been
 * overtaken, and the remains of those that failed or whose daemon was killed. Whose daemon lives
 * holds a lock on each of its staging files.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "engine/backing/dirwalk.h"
#include "engine/base/cleanup.h"
#include "engine/base/lock.h"
#include "engine/base/log.h"
#include "engine/unit/internal.h"
#include "engine/unit/removal.h"
#include "engine/unit/rules.h"
#include "engine/unit/trash.h"

/* A checkpoint of ours that has failed is no longer kept from others. */
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

/* -ENOTEMPTY: somebody saves to it. */
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

/* Does a program see anything in the directory that is not on the backing yet? */
static bool shows_any(struct units *us, const struct inode_id *dir)
{
	bool any = false;

	units_list(us, dir, note, &any);
	return any;
}

/* What a program does not see of the directory @dir; -ENOTEMPTY of what it does. */
static int clear_name(struct units *us, struct backing *b, const struct place *at)
{
	if (rules_reserved(at->name))
		return remove_one(us, b, at->dir, at->name);
	/* Its removal waits for the next checkpoint beside it, of which there will be none. */
	return removals_hide(us, &at->id, at->name) ? removal_make_way(us, &at->id, at->name)
						    : -ENOTEMPTY;
}

int units_clear_dir(struct units *us, struct backing *b, int dir)
{
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;
	struct inode_id id;
	struct statx stx;
	int err = dirwalk_begin(&w, b, dir);

	if (err)
		return err;
	err = backing_stat(b, dir, &stx);
	id = inode_id_of(&stx);
	/* All of them first: what a program can see stays, with all that is about it. */
	if (!err && shows_any(us, &id))
		err = -ENOTEMPTY;
	if (!err && removals_next_seen(us, &id, &w))
		err = -ENOTEMPTY;
	/* Removals first: what they leave in trash goes with the rest. */
	for (int trash = 0; trash <= 1; trash++) {
		dirwalk_rewind(&w);
		while (!err && dirwalk_next(&w))
			if (rules_reserved(w.name) == trash)
				err = clear_name(us, b, &(struct place){dir, id, w.name});
	}
	return err ? err : w.err;
}
