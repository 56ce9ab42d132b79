/* SPDX-License-Identifier: MIT */
#include "engine/backing/backing.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "engine/backing/creds.h"
#include "engine/base/cleanup.h"

/* One system call on the backing @b, as the user of the handle. */
#define ACT(b, expr) ACT_AS(&(b)->who, expr)

/*
 * The same for a call that only reads, by a descriptor. The kernel judged the right to read at the
 * open, and the result is the same for every user. So the daemon makes the call without a switch,
 * and the user only if the backing refuses it to the daemon.
 */
#define READ(b, expr) \
	({ \
		const struct who reader_ = who_for(&(b)->who.user); \
		ACT_AS(&reader_, expr); \
	})

/* The same for a call that makes something with @mode, a variable. */
#define MAKE(b, mode, expr) \
	({ \
		mode_t before_; \
		(mode) = creds_mask(&(b)->who, (mode), &before_); \
		int made_ = ACT(b, expr); \
		creds_unmask(before_); \
		made_; \
	})

/* --- the backing --- */

int backing_open(struct backing *b, const char *path, struct error *e)
{
	struct statfs sf;
	struct stat st;

	memset(b, 0, sizeof(*b));
	b->root_fd = b->proc_fd = -1;
	b->features = features_new();
	b->ops = &backing_real_ops;
	b->ops_arg = b;
	if (!b->features)
		return FAIL(e, ENOMEM, BACKING_UNUSABLE, path, strerror(ENOMEM));
	b->path = realpath(path, NULL);
	if (!b->path && errno == ENOENT)
		return FAIL(e, ENOENT, BACKING_MISSING, path, path);
	if (!b->path)
		return FAIL(e, errno, BACKING_UNUSABLE, path, strerror(errno));
	b->root_fd = open(b->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (b->root_fd < 0 && errno == ENOTDIR)
		return FAIL(e, ENOTDIR, BACKING_NOT_DIR, path);
	if (b->root_fd < 0 || fstat(b->root_fd, &st))
		return FAIL(e, errno, BACKING_UNUSABLE, path, strerror(errno));
	b->dev = st.st_dev;
	b->ino = st.st_ino;
	b->fuse = !fstatfs(b->root_fd, &sf) && sf.f_type == FUSE_SUPER_MAGIC;
	b->proc_fd = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (b->proc_fd < 0)
		return FAIL(e, errno, BACKING_UNUSABLE, path, "/proc is not mounted");
	return 0;
}

/*
 * O_NOATIME on each descriptor is not enough: the kernel refuses it for other users' files, and
 * drops it where it passes reads through.
 */
int backing_stop_atime(struct backing *b)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOATIME, .attr_clr = MOUNT_ATTR__ATIME};
	/*
	 * By number: the C library has these calls only from 2.36 on; packages run with older ones.
	 */
	__cleanup_fd int tree =
		(int)syscall(SYS_open_tree, b->root_fd, "",
			     AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	__cleanup_fd int fd = -1;

	if (tree < 0 ||
	    syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)))
		return -errno;
	fd = openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* An existing lock on the directory belongs to the descriptor that dup3 closes. */
	if (backing_lock(b, fd, false))
		return -EBUSY;
	if (dup3(fd, b->root_fd, O_CLOEXEC) < 0)
		return -errno;
	b->tree_fd = take_fd(&tree);
	return 0;
}

int backing_lock(struct backing *b, int fd, bool alone)
{
	struct statfs sf;

	/* NFS has no such locks on directories, and may take long to say so. */
	if (fstatfs(b->root_fd, &sf) || sf.f_type == NFS_SUPER_MAGIC)
		return alone ? -EBUSY : 0;
	if (!flock(fd, (alone ? LOCK_EX : LOCK_SH) | LOCK_NB))
		return 0;
	return alone || errno == EWOULDBLOCK ? -EBUSY : 0;
}

bool backing_has_locks(struct backing *b, int fd)
{
	struct statfs sf;

	if (fstatfs(b->root_fd, &sf) || sf.f_type == NFS_SUPER_MAGIC)
		return false;
	return !flock(fd, LOCK_SH | LOCK_NB) || errno == EWOULDBLOCK;
}

void backing_unlock(int fd)
{
	flock(fd, LOCK_UN);
}

void backing_close(struct backing *b)
{
	if (b->root_fd >= 0)
		close(b->root_fd);
	if (b->tree_fd > 0)
		close(b->tree_fd);
	if (b->proc_fd >= 0)
		close(b->proc_fd);
	free(b->path);
	free(b->features);
	b->path = NULL;
	b->features = NULL;
	b->root_fd = b->proc_fd = -1;
}

bool backing_name_ok(const char *name)
{
	return *name && strcmp(name, ".") && strcmp(name, "..") && !strchr(name, '/') &&
	       strlen(name) <= NAME_MAX;
}

static int open_beneath(struct backing *b, int dir, const char *name, int flags, mode_t mode)
{
	uint64_t resolve =
		feature(b->features, FEATURE_OPENAT2) ? RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS : 0;

	flags |= O_NOFOLLOW | O_CLOEXEC;
	if (flags & O_CREAT)
		return MAKE(b, mode, b->ops->open(b->ops_arg, dir, name, flags, mode, resolve));
	return ACT(b, b->ops->open(b->ops_arg, dir, name, flags, 0, resolve));
}

int backing_pin(struct backing *b, int dir, const char *name)
{
	return open_beneath(b, dir, name, O_PATH, 0);
}

int backing_stat_at(struct backing *b, int dir, const char *name, struct statx *stx)
{
	return ACT(b, b->ops->stat(b->ops_arg, dir, name, AT_SYMLINK_NOFOLLOW, stx));
}

/*
 * O_DIRECT is a hint: a backing without it uses its page cache. The flag is set after the open,
 * because an open with it could make the file before it refuses the flag.
 */
static int with_direct(const struct backing *b, int fd, int flags)
{
	bool absent = !feature(b->features, FEATURE_ODIRECT) &&
		      !feature_untried(b->features, FEATURE_ODIRECT);

	if (fd >= 0 && (flags & O_DIRECT) && !absent)
		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_DIRECT);
	return fd;
}

/* O_NONBLOCK: if the name has become a FIFO meanwhile, the open fails instead of hanging. */
int backing_create(struct backing *b, int dir, const char *name, int flags, mode_t mode,
		   bool *created)
{
	int tries, fd = -EEXIST, direct = flags & O_DIRECT;

	flags = (flags & ~O_DIRECT) | O_NONBLOCK;
	*created = true;
	if (flags & O_EXCL)
		return with_direct(b, open_beneath(b, dir, name, flags | O_CREAT, mode), direct);
	/* Either open may fail because another process removes or makes the name in between. */
	for (tries = 0; tries < 100; tries++) {
		*created = true;
		fd = open_beneath(b, dir, name, flags | O_CREAT | O_EXCL, mode);
		if (fd != -EEXIST)
			break;
		*created = false;
		fd = open_beneath(b, dir, name, flags & ~(O_CREAT | O_EXCL), 0);
		if (fd != -ENOENT)
			break;
	}
	return with_direct(b, fd, direct);
}

int backing_mkdir(struct backing *b, int dir, const char *name, mode_t mode)
{
	return MAKE(b, mode, b->ops->mkdir(b->ops_arg, dir, name, mode));
}

int backing_mknod(struct backing *b, int dir, const char *name, mode_t mode, dev_t dev)
{
	return MAKE(b, mode, b->ops->mknod(b->ops_arg, dir, name, mode, dev));
}

int backing_symlink(struct backing *b, const char *target, int dir, const char *name)
{
	return ACT(b, b->ops->symlink(b->ops_arg, target, dir, name));
}

int backing_link(struct backing *b, int pin, int dir, const char *name)
{
	return ACT(b, b->ops->link(b->ops_arg, pin, dir, name));
}

int backing_unlink(struct backing *b, int dir, const char *name, bool directory)
{
	return ACT(b, b->ops->unlink(b->ops_arg, dir, name, directory ? AT_REMOVEDIR : 0));
}

int backing_rename(struct backing *b, int dir, const char *name, int new_dir, const char *new_name,
		   unsigned flags)
{
	if (flags && b->features->state[FEATURE_RENAME_FLAGS] == FEATURE_TURNED_OFF)
		return -EINVAL;
	return ACT(b, b->ops->rename(b->ops_arg, dir, name, new_dir, new_name, flags));
}

int backing_stat(struct backing *b, int fd, struct statx *stx)
{
	return READ(b, b->ops->stat(b->ops_arg, fd, "", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, stx));
}

int backing_stat_asked(struct backing *b, int fd, struct statx *stx)
{
	return READ(b,
		    b->ops->stat(b->ops_arg, fd, "",
				 AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_STATX_FORCE_SYNC, stx));
}

int backing_stat_known(struct backing *b, int fd, struct statx *stx)
{
	return READ(b, b->ops->stat(b->ops_arg, fd, "",
				    AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, stx));
}

int backing_reopen(struct backing *b, int fd, int flags)
{
	int direct = flags & O_DIRECT;

	flags = (flags & ~(O_NOFOLLOW | O_CREAT | O_EXCL | O_DIRECT)) | O_CLOEXEC;
	return with_direct(b, ACT(b, b->ops->reopen(b->ops_arg, fd, flags)), direct);
}

int backing_dup(struct backing *b, int fd)
{
	return b->ops->dup(b->ops_arg, fd);
}

int backing_walk(struct backing *b, int fd, const char *path, const char **name)
{
	int dir = backing_dup(b, fd);

	while (dir >= 0 && strchr(path, '/')) {
		size_t len = strcspn(path, "/");
		char one[NAME_MAX + 1];
		int next;

		memcpy(one, path, len);
		one[len] = '\0';
		next = backing_pin(b, dir, one);
		close(dir);
		dir = next;
		path += len + 1;
	}
	*name = path;
	return dir;
}

/* The path of @fd. Returns its length, or -errno. */
static ssize_t path_of(struct backing *b, int fd, char buf[PATH_MAX])
{
	ssize_t len = b->ops->path(b->ops_arg, fd, buf, PATH_MAX - 1);

	buf[len > 0 ? len : 0] = '\0';
	return len;
}

int backing_path_below(struct backing *b, int fd, char *buf, size_t size)
{
	char top[PATH_MAX], path[PATH_MAX];
	ssize_t top_len = path_of(b, b->root_fd, top), len = path_of(b, fd, path);
	const char *below;

	if (top_len < 0 || len < 0)
		return (int)(top_len < 0 ? top_len : len);
	if (!strcmp(top, "/"))
		top_len = 0;
	below = path + top_len;
	if (strncmp(path, top, (size_t)top_len) || (*below && *below != '/'))
		return -EXDEV; /* removed, or moved elsewhere */
	below += *below == '/';
	return snprintf(buf, size, "%s", below) < (int)size ? 0 : -ENAMETOOLONG;
}

int backing_readlink(struct backing *b, int pin, char *buf, size_t size)
{
	return (int)READ(b, b->ops->readlink(b->ops_arg, pin, buf, size));
}

int backing_chmod(struct backing *b, int fd, mode_t mode)
{
	return ACT(b, b->ops->chmod(b->ops_arg, fd, mode));
}

int backing_chown(struct backing *b, int fd, uid_t uid, gid_t gid)
{
	return ACT(b, b->ops->chown(b->ops_arg, fd, uid, gid));
}

int backing_utimens(struct backing *b, int fd, const struct timespec times[2])
{
	return ACT(b, b->ops->utimens(b->ops_arg, fd, times));
}

/* truncate(2) wants a path; the kernel judges the permission on the inode, as the caller. */
int backing_truncate(struct backing *b, int fd, off_t size)
{
	return ACT(b, b->ops->truncate(b->ops_arg, fd, size));
}

int backing_statfs(struct backing *b, int fd, struct statvfs *sv)
{
	return READ(b, b->ops->statfs(b->ops_arg, fd, sv));
}

static bool no_xattrs(struct backing *b)
{
	return b->features->state[FEATURE_XATTR] == FEATURE_TURNED_OFF;
}

ssize_t backing_getxattr(struct backing *b, int fd, const char *name, void *buf, size_t size)
{
	if (no_xattrs(b))
		return -EOPNOTSUPP;
	return ACT(b, b->ops->getxattr(b->ops_arg, fd, name, buf, size));
}

ssize_t backing_listxattr(struct backing *b, int fd, char *buf, size_t size)
{
	if (no_xattrs(b))
		return -EOPNOTSUPP;
	return ACT(b, b->ops->listxattr(b->ops_arg, fd, buf, size));
}

int backing_setxattr(struct backing *b, int fd, const char *name, const void *value, size_t size,
		     int flags)
{
	if (no_xattrs(b))
		return -EOPNOTSUPP;
	return ACT(b, b->ops->setxattr(b->ops_arg, fd, name, value, size, flags));
}

int backing_removexattr(struct backing *b, int fd, const char *name)
{
	if (no_xattrs(b))
		return -EOPNOTSUPP;
	return ACT(b, b->ops->removexattr(b->ops_arg, fd, name));
}

/*
 * The backing may refuse an O_DIRECT request that is aligned for the caller's host but not for this
 * storage. From then on the descriptor uses the page cache, as the caller expects of a hint.
 */
static bool stop_direct(int fd, ssize_t err)
{
	int flags = err == -EINVAL ? fcntl(fd, F_GETFL) : -1;

	return flags >= 0 && (flags & O_DIRECT) && !fcntl(fd, F_SETFL, flags & ~O_DIRECT);
}

ssize_t backing_read(struct backing *b, int fd, void *buf, size_t size, off_t off)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = READ(b, b->ops->read(b->ops_arg, fd, (char *)buf + done, size - done,
						 off + (off_t)done));

		if (n == 0)
			break;
		if (n > 0)
			done += (size_t)n;
		else if (n != -EINTR && !stop_direct(fd, n))
			return done ? (ssize_t)done : n;
	}
	return (ssize_t)done;
}

ssize_t backing_write(struct backing *b, int fd, const void *buf, size_t size, off_t off, int rwf)
{
	size_t done = 0;

	do {
		ssize_t n = ACT(b, b->ops->write(b->ops_arg, fd, (const char *)buf + done,
						 size - done, off + (off_t)done, rwf));

		if (n == 0 && done < size && size)
			return done ? (ssize_t)done : -EIO; /* no progress, and no reason */
		if (n >= 0)
			done += (size_t)n;
		else if (n != -EINTR && !stop_direct(fd, n))
			return done ? (ssize_t)done : n;
	} while (done < size);
	return (ssize_t)done;
}

int backing_ftruncate(struct backing *b, int fd, off_t size)
{
	return ACT(b, b->ops->ftruncate(b->ops_arg, fd, size));
}

int backing_fallocate(struct backing *b, int fd, int mode, off_t off, off_t len)
{
	return ACT(b, b->ops->fallocate(b->ops_arg, fd, mode, off, len));
}

int backing_sync(struct backing *b, int fd, bool data_only)
{
	return ACT(b, b->ops->sync(b->ops_arg, fd,
				   data_only ? BACKING_SYNC_DATA : BACKING_SYNC_INODE));
}

int backing_sync_dir(struct backing *b, int dir)
{
	int fd = backing_reopen(b, dir, O_RDONLY | O_DIRECTORY), err;

	if (fd < 0)
		return fd;
	err = backing_sync(b, fd, false);
	close(fd);
	return err;
}

int backing_sync_fs(struct backing *b, int fd)
{
	return ACT(b, b->ops->sync(b->ops_arg, fd, BACKING_SYNC_FS));
}

int backing_write_back(struct backing *b, int fd)
{
	return ACT(b, b->ops->write_back(b->ops_arg, fd));
}

off_t backing_seek(struct backing *b, int fd, off_t off, int whence)
{
	return b->ops->seek(b->ops_arg, fd, off, whence);
}

ssize_t backing_copy_range(struct backing *b, int in, off_t off_in, int out, off_t off_out,
			   size_t len, unsigned flags)
{
	return ACT(b, b->ops->copy_range(b->ops_arg, in, off_in, out, off_out, len, flags));
}

ssize_t backing_getdents(struct backing *b, int fd, void *buf, size_t size)
{
	return READ(b, b->ops->getdents(b->ops_arg, fd, buf, size));
}
