/* SPDX-License-Identifier: MIT */
/*
 * The raw system calls on a real backing, one call each, as in struct backing_ops. A call reaches a
 * descriptor that may be a pin through /proc/self/fd. No lock and no decisions: backing.c decides
 * as which user to make a call and how to handle an error.
 */
#include "engine/backing/backing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#define STATX_WANTED (STATX_BASIC_STATS | STATX_BTIME)

static inline int result(int r)
{
	return r < 0 ? -errno : r;
}

static inline ssize_t result_size(ssize_t n)
{
	return n < 0 ? -errno : n;
}

/* --- the calls --- */

/* The entry of @fd in /proc/self/fd, such as "123". */
static const char *fd_entry(int fd, char buf[16])
{
	snprintf(buf, 16, "%d", fd);
	return buf;
}

/* For calls that take only a path. */
static const char *fd_path(int fd, char buf[64])
{
	snprintf(buf, 64, "/proc/self/fd/%d", fd);
	return buf;
}

static int real_open(void *arg, int dir, const char *name, int flags, mode_t mode, uint64_t resolve)
{
	struct open_how how = {.flags = (unsigned)flags, .mode = mode, .resolve = resolve};

	(void)arg;
	if (!resolve)
		return result(openat(dir, name, flags, mode));
	return result((int)syscall(SYS_openat2, dir, name, &how, sizeof(how)));
}

static int real_mkdir(void *arg, int dir, const char *name, mode_t mode)
{
	(void)arg;
	return result(mkdirat(dir, name, mode));
}

static int real_mknod(void *arg, int dir, const char *name, mode_t mode, dev_t dev)
{
	(void)arg;
	return result(mknodat(dir, name, mode, dev));
}

static int real_symlink(void *arg, const char *target, int dir, const char *name)
{
	(void)arg;
	return result(symlinkat(target, dir, name));
}

static int real_link(void *arg, int fd, int dir, const char *name)
{
	const struct backing *b = arg;
	char entry[16];

	return result(linkat(b->proc_fd, fd_entry(fd, entry), dir, name, AT_SYMLINK_FOLLOW));
}

static int real_unlink(void *arg, int dir, const char *name, int flags)
{
	(void)arg;
	return result(unlinkat(dir, name, flags));
}

static int real_rename(void *arg, int dir, const char *name, int new_dir, const char *new_name,
		       unsigned flags)
{
	(void)arg;
	return result(renameat2(dir, name, new_dir, new_name, flags));
}

static int real_reopen(void *arg, int fd, int flags)
{
	const struct backing *b = arg;
	char entry[16];

	return result(openat(b->proc_fd, fd_entry(fd, entry), flags));
}

static int real_dup(void *arg, int fd)
{
	(void)arg;
	return result(fcntl(fd, F_DUPFD_CLOEXEC, 0));
}

static ssize_t real_path(void *arg, int fd, char *buf, size_t size)
{
	const struct backing *b = arg;
	char entry[16];

	return result_size(readlinkat(b->proc_fd, fd_entry(fd, entry), buf, size));
}

static int real_stat(void *arg, int dir, const char *name, int flags, struct statx *stx)
{
	(void)arg;
	return result(statx(dir, name, flags, STATX_WANTED, stx));
}

static int real_statfs(void *arg, int fd, struct statvfs *sv)
{
	(void)arg;
	return result(fstatvfs(fd, sv));
}

static ssize_t real_readlink(void *arg, int fd, char *buf, size_t size)
{
	(void)arg;
	return result_size(readlinkat(fd, "", buf, size));
}

static int real_chmod(void *arg, int fd, mode_t mode)
{
	const struct backing *b = arg;
	char entry[16];

	return result(fchmodat(b->proc_fd, fd_entry(fd, entry), mode, 0));
}

static int real_chown(void *arg, int fd, uid_t uid, gid_t gid)
{
	(void)arg;
	return result(fchownat(fd, "", uid, gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW));
}

static int real_utimens(void *arg, int fd, const struct timespec times[2])
{
	(void)arg;
	return result(utimensat(fd, "", times, AT_EMPTY_PATH));
}

static int real_truncate(void *arg, int fd, off_t size)
{
	char path[64];

	(void)arg;
	return result(truncate(fd_path(fd, path), size));
}

static ssize_t real_getxattr(void *arg, int fd, const char *name, void *buf, size_t size)
{
	char path[64];

	(void)arg;
	return result_size(getxattr(fd_path(fd, path), name, buf, size));
}

static ssize_t real_listxattr(void *arg, int fd, char *buf, size_t size)
{
	char path[64];

	(void)arg;
	return result_size(listxattr(fd_path(fd, path), buf, size));
}

static int real_setxattr(void *arg, int fd, const char *name, const void *value, size_t size,
			 int flags)
{
	char path[64];

	(void)arg;
	return result(setxattr(fd_path(fd, path), name, value, size, flags));
}

static int real_removexattr(void *arg, int fd, const char *name)
{
	char path[64];

	(void)arg;
	return result(removexattr(fd_path(fd, path), name));
}

static ssize_t real_read(void *arg, int fd, void *buf, size_t size, off_t off)
{
	(void)arg;
	return result_size(pread(fd, buf, size, off));
}

static ssize_t real_write(void *arg, int fd, const void *buf, size_t size, off_t off, int rwf)
{
	struct iovec iov = {(void *)buf, size};

	(void)arg;
	return result_size(pwritev2(fd, &iov, 1, off, rwf));
}

static int real_ftruncate(void *arg, int fd, off_t size)
{
	(void)arg;
	return result(ftruncate(fd, size));
}

static int real_fallocate(void *arg, int fd, int mode, off_t off, off_t len)
{
	(void)arg;
	return result(fallocate(fd, mode, off, len));
}

static int real_sync(void *arg, int fd, enum backing_sync what)
{
	(void)arg;
	if (what == BACKING_SYNC_FS)
		return result(syncfs(fd));
	return result(what == BACKING_SYNC_DATA ? fdatasync(fd) : fsync(fd));
}

/* A network filesystem reports errors and sends data at close, so this closes a duplicate. */
static int real_write_back(void *arg, int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	(void)arg;
	return copy < 0 ? -errno : result(close(copy));
}

static off_t real_seek(void *arg, int fd, off_t off, int whence)
{
	off_t r = lseek(fd, off, whence);

	(void)arg;
	return r < 0 ? -errno : r;
}

static ssize_t real_copy_range(void *arg, int in, off_t off_in, int out, off_t off_out, size_t len,
			       unsigned flags)
{
	(void)arg;
	return result_size(copy_file_range(in, &off_in, out, &off_out, len, flags));
}

static ssize_t real_getdents(void *arg, int fd, void *buf, size_t size)
{
	(void)arg;
	return result_size(getdents64(fd, buf, size));
}

const struct backing_ops backing_real_ops = {
	.open = real_open,
	.mkdir = real_mkdir,
	.mknod = real_mknod,
	.symlink = real_symlink,
	.link = real_link,
	.unlink = real_unlink,
	.rename = real_rename,
	.reopen = real_reopen,
	.dup = real_dup,
	.path = real_path,
	.stat = real_stat,
	.statfs = real_statfs,
	.readlink = real_readlink,
	.chmod = real_chmod,
	.chown = real_chown,
	.utimens = real_utimens,
	.truncate = real_truncate,
	.getxattr = real_getxattr,
	.listxattr = real_listxattr,
	.setxattr = real_setxattr,
	.removexattr = real_removexattr,
	.read = real_read,
	.write = real_write,
	.ftruncate = real_ftruncate,
	.fallocate = real_fallocate,
	.sync = real_sync,
	.write_back = real_write_back,
	.seek = real_seek,
	.copy_range = real_copy_range,
	.getdents = real_getdents,
};
