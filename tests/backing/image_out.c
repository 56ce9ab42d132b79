/* SPDX-License-Identifier: MIT */
/* An image, as others see it: its hash, and as files in a directory. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "tests/backing/image_inside.h"
#include "tests/backing/util.h"

/* --- hash: sums, where there is no order --- */

static uint64_t hash_name(const char *name)
{
	uint64_t h = 0;

	while (*name)
		h = mix(h, (unsigned char)*name++);
	return h;
}

static uint64_t hash_inode(const struct image *im, int nr)
{
	const struct inode *inode = &im->inodes[nr];
	const struct record_attr *a = &inode->attr;
	uint64_t h = mix(mix(mix((uint64_t)nr, a->mode), a->uid), a->gid);
	size_t i;

	if (!S_ISDIR(a->mode) || inode->timed)
		h = mix(h, mix((uint64_t)a->mtime.tv_sec, (uint64_t)a->mtime.tv_nsec));
	h = mix(h, (uint64_t)inode->size);
	for (i = 0; i < im->log->inodes[nr].blocks; i++)
		if (inode->pages[i])
			h += mix(inode->pages[i]->id, i);
	for (i = 0; i < inode->nr_xattrs; i++)
		if (inode->xattrs[i].op)
			h += mix(hash_name(inode->xattrs[i].name),
				 (uint64_t)(inode->xattrs[i].op - im->log->ops));
	for (i = 0; i < inode->nr_entries; i++)
		if (inode->entries[i].inode >= 0)
			h += mix(hash_name(inode->entries[i].name),
				 hash_inode(im, inode->entries[i].inode));
	return h;
}

uint64_t image_hash(const struct image *im)
{
	return hash_inode(im, 0);
}

/* --- files --- */

struct writer {
	const struct image *im;
	int top;
	char **paths; /* of each inode that has a name already */
};

/* Blocks [at, end) of @inode, which all have pages, in as few calls as possible. */
static int write_run(const struct inode *inode, int fd, size_t at, size_t end)
{
	struct iovec iov[256];

	while (at < end) {
		size_t nr = 0, bytes = 0, start = at;

		for (; at < end && nr < ARRAY_SIZE(iov); at++, nr++) {
			off_t left = inode->size - (off_t)at * IMAGE_BLOCK;
			size_t len = left < IMAGE_BLOCK ? (size_t)left : IMAGE_BLOCK;

			iov[nr] = (struct iovec){(void *)inode->pages[at]->data, len};
			bytes += len;
		}
		if (pwritev(fd, iov, (int)nr, (off_t)start * IMAGE_BLOCK) != (ssize_t)bytes)
			return errno ? -errno : -EIO;
	}
	return 0;
}

static int write_data(const struct inode *inode, size_t max_blocks, int fd)
{
	size_t nr_blocks = (size_t)((inode->size + IMAGE_BLOCK - 1) / IMAGE_BLOCK), at, end;
	int err = ftruncate(fd, inode->size) ? -errno : 0;

	if (nr_blocks > max_blocks) /* the rest was never written */
		nr_blocks = max_blocks;
	for (at = 0; !err && at < nr_blocks; at = end) {
		for (end = at; end < nr_blocks && inode->pages[end]; end++)
			;
		err = write_run(inode, fd, at, end);
		end += end == at;
	}
	return err;
}

/* The attributes of dir/@name, when it has its content. */
static int write_attr(const struct inode *inode, int dir, const char *name)
{
	const struct record_attr *a = &inode->attr;
	const struct timespec times[2] = {a->atime, a->mtime};
	char path[PATH_MAX];
	size_t i;

	if ((a->uid != geteuid() || a->gid != getegid()) &&
	    fchownat(dir, name, a->uid, a->gid, AT_SYMLINK_NOFOLLOW))
		return -errno;
	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir, name);
	for (i = 0; i < inode->nr_xattrs; i++) {
		const struct xattr *x = &inode->xattrs[i];

		if (x->op && lsetxattr(path, x->name, x->op->data, x->op->len, 0))
			return -errno;
	}
	if (!S_ISLNK(a->mode) && fchmodat(dir, name, a->mode & 07777, 0))
		return -errno;
	if (S_ISDIR(a->mode) && !inode->timed)
		return 0;
	return utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) ? -errno : 0;
}

static int write_entries(struct writer *w, int nr, int dir, const char *path);

static int write_inode(struct writer *w, int nr, int dir, const char *name)
{
	const struct inode *inode = &w->im->inodes[nr];
	__cleanup_fd int fd = -1;
	int err = 0;

	if (S_ISDIR(inode->attr.mode)) {
		if (mkdirat(dir, name, 0700))
			return -errno;
		fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		err = fd < 0 ? -errno : write_entries(w, nr, fd, w->paths[nr]);
	} else if (S_ISREG(inode->attr.mode)) {
		fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		err = fd < 0 ? -errno : write_data(inode, w->im->log->inodes[nr].blocks, fd);
	} else if (S_ISLNK(inode->attr.mode)) {
		err = symlinkat(inode->target, dir, name) ? -errno : 0;
	} else {
		err = mknodat(dir, name, inode->attr.mode, inode->attr.rdev) ? -errno : 0;
	}
	return err ? err : write_attr(inode, dir, name);
}

static int write_entries(struct writer *w, int nr, int dir, const char *path)
{
	const struct inode *inode = &w->im->inodes[nr];
	char *full;
	size_t i;
	int err = 0;

	for (i = 0; !err && i < inode->nr_entries; i++) {
		const struct entry *e = &inode->entries[i];

		if (e->inode < 0)
			continue;
		if (w->paths[e->inode]) { /* a hard link */
			if (linkat(w->top, w->paths[e->inode], dir, e->name, 0))
				err = -errno;
			continue;
		}
		if (asprintf(&full, "%s%s%s", path, *path ? "/" : "", e->name) < 0)
			return -ENOMEM;
		w->paths[e->inode] = full;
		err = write_inode(w, e->inode, dir, e->name);
	}
	return err;
}

int image_write(const struct image *im, int dir)
{
	struct writer w = {.im = im, .top = dir};
	size_t i;
	int err;

	w.paths = must(calloc(im->log->nr_inodes, sizeof(*w.paths)));
	err = write_entries(&w, 0, dir, "");
	if (!err)
		err = write_attr(&im->inodes[0], dir, ".");
	for (i = 0; i < im->log->nr_inodes; i++)
		free(w.paths[i]);
	free(w.paths);
	return err;
}
