/* SPDX-License-Identifier: MIT */
#include "engine/redo/trash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "engine/backing/dirwalk.h"
#include "engine/base/cleanup.h"
#include "engine/content/recorded.h"

#define TRIES 3

static bool same_device(struct backing *b, int dir, const struct statx *stx)
{
	struct statx top;

	return !backing_stat(b, dir, &top) && top.stx_dev_major == stx->stx_dev_major &&
	       top.stx_dev_minor == stx->stx_dev_minor;
}

static int remove_tree(struct backing *b, struct contents *cached, int dir, const char *name);

/* Removes all entries of the directory @fd, which is taken over. */
static int clear(struct backing *b, struct contents *cached, int fd)
{
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;
	int first = 0;

	dirwalk_begin_fd(&w, b, fd);
	while (dirwalk_next(&w)) {
		int err = remove_tree(b, cached, w.fd, w.name);

		first = first ? first : err;
	}
	return first ? first : w.err;
}

/* Another process may be removing the same tree. */
static int gone_is_fine(int err)
{
	return err == -ENOENT ? 0 : err;
}

/* A file, @stx, has lost its last name: drops it from the cache, which would keep its blocks. */
static void forget(struct contents *cached, const struct statx *stx)
{
	struct inode_id id = inode_id_of(stx);
	struct content *ct = contents_any(cached) ? content_find(cached, &id) : NULL;

	if (ct)
		content_forget(ct);
	content_put(ct);
}

static int remove_one(struct backing *b, struct contents *cached, int dir, const char *name,
		      const struct statx *stx)
{
	struct statx last;
	__cleanup_fd int held = recorded_hold(b, dir, name, &last);
	int err = backing_unlink(b, dir, name, false);

	if (!err && cached && S_ISREG(stx->stx_mode) && stx->stx_nlink == 1)
		forget(cached, stx);
	if (!err && held >= 0)
		recorded_forget(b, &last);
	return err;
}

static int remove_tree(struct backing *b, struct contents *cached, int dir, const char *name)
{
	struct statx stx;
	int pin, fd, err = backing_stat_at(b, dir, name, &stx);

	if (err)
		return gone_is_fine(err);
	if (!S_ISDIR(stx.stx_mode))
		return gone_is_fine(remove_one(b, cached, dir, name, &stx));
	if (!same_device(b, dir, &stx))
		return -EXDEV;
	pin = backing_pin(b, dir, name);
	if (pin < 0)
		return gone_is_fine(pin);
	fd = backing_reopen(b, pin, O_RDONLY | O_DIRECTORY);
	close(pin);
	err = fd < 0 ? fd : clear(b, cached, fd);
	return gone_is_fine(err ? err : backing_unlink(b, dir, name, true));
}

/* A reader may be keeping its index (fs/indexer.h) in what is removed: then it fills once more. */
int trash_remove(struct backing *b, struct contents *cached, int dir, const char *name)
{
	int err, tries = TRIES;

	do
		err = remove_tree(b, cached, dir, name);
	while (err == -ENOTEMPTY && --tries);
	return err;
}

/* 1: @is_it returns true for it. 0: false, or the name is free. -errno. */
static int look(struct backing *b, int dir, const char *name,
		bool (*is_it)(void *arg, int pin, const struct statx *stx), void *arg, uid_t *uid)
{
	__cleanup_fd int pin = backing_pin(b, dir, name);
	struct statx stx;
	int err = pin < 0 ? pin : backing_stat(b, pin, &stx);

	if (err)
		return err == -ENOENT ? 0 : err;
	*uid = stx.stx_uid;
	return is_it(arg, pin, &stx);
}

int trash_put(struct backing *b, const struct caller *owner, int dir, const char *name,
	      bool (*is_it)(void *arg, int pin, const struct statx *stx), void *arg,
	      char id[STAGING_MAX])
{
	struct backing as = backing_as(b, owner);
	char staging[STAGING_MAX], trash[TRASH_MAX];
	uid_t uid = 0;
	int err = look(b, dir, name, is_it, arg, &uid);

	if (err != 1)
		return err;
	err = staging_new(staging);
	if (err)
		return err;
	snprintf(id, STAGING_MAX, "%s", staging_id(staging));
	trash_name(trash, id);
	err = backing_rename(&as, dir, name, dir, trash, 0);
	if ((err == -EACCES || err == -EPERM) && uid == owner->uid)
		err = backing_rename(b, dir, name, dir, trash, 0);
	if (err && look(b, dir, trash, is_it, arg, &uid) != 1) /* else the answer was lost */
		return err == -ENOENT ? 0 : err;
	if (!look(b, dir, trash, is_it, arg, &uid)) {
		err = backing_rename(b, dir, trash, dir, name, RENAME_NOREPLACE);
		return err ? err : backing_sync_dir(b, dir);
	}
	err = backing_sync_dir(b, dir);
	return err ? err : 1;
}
