/* SPDX-License-Identifier: MIT */
#include "engine/base/appear.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* False where @err says that the filesystem, or this file, can have no hard links. */
static bool has_links(int err)
{
	return err != -EPERM && err != -EOPNOTSUPP && err != -ENOSYS && err != -EMLINK;
}

/* True if @name is @tmp: the answer to the link was lost. */
static bool is_same(int dir, const char *tmp, const char *name)
{
	struct stat a, b;

	return !fstatat(dir, tmp, &a, AT_SYMLINK_NOFOLLOW) &&
	       !fstatat(dir, name, &b, AT_SYMLINK_NOFOLLOW) && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

static int rename_first(int dir, const char *tmp, const char *name)
{
	if (!renameat2(dir, tmp, dir, name, RENAME_NOREPLACE))
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	return renameat(dir, tmp, dir, name) ? -errno : 0;
}

int appear_first(int dir, const char *tmp, const char *name)
{
	int err = linkat(dir, tmp, dir, name, 0) ? -errno : 0;

	if (err && !has_links(err))
		err = rename_first(dir, tmp, name);
	else if (err && is_same(dir, tmp, name))
		err = 0;
	unlinkat(dir, tmp, 0); /* what is left is no other file's name */
	return err;
}
