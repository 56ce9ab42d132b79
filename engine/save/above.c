/* SPDX-License-Identifier: MIT */
#include "engine/save/units.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/lock.h"

static bool is_durable(struct units *us, const struct inode_id *id)
{
	unsigned i;
	LOCK_SCOPE(&us->lock);

	for (i = 0; i < us->nr_above && i < ABOVE_KEPT; i++)
		if (same_inode(&us->above[i], id))
			return true;
	return false;
}

static void note_durable(struct units *us, const struct inode_id *id)
{
	LOCK_SCOPE(&us->lock);
	us->above[us->nr_above++ % ABOVE_KEPT] = *id;
}

/* Replaces *@at, a directory, by its subdirectory @name, and makes that name durable. */
static int step_down(struct units *us, struct backing *b, int *at, const char *name)
{
	int next = backing_pin(b, *at, name), err;
	struct inode_id id;
	struct statx stx;

	if (next < 0)
		return next;
	err = backing_stat(b, next, &stx);
	id = inode_id_of(&stx);
	if (!err && !is_durable(us, &id)) {
		err = backing_sync_dir(b, *at);
		if (!err)
			note_durable(us, &id);
	}
	close(*at);
	*at = next;
	return err;
}

int above_sync(struct units *us, const struct caller *owner, int dir)
{
	struct backing b = backing_owner(us->contents->backing, owner);
	__cleanup_free char *path = malloc(PATH_MAX);
	struct inode_id id;
	struct statx stx;
	char *rest, *name;
	int at, err = path ? backing_stat(&b, dir, &stx) : -ENOMEM;

	if (err)
		return err;
	id = inode_id_of(&stx);
	if (is_durable(us, &id) || backing_path_below(&b, dir, path, PATH_MAX))
		return 0;
	at = backing_dup(&b, b.root_fd);
	if (at < 0)
		return at;
	for (name = strtok_r(path, "/", &rest); name && !err; name = strtok_r(NULL, "/", &rest))
		err = step_down(us, &b, &at, name);
	close(at);
	return err == -EACCES || err == -EPERM || err == -ENOENT || err == -ENOTDIR ? 0 : err;
}
