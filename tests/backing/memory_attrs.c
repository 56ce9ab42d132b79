/* SPDX-License-Identifier: MIT */
/* The calls on the attributes of inodes of the filesystem in memory. */
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "engine/base/cleanup.h"
#include "tests/backing/memory_inside.h"
#include "tests/backing/util.h"

/* --- attributes --- */

static struct statx_timestamp stamp(struct timespec t)
{
	return (struct statx_timestamp){.tv_sec = t.tv_sec, .tv_nsec = (uint32_t)t.tv_nsec};
}

static unsigned links_of(const struct mem_node *n)
{
	unsigned links = 2;
	size_t i;

	if (!S_ISDIR(n->mode) || !n->links)
		return n->links;
	for (i = 0; i < n->nr_entries; i++)
		links += S_ISDIR(n->entries[i].node->mode);
	return links;
}

static uint64_t blocks_of(const struct mem_node *n)
{
	uint64_t nr = 0;
	size_t i;

	for (i = 0; i < n->nr_pages; i++)
		nr += n->pages[i] != NULL;
	return nr * (PAGE_BYTES / 512);
}

int mem_op_stat(void *arg, int dir, const char *name, int flags, struct statx *stx)
{
	struct memory *m = arg;
	struct mem_node *n;
	int err;

	MUTEX_SCOPE(&m->lock);
	if (!*name && !(flags & AT_EMPTY_PATH))
		return -ENOENT;
	err = *name ? mem_lookup(m, dir, name, &n) : mem_node_of(m, dir, &n);
	if (err)
		return err;
	memset(stx, 0, sizeof(*stx));
	stx->stx_mask = STATX_BASIC_STATS | STATX_BTIME;
	stx->stx_blksize = PAGE_BYTES;
	stx->stx_nlink = links_of(n);
	stx->stx_uid = n->uid;
	stx->stx_gid = n->gid;
	stx->stx_mode = (uint16_t)n->mode;
	stx->stx_ino = n->ino;
	stx->stx_size = (uint64_t)(S_ISDIR(n->mode) ? (off_t)(n->nr_entries + 2) * 20 : n->size);
	stx->stx_blocks = blocks_of(n);
	stx->stx_atime = stamp(n->atime);
	stx->stx_mtime = stamp(n->mtime);
	stx->stx_ctime = stamp(n->ctime);
	stx->stx_btime = stamp(n->btime);
	stx->stx_rdev_major = major(n->rdev);
	stx->stx_rdev_minor = minor(n->rdev);
	stx->stx_dev_major = major(MEM_DEV);
	stx->stx_dev_minor = minor(MEM_DEV);
	return 0;
}

int mem_op_statfs(void *arg, int fd, struct statvfs *sv)
{
	struct memory *m = arg;
	uint64_t room;
	struct mem_node *n;
	int err;

	MUTEX_SCOPE(&m->lock);
	err = mem_node_of(m, fd, &n);
	if (err)
		return err;
	room = m->room ? m->room : 1 << 28;
	memset(sv, 0, sizeof(*sv));
	sv->f_bsize = sv->f_frsize = PAGE_BYTES;
	sv->f_blocks = room;
	sv->f_bfree = sv->f_bavail = room > m->used ? room - m->used : 0;
	sv->f_files = sv->f_ffree = sv->f_favail = 1 << 20;
	sv->f_namemax = NAME_MAX;
	return 0;
}

ssize_t mem_op_readlink(void *arg, int fd, char *buf, size_t size)
{
	struct memory *m = arg;
	struct mem_node *n;
	size_t len;
	int err;

	MUTEX_SCOPE(&m->lock);
	err = mem_node_of(m, fd, &n);
	if (!err && !S_ISLNK(n->mode))
		err = -ENOENT;
	if (err)
		return err;
	len = strlen(n->target) < size ? strlen(n->target) : size;
	memcpy(buf, n->target, len);
	return (ssize_t)len;
}

int mem_op_chmod(void *arg, int fd, mode_t mode)
{
	struct memory *m = arg;
	struct mem_node *n;
	int err;

	MUTEX_SCOPE(&m->lock);
	err = mem_node_of(m, fd, &n);
	if (!err && S_ISLNK(n->mode))
		err = -EOPNOTSUPP;
	if (err)
		return err;
	n->mode = (n->mode & S_IFMT) | (mode & 07777);
	mem_touch(n, false);
	return 0;
}

int mem_op_chown(void *arg, int fd, uid_t uid, gid_t gid)
{
	struct memory *m = arg;
	struct mem_node *n;
	int err;

	MUTEX_SCOPE(&m->lock);
	err = mem_node_of(m, fd, &n);
	if (err)
		return err;
	if (uid != (uid_t)-1)
		n->uid = uid;
	if (gid != (gid_t)-1)
		n->gid = gid;
	if (!S_ISDIR(n->mode) && !S_ISLNK(n->mode)) {
		n->mode &= ~(mode_t)S_ISUID;
		if (n->mode & S_IXGRP)
			n->mode &= ~(mode_t)S_ISGID;
	}
	mem_touch(n, false);
	return 0;
}

static void set_time(struct timespec *t, const struct timespec *to)
{
	if (to && to->tv_nsec == UTIME_OMIT)
		return;
	*t = to && to->tv_nsec != UTIME_NOW ? *to : mem_now();
}

int mem_op_utimens(void *arg, int fd, const struct timespec times[2])
{
	struct memory *m = arg;
	struct mem_node *n;
	int err;

	MUTEX_SCOPE(&m->lock);
	err = mem_node_of(m, fd, &n);
	if (err)
		return err;
	set_time(&n->atime, times ? &times[0] : NULL);
	set_time(&n->mtime, times ? &times[1] : NULL);
	mem_touch(n, false);
	return 0;
}

/* --- xattrs --- */

static struct mem_xattr *find_xattr(struct mem_node *n, const char *name)
{
	size_t i;

	for (i = 0; i < n->nr_xattrs; i++)
		if (!strcmp(n->xattrs[i].name, name))
			return &n->xattrs[i];
	return NULL;
}

/* 0 if there may be such an xattr; @absent: the error if an inode of this type never has one. */
static int xattr_node(struct memory *m, int fd, const char *name, int absent, struct mem_node **n)
{
	int err = mem_node_of(m, fd, n);
	bool user = !strncmp(name, "user.", 5);

	if (err)
		return err;
	if (!*name || strlen(name) > XATTR_NAME_MAX)
		return -ERANGE;
	if (!user && strncmp(name, "trusted.", 8))
		return -EOPNOTSUPP;
	if (user && !S_ISREG((*n)->mode) && !S_ISDIR((*n)->mode))
		return absent;
	return 0;
}

ssize_t mem_op_getxattr(void *arg, int fd, const char *name, void *buf, size_t size)
{
	struct memory *m = arg;
	struct mem_xattr *x;
	struct mem_node *n;
	int err;

	MUTEX_SCOPE(&m->lock);
	err = xattr_node(m, fd, name, -ENODATA, &n);
	if (err)
		return err;
	x = find_xattr(n, name);
	if (!x)
		return -ENODATA;
	if (size && size < x->size)
		return -ERANGE;
	if (size && x->size)
		memcpy(buf, x->value, x->size);
	return (ssize_t)x->size;
}

ssize_t mem_op_listxattr(void *arg, int fd, char *buf, size_t size)
{
	struct memory *m = arg;
	struct mem_node *n;
	size_t len = 0, i;
	int err;

	MUTEX_SCOPE(&m->lock);
	err = mem_node_of(m, fd, &n);
	if (err)
		return err;
	for (i = 0; i < n->nr_xattrs; i++) {
		size_t one = strlen(n->xattrs[i].name) + 1;

		if (size && len + one > size)
			return -ERANGE;
		if (size)
			memcpy(buf + len, n->xattrs[i].name, one);
		len += one;
	}
	return (ssize_t)len;
}

int mem_set_xattr(struct mem_node *n, const char *name, const void *value, size_t size, int flags)
{
	struct mem_xattr *x = find_xattr(n, name);

	if (x && flags & XATTR_CREATE)
		return -EEXIST;
	if (!x && flags & XATTR_REPLACE)
		return -ENODATA;
	if (!x) {
		n->xattrs = grow(n->xattrs, &n->max_xattrs, n->nr_xattrs, sizeof(*n->xattrs));
		x = &n->xattrs[n->nr_xattrs++];
		*x = (struct mem_xattr){.name = must(strdup(name))};
	}
	free(x->value);
	x->value = copy_of(value, size);
	x->size = size;
	return 0;
}

int mem_op_setxattr(void *arg, int fd, const char *name, const void *value, size_t size, int flags)
{
	struct memory *m = arg;
	struct mem_node *n;
	int err;

	if (size > XATTR_SIZE_MAX)
		return -E2BIG;
	MUTEX_SCOPE(&m->lock);
	err = xattr_node(m, fd, name, -EPERM, &n);
	if (!err)
		err = mem_set_xattr(n, name, value, size, flags);
	if (!err)
		mem_touch(n, false);
	return err;
}

int mem_op_removexattr(void *arg, int fd, const char *name)
{
	struct memory *m = arg;
	struct mem_xattr *x;
	struct mem_node *n;
	int err;

	MUTEX_SCOPE(&m->lock);
	err = xattr_node(m, fd, name, -EPERM, &n);
	x = err ? NULL : find_xattr(n, name);
	if (!x)
		return err ? err : -ENODATA;
	free(x->name);
	free(x->value);
	*x = n->xattrs[--n->nr_xattrs];
	mem_touch(n, false);
	return 0;
}
