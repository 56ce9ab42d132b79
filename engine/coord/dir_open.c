/* SPDX-License-Identifier: MIT */
/* The directories of records are opened here; one that is not its owner's alone is not believed. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

#include "engine/base/cleanup.h"
#include "engine/base/log.h"
#include "engine/coord/dir_inside.h"

int dir_distrust(const struct backing *b, uid_t owner, const char *name, const char *fmt, ...)
{
	char path[PATH_MAX + 128], why[128], text[MESSAGE_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	snprintf(path, sizeof(path), "%s/" FORMAT_DIR "/" FORMAT_TXN "/%u%s%s", b->path,
		 (unsigned)owner, *name ? "/" : "", name);
	MESSAGE(text, COORD_DISTRUSTED, path, why, (unsigned)owner, path);
	log_warn("%s", text);
	return -EPERM;
}

static int trust_dir(struct backing *b, int pin, uid_t owner, bool quiet)
{
	struct statx stx;
	int err = backing_stat(b, pin, &stx);

	if (err)
		return err;
	if (quiet && (!S_ISDIR(stx.stx_mode) || stx.stx_uid != owner || stx.stx_mode & 022))
		return -EPERM;
	if (!S_ISDIR(stx.stx_mode))
		return dir_distrust(b, owner, "", "it is no directory");
	if (stx.stx_uid != owner)
		return dir_distrust(b, owner, "", "it belongs to uid %u", stx.stx_uid);
	if (stx.stx_mode & 022)
		return dir_distrust(b, owner, "", "others may write to it");
	return 0;
}

/* Opens @dir/@name for listing and syncing. */
static int open_dir(struct backing *b, int dir, const char *name)
{
	__cleanup_fd int pin = backing_pin(b, dir, name);

	return pin < 0 ? pin : backing_reopen(b, pin, O_RDONLY | O_DIRECTORY);
}

/*
 * As the daemon, where it may: all users may enter these directories, and a switch of user costs
 * more.
 */
int dir_open(struct backing *b, const char *name)
{
	struct backing daemon = backing_daemon(b);
	__cleanup_fd int top = backing_pin(&daemon, b->root_fd, FORMAT_DIR);

	return top < 0 ? top : open_dir(&daemon, top, name);
}

int dir_open_owner_in(struct backing *b, int txn, uid_t owner, bool quiet)
{
	struct backing daemon = backing_daemon(b);
	char name[COORD_UID_MAX];
	__cleanup_fd int pin = -1;
	int err;

	coord_uid_name(name, owner);
	pin = backing_pin(&daemon, txn, name);
	err = pin < 0 ? pin : trust_dir(b, pin, owner, quiet);
	return err ? err : backing_reopen(b, pin, O_RDONLY | O_DIRECTORY);
}

int dir_open_owner(struct backing *b, uid_t owner, bool quiet)
{
	__cleanup_fd int txn = dir_open(b, FORMAT_TXN);

	return txn < 0 ? txn : dir_open_owner_in(b, txn, owner, quiet);
}
