/* SPDX-License-Identifier: MIT */
#include "engine/backing/take_over.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/wait.h"

#define COPY_STEP ((size_t)64 << 20)
#define MAX_XATTR 65536

static bool begins_as_one_of(const char *text, const char *const *beginnings)
{
	while (*beginnings && strncmp(text, *beginnings, strlen(*beginnings)))
		beginnings++;
	return *beginnings;
}

/*
 * True if attributes of this name go over from a file to what replaces it: not its digest, nor what
 * any write clears, nor what filesystems note about one inode.
 */
static bool is_inherited(const char *xattr)
{
	static const char *const some[] = {"user.", "trusted.", "security.", "system.posix_acl_",
					   NULL};
	static const char *const but[] = {"user.ckptfs.", "security.capability", "security.ima",
					  "security.evm", "trusted.glusterfs.",	 "trusted.gfid",
					  "trusted.afr.", "trusted.overlay.",	 "trusted.lov",
					  "trusted.lma",  "trusted.link",	 "trusted.fid",
					  "trusted.som",  "trusted.hsm",	 NULL};

	return begins_as_one_of(xattr, some) && !begins_as_one_of(xattr, but);
}

static int copy_xattrs(struct backing *b, int from, int to)
{
	__cleanup_free char *names = malloc(MAX_XATTR), *value = malloc(MAX_XATTR);
	ssize_t len = names && value ? backing_listxattr(b, from, names, MAX_XATTR) : -ENOMEM, at;

	for (at = 0; at < len; at += (ssize_t)strlen(names + at) + 1) {
		const char *name = names + at;
		ssize_t n;

		if (!is_inherited(name))
			continue;
		n = backing_getxattr(b, from, name, value, MAX_XATTR);
		if (n >= 0)
			n = backing_setxattr(b, to, name, value, (size_t)n, 0);
		/* Not every user may see or set all of them. */
		if (n < 0 && n != -EPERM && n != -EACCES && n != -EOPNOTSUPP && n != -ENODATA)
			return (int)n;
	}
	return len < 0 && len != -EOPNOTSUPP ? (int)len : 0;
}

static int copy_bytes(struct backing *b, int from, int to, uint64_t size)
{
	uint64_t at = 0;

	while (at < size) {
		ssize_t n = backing_copy_range(b, from, (off_t)at, to, (off_t)at,
					       size - at < COPY_STEP ? size - at : COPY_STEP, 0);

		if (n < 0)
			return (int)n;
		if (n == 0)
			break;
		at += (uint64_t)n;
		if (wait_interrupted())
			return -EINTR;
	}
	return 0;
}

/* The mode that a write leaves. */
static mode_t written_mode(mode_t mode)
{
	if (S_ISDIR(mode))
		return mode & 07777;
	return mode & 07777 & ~(mode_t)(S_ISUID | (mode & S_IXGRP ? S_ISGID : 0));
}

int backing_take_over(struct backing *b, int old, int fd, const struct statx *was, bool copy)
{
	struct statx stx;
	int err = backing_stat(b, fd, &stx);

	if (!err && (stx.stx_uid != was->stx_uid || stx.stx_gid != was->stx_gid))
		err = backing_chown(b, fd, was->stx_uid, was->stx_gid);
	if (!err)
		err = backing_removexattr(b, fd,
					  "system.posix_acl_access"); /* that the directory gave */
	if (err == -ENODATA || err == -EOPNOTSUPP)
		err = 0;
	if (!err)
		err = backing_chmod(b, fd, written_mode(was->stx_mode));
	if (!err)
		err = copy_xattrs(b, old, fd);
	if (!err && copy)
		err = copy_bytes(b, old, fd, was->stx_size);
	return err;
}
