/* SPDX-License-Identifier: MIT */
/*
 * A checkpoint that begins as what a directory has already: a change to a committed one, or a directory
 * that a late file shows to be one. Files are inherited as hard links, so an unchanged one keeps its
 * inode; directories are made anew. The first change of an inherited file makes it one of its own.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/unit/internal.h"
#include "engine/unit/removal.h"
#include "engine/unit/replace.h"
#include "engine/unit/rules.h"
#include "engine/unit/trash.h"

static int link_tree(struct units *us, int from, int to);

static int take_over_symlink(struct backing *b, int pin, int to, const char *name)
{
	char target[PATH_MAX];
	int len = backing_readlink(b, pin, target, sizeof(target) - 1);

	if (len < 0)
		return len;
	target[len] = '\0';
	return backing_symlink(b, target, to, name);
}

/* A directory of the same attributes, with links to the same files. */
static int take_over_directory(struct units *us, int pin, const struct statx *stx, int to,
			       const char *name)
{
	struct backing *b = us->contents->backing;
	struct timespec times[2] = {
		{.tv_nsec = UTIME_OMIT},
		{.tv_sec = stx->stx_mtime.tv_sec, .tv_nsec = stx->stx_mtime.tv_nsec},
	};
	int fd, old, err = backing_mkdir(b, to, name, 0700);

	if (err)
		return err;
	fd = backing_pin(b, to, name);
	if (fd < 0)
		return fd;
	old = backing_reopen(b, pin, O_RDONLY | O_DIRECTORY);
	err = old < 0 ? old : link_tree(us, old, fd);
	if (!err)
		err = units_take_over(us, old, fd, stx, false);
	if (!err)
		err = backing_utimens(b, fd, times);
	if (old >= 0)
		close(old);
	close(fd);
	return err;
}

static int take_over_one(struct units *us, int from, int to, const char *name)
{
	struct backing *b = us->contents->backing;
	struct statx stx;
	int pin = backing_pin(b, from, name), err;

	if (pin < 0)
		return pin == -ENOENT ? 0 : pin;
	err = backing_stat(b, pin, &stx);
	if (!err && S_ISDIR(stx.stx_mode))
		err = take_over_directory(us, pin, &stx, to, name);
	else if (!err && S_ISLNK(stx.stx_mode))
		err = take_over_symlink(b, pin, to, name);
	else if (!err)
		err = backing_link(b, pin, to, name);
	close(pin);
	return err;
}

static bool is_hidden(struct units *us, int dir, const char *name)
{
	struct statx stx;
	struct inode_id id;

	if (backing_stat(us->contents->backing, dir, &stx))
		return false;
	id = inode_id_of(&stx);
	return removals_hide(us, &id, name);
}

/* All that programs see in the directory @from is in @to, too. */
static int link_tree(struct units *us, int from, int to)
{
	int fd = backing_reopen(us->contents->backing, from, O_RDONLY | O_DIRECTORY), err = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return fd < 0 ? fd : -ENOMEM;
	}
	while (!err && (entry = readdir(d))) {
		if (backing_name_ok(entry->d_name) && !rules_reserved(entry->d_name) &&
		    !is_hidden(us, from, entry->d_name))
			err = take_over_one(us, dirfd(d), to, entry->d_name);
		if (!err && us->given_up && us->given_up())
			err = -EINTR;
	}
	closedir(d);
	return err;
}

bool checkpoint_shares(const struct checkpoint *cp, const struct statx *stx)
{
	/* What has more names since then got them in @cp. */
	return cp->inherits && stx->stx_nlink > 1 && inode_id_of(stx).btime_ns <= cp->id.btime_ns;
}

/* A copy of the file @name of the directory @dir, which is open as @old, or an @empty one gets its name. */
static int replace_by_own(struct units *us, int dir, const char *name, int old,
			  const struct statx *was, bool empty)
{
	struct backing *b = us->contents->backing;
	char temp[STAGING_MAX];
	bool created;
	int err = units_new_id(temp), fd;

	if (err)
		return err;
	fd = backing_create(b, dir, temp, O_RDWR | O_EXCL, 0600, &created);
	if (fd < 0)
		return fd;
	err = units_take_over(us, old, fd, was, !empty);
	close(fd);
	if (!err)
		err = backing_rename(b, dir, temp, dir, name, 0);
	if (err)
		backing_unlink(b, dir, temp, false);
	return err;
}

static int unshare_in(struct checkpoint *cp, int dir, const char *name, bool empty)
{
	struct units *us = cp->units;
	struct backing *b = us->contents->backing;
	struct statx was;
	int pin = backing_pin(b, dir, name), old, err;

	if (pin < 0)
		return pin == -ENOENT ? 0 : pin;
	err = backing_stat(b, pin, &was);
	if (err || !S_ISREG(was.stx_mode) || !checkpoint_shares(cp, &was)) {
		close(pin);
		return err;
	}
	old = backing_reopen(b, pin, O_RDONLY);
	close(pin);
	if (old < 0)
		return old;
	err = replace_by_own(us, dir, name, old, &was, empty);
	close(old);
	if (!err) {
		LOCK_SCOPE(&us->lock);
		cp->rewrites = true;
	}
	return err;
}

static int unshare_at(struct checkpoint *cp, const char *rel, bool empty)
{
	struct backing *b = cp->units->contents->backing;
	int dir = fcntl(cp->fd, F_DUPFD_CLOEXEC, 0), err;

	while (dir >= 0 && strchr(rel, '/')) {
		size_t len = strcspn(rel, "/");
		char name[NAME_MAX + 1];
		int next;

		memcpy(name, rel, len);
		name[len] = '\0';
		next = backing_pin(b, dir, name);
		close(dir);
		dir = next;
		rel += len + 1;
	}
	if (dir < 0)
		return dir == -ENOENT ? 0 : dir;
	err = unshare_in(cp, dir, rel, empty);
	close(dir);
	return err;
}

int checkpoint_unshare(struct checkpoint *cp, const char *rel, bool empty)
{
	struct units *us = cp->units;
	int err = 0;
	{
		/* One at a time: a second copy would replace the first, which is written to by then. */
		LOCK_SCOPE(&us->lock);
		while (!err && cp->unsharing)
			err = units_wait(us);
		if (err)
			return err;
		cp->unsharing = true;
	}
	creds_restore();
	err = unshare_at(cp, rel, empty);
	LOCK_SCOPE(&us->lock);
	cp->unsharing = false;
	pthread_cond_broadcast(&us->changed);
	return err;
}

static void replaces_nothing(struct checkpoint *cp)
{
	LOCK_SCOPE(&cp->units->lock);
	cp->replaces = false;
}

int checkpoint_inherit(struct units *us, const struct caller *c, struct process *p, int dir,
		       const struct inode_id *dir_id, const char *name, bool committed,
		       struct checkpoint **out)
{
	struct backing *b = us->contents->backing;
	struct checkpoint *cp;
	struct statx stx;
	int pin, old, err;

	*out = NULL;
	creds_restore(); /* all of it, whoever may read it; and with its attributes */
	pin = backing_pin(b, dir, name);
	if (pin < 0)
		return pin;
	err = backing_stat(b, pin, &stx);
	old = err ? err : backing_reopen(b, pin, O_RDONLY | O_DIRECTORY);
	close(pin);
	if (old < 0)
		return old;
	err = checkpoint_make(us, c, p, dir, dir_id, name, 0700, &stx, &cp);
	if (!err) {
		unit_generation(b, old, cp->replaced_generation);
		err = link_tree(us, old, cp->fd);
		if (!err)
			err = units_take_over(us, old, cp->fd, &stx, false);
		cp->follows = committed;
		cp->inherits = true;
		if (!err)
			err = checkpoint_show(cp);
		/* An empty one has done what it was for: after a crash it would only look like a unit. */
		if (!err && !committed && !AS_CALLER(c, backing_unlink(b, dir, name, true)))
			replaces_nothing(cp);
		creds_restore();
		if (err) {
			trash_remove(b, cp->target.dir, cp->staging);
			checkpoint_put(cp);
		}
	}
	close(old);
	if (!err)
		*out = cp;
	return err;
}
