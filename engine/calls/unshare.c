/* SPDX-License-Identifier: MIT */
/*
 * The first change of a file that a checkpoint shares with what it inherited from: the file becomes
 * a copy. BUSY_UNSHARE lets one thread at a time copy. Takes the units' lock, and makes no call to
 * the backing with it.
 */
#include "engine/calls/generation_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "engine/backing/take_over.h"
#include "engine/calls/directory.h"
#include "engine/cluster/other_nodes.h"

/* True if @name in @dir is the file that is open as @fd. */
static bool is_at(struct backing *b, int dir, const char *name, int fd)
{
	struct inode_id id, there;
	struct statx stx;

	if (backing_stat(b, fd, &stx))
		return false;
	id = inode_id_of(&stx);
	if (backing_stat_at(b, dir, name, &stx))
		return false;
	there = inode_id_of(&stx);
	return same_inode(&id, &there);
}

/*
 * Replaces the file @name of the directory @dir, which is open as @old, by a copy, or an @empty
 * file. Returns the new one, open, or -errno: then @name is what it was.
 */
static int replace_by_own(struct backing *b, int dir, const char *name, int old,
			  const struct statx *was, bool empty)
{
	char temp[STAGING_MAX];
	bool created;
	int err = staging_new(temp), fd;

	if (err)
		return err;
	fd = backing_create(b, dir, temp, O_RDWR | O_EXCL, 0600, &created);
	if (fd < 0)
		return fd;
	err = backing_take_over(b, old, fd, was, !empty);
	if (!err)
		err = backing_rename(b, dir, temp, dir, name, 0);
	/* The answer may be lost. A file with the name is committed, so it must be this one. */
	if (!err || is_at(b, dir, name, fd))
		return fd;
	close(fd);
	backing_unlink(b, dir, temp, false);
	return err;
}

/* Opens the file @name of its directory @dir, copied if it is shared. -ENOENT: no such file. */
static int open_own(struct checkpoint *cp, struct backing *b, int dir, const char *name, bool empty)
{
	struct inode_id id;
	struct statx was;
	int pin = backing_pin(b, dir, name), fd, old;

	if (pin < 0)
		return pin;
	fd = backing_stat(b, pin, &was);
	if (!fd && !S_ISREG(was.stx_mode))
		fd = -ENOENT;
	id = inode_id_of(&was);
	if (!fd && !checkpoint_shares(cp, &id) && !accord_is_elsewhere(cp, &id)) {
		fd = backing_reopen(b, pin, O_RDWR);
	} else if (!fd) {
		old = backing_reopen(b, pin, O_RDONLY);
		fd = old < 0 ? old
			     : WITH_ROOM(cp->units, &cp->owner, &cp->id,
					 replace_by_own(b, dir, name, old, &was, empty));
		if (old >= 0)
			close(old);
		if (fd >= 0 && !backing_stat(b, fd, &was) && !checkpoint_shares(cp, &id)) {
			const struct inode_id own = inode_id_of(&was);

			checkpoint_add_overwrite(cp, &own, &id);
		}
	}
	close(pin);
	return fd;
}

/* Begins a save of the file, which expects the open: until then the checkpoint is not closed. */
static int expect_in(struct checkpoint *cp, struct backing *b, const struct caller *c, int rank,
		     int dir, const char *name, const char *rel, bool empty)
{
	struct generation *g = NULL;
	struct inode_id dir_id;
	struct statx stx;
	int err = backing_stat(b, dir, &stx), fd;

	if (err)
		return err;
	dir_id = inode_id_of(&stx);
	do {
		generation_put(g);
		fd = open_own(cp, b, dir, name, empty);
		if (fd < 0)
			return fd == -ENOENT ? 0 : fd;
		err = generation_begin_in(cp, c, rank, &dir_id, name, rel, fd, true, &g);
		if (err)
			return err;
	} while (!generation_expect_in(g, c->pid, empty) && !(err = generation_wait(g)));
	generation_put(g);
	return err;
}

static int expect_at(struct checkpoint *cp, const struct caller *c, int rank, const char *path,
		     bool empty)
{
	struct backing b = backing_for(cp->units->contents->backing, c);
	const char *name;
	int dir = backing_walk(&b, cp->fd, path, &name), err;

	if (dir < 0)
		return dir == -ENOENT ? 0 : dir;
	err = expect_in(cp, &b, c, rank, dir, name, path, empty);
	close(dir);
	return err;
}

int checkpoint_expect(struct checkpoint *cp, const struct caller *c, int rank, const char *rel,
		      bool empty)
{
	struct units *us = cp->units;
	int err;
	{
		/* One at a time: a second copy would replace the first, which is in use. */
		LOCK_SCOPE(&us->lock);
		err = busy_wait(us, &cp->busy, BUSY_UNSHARE);
		if (err)
			return err;
	}
	err = expect_at(cp, c, rank, rel, empty);
	LOCK_SCOPE(&us->lock);
	busy_end(us, &cp->busy, BUSY_UNSHARE);
	return err;
}
