/* SPDX-License-Identifier: MIT */
#include "engine/backing/backing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "engine/base/cleanup.h"

#define STATX_WANTED (STATX_BASIC_STATS | STATX_BTIME)

static inline int result(int r)
{
	return r < 0 ? -errno : r;
}

int backing_open(struct backing *b, const char *path, struct error *e)
{
	struct stat st;

	memset(b, 0, sizeof(*b));
	b->root_fd = b->proc_fd = -1;
	features_init(&b->features);
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
	b->proc_fd = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (b->proc_fd < 0)
		return FAIL(e, errno, BACKING_UNUSABLE, path, "/proc is not mounted");
	return 0;
}

void backing_close(struct backing *b)
{
	if (b->root_fd >= 0)
		close(b->root_fd);
	if (b->proc_fd >= 0)
		close(b->proc_fd);
	free(b->path);
	b->path = NULL;
	b->root_fd = b->proc_fd = -1;
}

bool backing_name_ok(const char *name)
{
	return *name && strcmp(name, ".") && strcmp(name, "..") && !strchr(name, '/') &&
	       strlen(name) <= NAME_MAX;
}

static int open_beneath(struct backing *b, int dir, const char *name, int flags, mode_t mode)
{
	struct open_how how = {
		.flags = (unsigned)flags | O_NOFOLLOW | O_CLOEXEC,
		.mode = flags & O_CREAT ? mode : 0,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
	};

	if (!feature(&b->features, FEATURE_OPENAT2))
		return result(openat(dir, name, flags | O_NOFOLLOW | O_CLOEXEC, mode));
	return result((int)syscall(SYS_openat2, dir, name, &how, sizeof(how)));
}

int backing_pin(struct backing *b, int dir, const char *name)
{
	return open_beneath(b, dir, name, O_PATH, 0);
}

int backing_stat_at(struct backing *b, int dir, const char *name, struct statx *stx)
{
	(void)b;
	return result(statx(dir, name, AT_SYMLINK_NOFOLLOW, STATX_WANTED, stx));
}

/*
 * O_DIRECT is a hint, where the backing has none its page cache serves. Given to @fd after the
 * open, which would make the file before it refuses the flag.
 */
static int with_direct(const struct backing *b, int fd, int flags)
{
	bool absent = !feature(&b->features, FEATURE_ODIRECT) &&
		      !feature_untried(&b->features, FEATURE_ODIRECT);

	if (fd >= 0 && (flags & O_DIRECT) && !absent)
		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_DIRECT);
	return fd;
}

/* O_NONBLOCK: should the name have become a FIFO meanwhile, the open fails instead of hanging. */
int backing_create(struct backing *b, int dir, const char *name, int flags, mode_t mode,
		   bool *created)
{
	int tries, fd = -EEXIST, direct = flags & O_DIRECT;

	flags = (flags & ~O_DIRECT) | O_NONBLOCK;
	*created = true;
	if (flags & O_EXCL)
		return with_direct(b, open_beneath(b, dir, name, flags | O_CREAT, mode), direct);
	/* Each may lose against somebody who removes or makes the name in between. */
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
	(void)b;
	return result(mkdirat(dir, name, mode));
}

int backing_mknod(struct backing *b, int dir, const char *name, mode_t mode, dev_t dev)
{
	(void)b;
	return result(mknodat(dir, name, mode, dev));
}

int backing_symlink(struct backing *b, const char *target, int dir, const char *name)
{
	(void)b;
	return result(symlinkat(target, dir, name));
}

/* "123": the entry of @fd in /proc/self/fd. */
static const char *fd_entry(int fd, char buf[16])
{
	snprintf(buf, 16, "%d", fd);
	return buf;
}

int backing_link(struct backing *b, int pin, int dir, const char *name)
{
	char entry[16];

	return result(linkat(b->proc_fd, fd_entry(pin, entry), dir, name, AT_SYMLINK_FOLLOW));
}

int backing_unlink(struct backing *b, int dir, const char *name, bool directory)
{
	(void)b;
	return result(unlinkat(dir, name, directory ? AT_REMOVEDIR : 0));
}

int backing_rename(struct backing *b, int dir, const char *name, int new_dir, const char *new_name,
		   unsigned flags)
{
	if (flags && b->features.state[FEATURE_RENAME_FLAGS] == FEATURE_TURNED_OFF)
		return -EINVAL;
	return result(renameat2(dir, name, new_dir, new_name, flags));
}

int backing_stat(struct backing *b, int fd, struct statx *stx)
{
	(void)b;
	return result(statx(fd, "", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, STATX_WANTED, stx));
}

int backing_reopen(struct backing *b, int fd, int flags)
{
	char entry[16];
	int direct = flags & O_DIRECT;

	flags = (flags & ~(O_NOFOLLOW | O_CREAT | O_EXCL | O_DIRECT)) | O_CLOEXEC;
	return with_direct(b, result(openat(b->proc_fd, fd_entry(fd, entry), flags)), direct);
}

int backing_readlink(struct backing *b, int pin, char *buf, size_t size)
{
	(void)b;
	return result((int)readlinkat(pin, "", buf, size));
}

int backing_chmod(struct backing *b, int fd, mode_t mode)
{
	char entry[16];

	return result(fchmodat(b->proc_fd, fd_entry(fd, entry), mode, 0));
}

int backing_chown(struct backing *b, int fd, uid_t uid, gid_t gid)
{
	(void)b;
	return result(fchownat(fd, "", uid, gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW));
}

int backing_utimens(struct backing *b, int fd, const struct timespec times[2])
{
	(void)b;
	return result(utimensat(fd, "", times, AT_EMPTY_PATH));
}

/* truncate(2) wants a path; permission is judged on the inode, as the caller. */
int backing_truncate(struct backing *b, int fd, off_t size)
{
	char path[64];

	(void)b;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return result(truncate(path, size));
}

int backing_statfs(struct backing *b, int fd, struct statvfs *sv)
{
	(void)b;
	return result(fstatvfs(fd, sv));
}

static bool no_xattrs(struct backing *b)
{
	return b->features.state[FEATURE_XATTR] == FEATURE_TURNED_OFF;
}

ssize_t backing_getxattr(struct backing *b, int fd, const char *name, void *buf, size_t size)
{
	char path[64];
	ssize_t n;

	if (no_xattrs(b))
		return -EOPNOTSUPP;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = getxattr(path, name, buf, size);
	return n < 0 ? -errno : n;
}

ssize_t backing_listxattr(struct backing *b, int fd, char *buf, size_t size)
{
	char path[64];
	ssize_t n;

	if (no_xattrs(b))
		return -EOPNOTSUPP;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = listxattr(path, buf, size);
	return n < 0 ? -errno : n;
}

int backing_setxattr(struct backing *b, int fd, const char *name, const void *value, size_t size,
		     int flags)
{
	char path[64];

	if (no_xattrs(b))
		return -EOPNOTSUPP;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return result(setxattr(path, name, value, size, flags));
}

int backing_removexattr(struct backing *b, int fd, const char *name)
{
	char path[64];

	if (no_xattrs(b))
		return -EOPNOTSUPP;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return result(removexattr(path, name));
}

/*
 * An O_DIRECT request that the backing refuses (it is aligned for the caller's host, not for this
 * storage) is served through the page cache from then on, as the caller would expect of a hint.
 */
static bool stop_direct(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return errno == EINVAL && flags >= 0 && (flags & O_DIRECT) &&
	       !fcntl(fd, F_SETFL, flags & ~O_DIRECT);
}

ssize_t backing_read(struct backing *b, int fd, void *buf, size_t size, off_t off)
{
	size_t done = 0;

	(void)b;
	while (done < size) {
		ssize_t n = pread(fd, (char *)buf + done, size - done, off + (off_t)done);

		if (n == 0)
			break;
		if (n > 0)
			done += (size_t)n;
		else if (errno != EINTR && !stop_direct(fd))
			return done ? (ssize_t)done : -errno;
	}
	return (ssize_t)done;
}

ssize_t backing_write(struct backing *b, int fd, const void *buf, size_t size, off_t off, int rwf)
{
	size_t done = 0;

	(void)b;
	do {
		struct iovec iov = {(char *)buf + done, size - done};
		ssize_t n = pwritev2(fd, &iov, 1, off + (off_t)done, rwf);

		if (n == 0 && done < size && size)
			return done ? (ssize_t)done : -EIO; /* no progress, no reason */
		if (n >= 0)
			done += (size_t)n;
		else if (errno != EINTR && !stop_direct(fd))
			return done ? (ssize_t)done : -errno;
	} while (done < size);
	return (ssize_t)done;
}

int backing_ftruncate(struct backing *b, int fd, off_t size)
{
	(void)b;
	return result(ftruncate(fd, size));
}

int backing_fallocate(struct backing *b, int fd, int mode, off_t off, off_t len)
{
	(void)b;
	return result(fallocate(fd, mode, off, len));
}

int backing_sync(struct backing *b, int fd, bool data_only)
{
	(void)b;
	return result(data_only ? fdatasync(fd) : fsync(fd));
}

/* Network filesystems give back errors and data at close, so close a duplicate. */
int backing_write_back(struct backing *b, int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	(void)b;
	return copy < 0 ? -errno : result(close(copy));
}

off_t backing_seek(struct backing *b, int fd, off_t off, int whence)
{
	off_t r = lseek(fd, off, whence);

	(void)b;
	return r < 0 ? -errno : r;
}

ssize_t backing_copy_range(struct backing *b, int in, off_t off_in, int out, off_t off_out,
			   size_t len, unsigned flags)
{
	ssize_t n = copy_file_range(in, &off_in, out, &off_out, len, flags);

	(void)b;
	return n < 0 ? -errno : n;
}

ssize_t backing_getdents(struct backing *b, int fd, void *buf, size_t size)
{
	ssize_t n = getdents64(fd, buf, size);

	(void)b;
	return n < 0 ? -errno : n;
}
