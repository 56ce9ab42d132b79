/* SPDX-License-Identifier: MIT */
/* The faulty backing's table of calls. */
#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

#include "tests/backing/faults_inside.h"

/*
 * Makes @next_call, and gives back what it gave, unless a fault hits call @kind. @name, @name2:
 * the entries that it is about, or NULL; @fd: of the inode, or -1.
 */
#define GUARD3(f, kind, fd, name, name2, next_call) \
	({ \
		struct verdict v_ = faults_enter(f, kind, fd, name, name2, 0); \
		__typeof__(next_call) r_ = v_.err; \
		if (!v_.err || v_.done) { \
			r_ = next_call; \
			if (v_.err && r_ >= 0) \
				r_ = v_.err; \
		} \
		r_; \
	})
#define GUARD2(f, kind, name, name2, next_call) GUARD3(f, kind, -1, name, name2, next_call)
#define GUARD(f, kind, name, next_call)		GUARD2(f, kind, name, NULL, next_call)
#define GUARD_FD(f, kind, fd, next_call)	GUARD3(f, kind, fd, NULL, NULL, next_call)
#define NEXT(f, call, ...)			((f)->next->call((f)->next_arg, ##__VA_ARGS__))

/* --- names --- */

/* A descriptor whose answer is lost must not be. */
static int or_lost(int fd, struct verdict v)
{
	if (fd < 0 || !v.err)
		return fd;
	close(fd);
	return v.err;
}

static int f_open(void *arg, int dir, const char *name, int flags, mode_t mode, uint64_t resolve)
{
	struct faults *f = arg;
	unsigned call = flags & O_PATH ? CALL_PIN : flags & O_CREAT ? CALL_CREATE : CALL_OPEN;
	struct verdict v = faults_enter(f, call, -1, name, NULL, 0);

	if (v.err && !v.done)
		return v.err;
	return or_lost(NEXT(f, open, dir, name, flags, mode, resolve), v);
}

/* Asks nothing of the backing, so no fault hits it. */
static int f_dup(void *arg, int fd)
{
	struct faults *f = arg;

	return NEXT(f, dup, fd);
}

static int f_reopen(void *arg, int fd, int flags)
{
	struct faults *f = arg;
	struct verdict v = faults_enter(f, CALL_OPEN, fd, NULL, NULL, 0);

	if (v.err && !v.done)
		return v.err;
	return or_lost(NEXT(f, reopen, fd, flags), v);
}

static int f_mkdir(void *arg, int dir, const char *name, mode_t mode)
{
	struct faults *f = arg;

	return GUARD(f, CALL_MKDIR, name, NEXT(f, mkdir, dir, name, mode));
}

static int f_mknod(void *arg, int dir, const char *name, mode_t mode, dev_t dev)
{
	struct faults *f = arg;

	return GUARD(f, CALL_MKNOD, name, NEXT(f, mknod, dir, name, mode, dev));
}

static int f_symlink(void *arg, const char *target, int dir, const char *name)
{
	struct faults *f = arg;

	return GUARD(f, CALL_SYMLINK, name, NEXT(f, symlink, target, dir, name));
}

static int f_link(void *arg, int fd, int dir, const char *name)
{
	struct faults *f = arg;

	return GUARD(f, CALL_LINK, name, NEXT(f, link, fd, dir, name));
}

static int f_unlink(void *arg, int dir, const char *name, int flags)
{
	struct faults *f = arg;

	return GUARD(f, CALL_UNLINK, name, NEXT(f, unlink, dir, name, flags));
}

static int f_rename(void *arg, int dir, const char *name, int new_dir, const char *new_name,
		    unsigned flags)
{
	struct faults *f = arg;

	return GUARD2(f, CALL_RENAME, name, new_name,
		      NEXT(f, rename, dir, name, new_dir, new_name, flags));
}

/* --- inodes --- */

static int f_stat(void *arg, int dir, const char *name, int flags, struct statx *stx)
{
	struct faults *f = arg;

	return GUARD(f, CALL_STAT, name, NEXT(f, stat, dir, name, flags, stx));
}

static int f_statfs(void *arg, int fd, struct statvfs *sv)
{
	struct faults *f = arg;
	int err = GUARD_FD(f, CALL_STATFS, fd, NEXT(f, statfs, fd, sv));

	if (!err)
		faults_show_room(f, sv);
	return err;
}

static ssize_t f_readlink(void *arg, int fd, char *buf, size_t size)
{
	struct faults *f = arg;

	return GUARD_FD(f, CALL_READLINK, fd, NEXT(f, readlink, fd, buf, size));
}

static ssize_t f_path(void *arg, int fd, char *buf, size_t size)
{
	struct faults *f = arg;

	return NEXT(f, path, fd, buf, size); /* asks no server */
}

static int f_chmod(void *arg, int fd, mode_t mode)
{
	struct faults *f = arg;

	return GUARD_FD(f, CALL_CHMOD, fd, NEXT(f, chmod, fd, mode));
}

static int f_chown(void *arg, int fd, uid_t uid, gid_t gid)
{
	struct faults *f = arg;

	return GUARD_FD(f, CALL_CHOWN, fd, NEXT(f, chown, fd, uid, gid));
}

static int f_utimens(void *arg, int fd, const struct timespec times[2])
{
	struct faults *f = arg;

	return GUARD_FD(f, CALL_UTIMENS, fd, NEXT(f, utimens, fd, times));
}

static int f_truncate(void *arg, int fd, off_t size)
{
	struct faults *f = arg;

	return GUARD_FD(f, CALL_TRUNCATE, fd, NEXT(f, truncate, fd, size));
}

static ssize_t f_getxattr(void *arg, int fd, const char *name, void *buf, size_t size)
{
	struct faults *f = arg;

	return GUARD_FD(f, CALL_GETXATTR, fd, NEXT(f, getxattr, fd, name, buf, size));
}

static ssize_t f_listxattr(void *arg, int fd, char *buf, size_t size)
{
	struct faults *f = arg;

	return GUARD_FD(f, CALL_LISTXATTR, fd, NEXT(f, listxattr, fd, buf, size));
}

static int f_setxattr(void *arg, int fd, const char *name, const void *value, size_t size,
		      int flags)
{
	struct faults *f = arg;

	return GUARD_FD(f, CALL_SETXATTR, fd, NEXT(f, setxattr, fd, name, value, size, flags));
}

static int f_removexattr(void *arg, int fd, const char *name)
{
	struct faults *f = arg;

	return GUARD_FD(f, CALL_REMOVEXATTR, fd, NEXT(f, removexattr, fd, name));
}

/* --- open files --- */

static ssize_t f_read(void *arg, int fd, void *buf, size_t size, off_t off)
{
	struct faults *f = arg;
	struct verdict v;
	ssize_t n;

	size = faults_limit(f, CALL_READ, size);
	v = faults_enter(f, CALL_READ, fd, NULL, NULL, size);
	if (v.nothing || (v.err && !v.done))
		return v.err;
	n = NEXT(f, read, fd, buf, size, off);
	return n >= 0 && v.err ? v.err : n;
}

static ssize_t min_of(ssize_t a, ssize_t b)
{
	return a < b ? a : b;
}

static ssize_t f_write(void *arg, int fd, const void *buf, size_t size, off_t off, int rwf)
{
	struct faults *f = arg;
	struct verdict v;
	ssize_t n, took;

	size = faults_limit(f, CALL_WRITE, size);
	v = faults_enter(f, CALL_WRITE, fd, NULL, NULL, size);
	if (v.nothing || (v.err && !v.done))
		return v.err;
	took = faults_reserve(f, fd, &size, off, rwf & RWF_APPEND, false);
	if (took < 0)
		return took;
	n = NEXT(f, write, fd, buf, size, off, rwf);
	faults_give_back(f, n < 0 ? took : min_of(took, (ssize_t)size - n));
	return n >= 0 && v.err ? v.err : n;
}

static int f_ftruncate(void *arg, int fd, off_t size)
{
	struct faults *f = arg;

	return GUARD_FD(f, CALL_TRUNCATE, fd, NEXT(f, ftruncate, fd, size));
}

static int f_fallocate(void *arg, int fd, int mode, off_t off, off_t len)
{
	struct faults *f = arg;
	struct verdict v = faults_enter(f, CALL_FALLOCATE, fd, NULL, NULL, 0);
	size_t size = (size_t)len;
	ssize_t took = 0;
	int err;

	if (v.err && !v.done)
		return v.err;
	if (!(mode & ~FALLOC_FL_KEEP_SIZE) && len > 0)
		took = faults_reserve(f, fd, &size, off, false, true);
	if (took < 0)
		return (int)took;
	err = NEXT(f, fallocate, fd, mode, off, len);
	if (err)
		faults_give_back(f, took);
	return err ? err : v.err;
}

static unsigned kind_of_sync(struct faults *f, int fd, enum backing_sync what)
{
	struct statx stx;

	if (what == BACKING_SYNC_FS)
		return CALL_SYNC_FS;
	return !faults_stat(f, fd, &stx) && S_ISDIR(stx.stx_mode) ? CALL_SYNC_DIR : CALL_SYNC;
}

static int f_sync(void *arg, int fd, enum backing_sync what)
{
	struct faults *f = arg;

	return GUARD_FD(f, kind_of_sync(f, fd, what), fd, NEXT(f, sync, fd, what));
}

static int f_write_back(void *arg, int fd)
{
	struct faults *f = arg;

	return GUARD_FD(f, CALL_WRITE_BACK, fd, NEXT(f, write_back, fd));
}

static off_t f_seek(void *arg, int fd, off_t off, int whence)
{
	struct faults *f = arg;

	return GUARD_FD(f, CALL_SEEK, fd, NEXT(f, seek, fd, off, whence));
}

static ssize_t f_copy_range(void *arg, int in, off_t off_in, int out, off_t off_out, size_t len,
			    unsigned flags)
{
	struct faults *f = arg;
	struct verdict v;
	ssize_t n, took;

	len = faults_limit(f, CALL_COPY_RANGE, len);
	v = faults_enter(f, CALL_COPY_RANGE, out, NULL, NULL, len);
	if (v.nothing || (v.err && !v.done))
		return v.err;
	took = faults_reserve(f, out, &len, off_out, false, false);
	if (took < 0)
		return took;
	n = NEXT(f, copy_range, in, off_in, out, off_out, len, flags);
	faults_give_back(f, n < 0 ? took : min_of(took, (ssize_t)len - n));
	return n >= 0 && v.err ? v.err : n;
}

static ssize_t f_getdents(void *arg, int fd, void *buf, size_t size)
{
	struct faults *f = arg;

	return GUARD_FD(f, CALL_GETDENTS, fd, NEXT(f, getdents, fd, buf, size));
}

const struct backing_ops faults_ops = {
	.open = f_open,
	.mkdir = f_mkdir,
	.mknod = f_mknod,
	.symlink = f_symlink,
	.link = f_link,
	.unlink = f_unlink,
	.rename = f_rename,
	.reopen = f_reopen,
	.dup = f_dup,
	.path = f_path,
	.stat = f_stat,
	.statfs = f_statfs,
	.readlink = f_readlink,
	.chmod = f_chmod,
	.chown = f_chown,
	.utimens = f_utimens,
	.truncate = f_truncate,
	.getxattr = f_getxattr,
	.listxattr = f_listxattr,
	.setxattr = f_setxattr,
	.removexattr = f_removexattr,
	.read = f_read,
	.write = f_write,
	.ftruncate = f_ftruncate,
	.fallocate = f_fallocate,
	.sync = f_sync,
	.write_back = f_write_back,
	.seek = f_seek,
	.copy_range = f_copy_range,
	.getdents = f_getdents,
};
