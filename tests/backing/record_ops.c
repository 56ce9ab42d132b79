/* SPDX-License-Identifier: MIT */
/* The recorder's table of calls: each is passed on, and logged if it did something. */
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "tests/backing/record_inside.h"
#include "tests/backing/util.h"

/* --- names --- */

static int rec_open(void *arg, int dir, const char *name, int flags, mode_t mode, uint64_t resolve)
{
	struct record *r = arg;
	int fd;

	/* An open that changes nothing may block (a FIFO), and need not be in order. */
	if (!(flags & (O_CREAT | O_TRUNC)))
		return NEXT(r, open, dir, name, flags, mode, resolve);
	MUTEX_SCOPE(&r->lock);
	fd = NEXT(r, open, dir, name, flags, mode, resolve);
	if (fd >= 0 && (flags & O_CREAT))
		note_made(r, dir, name);
	else if (fd >= 0)
		note_truncate(r, fd, 0);
	return fd;
}

static int rec_mkdir(void *arg, int dir, const char *name, mode_t mode)
{
	struct record *r = arg;
	int err;

	MUTEX_SCOPE(&r->lock);
	err = NEXT(r, mkdir, dir, name, mode);
	if (!err)
		note_made(r, dir, name);
	return err;
}

static int rec_mknod(void *arg, int dir, const char *name, mode_t mode, dev_t dev)
{
	struct record *r = arg;
	int err;

	MUTEX_SCOPE(&r->lock);
	err = NEXT(r, mknod, dir, name, mode, dev);
	if (!err)
		note_made(r, dir, name);
	return err;
}

static int rec_symlink(void *arg, const char *target, int dir, const char *name)
{
	struct record *r = arg;
	int err;

	MUTEX_SCOPE(&r->lock);
	err = NEXT(r, symlink, target, dir, name);
	if (!err)
		note_made(r, dir, name);
	return err;
}

static int rec_link(void *arg, int fd, int dir, const char *name)
{
	struct record *r = arg;
	struct record_op *op;
	int err, parent;

	MUTEX_SCOPE(&r->lock);
	err = NEXT(r, link, fd, dir, name);
	parent = err ? -1 : known_fd(r, dir, "link into a directory");
	op = parent < 0 ? NULL : note_change(r, RECORD_LINK, fd, "link");
	if (op)
		note_name(op, parent, name);
	return err;
}

static int rec_unlink(void *arg, int dir, const char *name, int flags)
{
	struct record *r = arg;
	int err, parent, inode;

	MUTEX_SCOPE(&r->lock);
	inode = known_name(r, dir, name);
	err = NEXT(r, unlink, dir, name, flags);
	parent = err ? -1 : known_fd(r, dir, "removal from a directory");
	if (!err && inode < 0)
		note_problem(r, "removal of %s, which was not made through the backing", name);
	if (parent >= 0 && inode >= 0)
		note_name(note_op(r, RECORD_REMOVE, inode), parent, name);
	return err;
}

static int rec_rename(void *arg, int dir, const char *name, int new_dir, const char *new_name,
		      unsigned flags)
{
	struct record *r = arg;
	int err, inode, other, parent, new_parent;
	struct record_op *op;

	MUTEX_SCOPE(&r->lock);
	inode = known_name(r, dir, name);
	other = known_name(r, new_dir, new_name);
	err = NEXT(r, rename, dir, name, new_dir, new_name, flags);
	if (err || (inode >= 0 && inode == other)) /* two names of one file: nothing happens */
		return err;
	parent = known_fd(r, dir, "rename from a directory");
	new_parent = known_fd(r, new_dir, "rename to a directory");
	if (inode < 0)
		note_problem(r, "rename of %s, which was not made through the backing", name);
	if (inode < 0 || parent < 0 || new_parent < 0)
		return err;
	op = note_op(r, RECORD_RENAME, inode);
	note_name(op, parent, name);
	op->new_dir = new_parent;
	op->new_name = must(strdup(new_name));
	op->other = other;
	op->flags = flags;
	return err;
}

/* --- inodes --- */

static int rec_reopen(void *arg, int fd, int flags)
{
	struct record *r = arg;
	int new_fd;

	if (!(flags & O_TRUNC))
		return NEXT(r, reopen, fd, flags);
	MUTEX_SCOPE(&r->lock);
	new_fd = NEXT(r, reopen, fd, flags);
	if (new_fd >= 0)
		note_truncate(r, new_fd, 0);
	return new_fd;
}

static int rec_dup(void *arg, int fd)
{
	struct record *r = arg;

	return NEXT(r, dup, fd);
}

static ssize_t rec_path(void *arg, int fd, char *buf, size_t size)
{
	struct record *r = arg;

	return NEXT(r, path, fd, buf, size);
}

static int rec_chmod(void *arg, int fd, mode_t mode)
{
	struct record *r = arg;
	int err;

	MUTEX_SCOPE(&r->lock);
	err = NEXT(r, chmod, fd, mode);
	if (!err)
		note_change(r, RECORD_CHMOD, fd, "chmod");
	return err;
}

static int rec_chown(void *arg, int fd, uid_t uid, gid_t gid)
{
	struct record *r = arg;
	int err;

	MUTEX_SCOPE(&r->lock);
	err = NEXT(r, chown, fd, uid, gid);
	if (!err)
		note_change(r, RECORD_CHOWN, fd, "chown");
	return err;
}

static int rec_utimens(void *arg, int fd, const struct timespec times[2])
{
	struct record *r = arg;
	int err;

	MUTEX_SCOPE(&r->lock);
	err = NEXT(r, utimens, fd, times);
	if (!err)
		note_change(r, RECORD_UTIMENS, fd, "utimens");
	return err;
}

static int rec_truncate(void *arg, int fd, off_t size)
{
	struct record *r = arg;
	int err;

	MUTEX_SCOPE(&r->lock);
	err = NEXT(r, truncate, fd, size);
	if (!err)
		note_truncate(r, fd, size);
	return err;
}

static int rec_setxattr(void *arg, int fd, const char *name, const void *value, size_t size,
			int flags)
{
	struct record *r = arg;
	struct statx stx;
	int err, inode;

	MUTEX_SCOPE(&r->lock);
	err = NEXT(r, setxattr, fd, name, value, size, flags);
	inode = err ? -1 : known_fd(r, fd, "setxattr");
	if (inode >= 0 && !stat_below(r, fd, "", &stx)) /* an ACL sets the mode */
		note_xattr(r, inode, name, value, size)->attr = attr_of(&stx);
	return err;
}

static int rec_removexattr(void *arg, int fd, const char *name)
{
	struct record *r = arg;
	struct record_op *op;
	int err;

	MUTEX_SCOPE(&r->lock);
	err = NEXT(r, removexattr, fd, name);
	op = err ? NULL : note_change(r, RECORD_REMOVE_XATTR, fd, "removexattr");
	if (op)
		op->name = must(strdup(name));
	return err;
}

/* --- open files --- */

/* A write that comes back durable is a write and a sync of that alone. */
static void add_synced(struct record *r, int fd, int rwf)
{
	int flags = fcntl(fd, F_GETFL);
	bool all = (rwf & RWF_SYNC) || (flags & O_SYNC) == O_SYNC;
	struct record_op *op;

	if (!all && !(rwf & RWF_DSYNC) && !(flags & O_DSYNC))
		return;
	op = note_op(r, RECORD_SYNC, known_fd(r, fd, "write"));
	op->from = r->nr_ops - 2;
	op->to = r->nr_ops - 1;
	op->sync = all ? BACKING_SYNC_INODE : BACKING_SYNC_DATA;
}

static ssize_t rec_write(void *arg, int fd, const void *buf, size_t size, off_t off, int rwf)
{
	struct record *r = arg;
	struct statx stx;
	ssize_t n;

	MUTEX_SCOPE(&r->lock);
	n = NEXT(r, write, fd, buf, size, off, rwf);
	if (n <= 0)
		return n;
	if (((rwf & RWF_APPEND) || (fcntl(fd, F_GETFL) & O_APPEND)) && !stat_below(r, fd, "", &stx))
		off = (off_t)stx.stx_size - n;
	note_write(r, fd, copy_of(buf, (size_t)n), (size_t)n, off);
	if (!r->problem[0])
		add_synced(r, fd, rwf);
	return n;
}

static int rec_ftruncate(void *arg, int fd, off_t size)
{
	struct record *r = arg;
	int err;

	MUTEX_SCOPE(&r->lock);
	err = NEXT(r, ftruncate, fd, size);
	if (!err)
		note_truncate(r, fd, size);
	return err;
}

static int rec_fallocate(void *arg, int fd, int mode, off_t off, off_t len)
{
	struct record *r = arg;
	bool zeros = mode & (FALLOC_FL_ZERO_RANGE | FALLOC_FL_PUNCH_HOLE);
	bool grows = !(mode & FALLOC_FL_KEEP_SIZE);
	off_t size;
	int err, inode;

	MUTEX_SCOPE(&r->lock);
	err = NEXT(r, fallocate, fd, mode, off, len);
	inode = err ? -1 : known_fd(r, fd, "fallocate");
	if (inode < 0)
		return err;
	if (mode & (FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE))
		note_problem(r, "fallocate(%#x): such a log cannot be replayed", (unsigned)mode);
	size = r->inodes[inode].size;
	/* Beyond the end there is nothing to see but the times. */
	if (!zeros || off >= size)
		note_write(r, fd, NULL, 0, size);
	else
		note_write(r, fd, NULL, (size_t)(off + len < size ? len : size - off), off);
	if (grows && off + len > size)
		note_truncate(r, fd, off + len);
	return err;
}

static int rec_sync(void *arg, int fd, enum backing_sync what)
{
	struct record *r = arg;
	struct record_op *op;
	size_t called;
	int err;

	{
		MUTEX_SCOPE(&r->lock);
		called = r->nr_ops;
	}
	/* Not under the lock: what others do meanwhile is not covered, and shows that. */
	err = NEXT(r, sync, fd, what);
	if (err)
		return err;
	MUTEX_SCOPE(&r->lock);
	op = note_op(r, RECORD_SYNC, what == BACKING_SYNC_FS ? -1 : known_fd(r, fd, "sync"));
	op->to = called;
	op->sync = what;
	return 0;
}

static ssize_t rec_copy_range(void *arg, int in, off_t off_in, int out, off_t off_out, size_t len,
			      unsigned flags)
{
	struct record *r = arg;
	void *data;
	ssize_t n;

	MUTEX_SCOPE(&r->lock);
	n = NEXT(r, copy_range, in, off_in, out, off_out, len, flags);
	if (n <= 0)
		return n;
	data = must(malloc((size_t)n));
	if (NEXT(r, read, in, data, (size_t)n, off_in) != n)
		note_problem(r, "cannot read what was copied");
	note_write(r, out, data, (size_t)n, off_out);
	return n;
}

/* --- what only looks --- */

static int rec_stat(void *arg, int dir, const char *name, int flags, struct statx *stx)
{
	struct record *r = arg;

	return NEXT(r, stat, dir, name, flags, stx);
}

static int rec_statfs(void *arg, int fd, struct statvfs *sv)
{
	struct record *r = arg;

	return NEXT(r, statfs, fd, sv);
}

static ssize_t rec_readlink(void *arg, int fd, char *buf, size_t size)
{
	struct record *r = arg;

	return NEXT(r, readlink, fd, buf, size);
}

static ssize_t rec_getxattr(void *arg, int fd, const char *name, void *buf, size_t size)
{
	struct record *r = arg;

	return NEXT(r, getxattr, fd, name, buf, size);
}

static ssize_t rec_listxattr(void *arg, int fd, char *buf, size_t size)
{
	struct record *r = arg;

	return NEXT(r, listxattr, fd, buf, size);
}

static ssize_t rec_read(void *arg, int fd, void *buf, size_t size, off_t off)
{
	struct record *r = arg;

	return NEXT(r, read, fd, buf, size, off);
}

/* Other clients see more after it; a crash may still take all of it. */
static int rec_write_back(void *arg, int fd)
{
	struct record *r = arg;

	return NEXT(r, write_back, fd);
}

static off_t rec_seek(void *arg, int fd, off_t off, int whence)
{
	struct record *r = arg;

	return NEXT(r, seek, fd, off, whence);
}

static ssize_t rec_getdents(void *arg, int fd, void *buf, size_t size)
{
	struct record *r = arg;

	return NEXT(r, getdents, fd, buf, size);
}

const struct backing_ops record_ops = {
	.open = rec_open,
	.mkdir = rec_mkdir,
	.mknod = rec_mknod,
	.symlink = rec_symlink,
	.link = rec_link,
	.unlink = rec_unlink,
	.rename = rec_rename,
	.reopen = rec_reopen,
	.dup = rec_dup,
	.path = rec_path,
	.stat = rec_stat,
	.statfs = rec_statfs,
	.readlink = rec_readlink,
	.chmod = rec_chmod,
	.chown = rec_chown,
	.utimens = rec_utimens,
	.truncate = rec_truncate,
	.getxattr = rec_getxattr,
	.listxattr = rec_listxattr,
	.setxattr = rec_setxattr,
	.removexattr = rec_removexattr,
	.read = rec_read,
	.write = rec_write,
	.ftruncate = rec_ftruncate,
	.fallocate = rec_fallocate,
	.sync = rec_sync,
	.write_back = rec_write_back,
	.seek = rec_seek,
	.copy_range = rec_copy_range,
	.getdents = rec_getdents,
};
