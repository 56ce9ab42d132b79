/* SPDX-License-Identifier: MIT */
/* Handlers for getattr, setattr and statfs. No lock is held across a call on the backing. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/content/content.h"
#include "fs/control_dir.h"
#include "fs/data.h"
#include "fs/fs.h"
#include "fs/views.h"
#include "fs/late_call.h"
#include "fs/route.h"

/*
 * True if the top directory's attributes were seen before. It leads to the control directory, which
 * must be reachable when the backing fails.
 */
static bool recall_root(struct fs *fs, struct stat *st)
{
	LOCK_SCOPE(tree_lock(fs->tree));
	*st = fs->root_seen;
	return st->st_ino;
}

static void remember_root(struct fs *fs, const struct stat *st)
{
	LOCK_SCOPE(tree_lock(fs->tree));
	fs->root_seen = *st;
}

static void reply_attr(fuse_req_t req, const char *op, uint64_t id, int fd)
{
	struct fs *fs = req_fs(req);
	struct caller c = req_caller(req);
	struct backing b = fs_for(fs, &c);
	struct statx stx;
	struct stat st;
	int err = backing_stat(&b, fd, &stx);

	if (err && id == NODE_ROOT && recall_root(fs, &st)) {
		fuse_reply_attr(req, &st, 0);
		return;
	}
	if (err) {
		reply_result(req, op, id, NULL, err);
		return;
	}
	fill_stat(fs, &stx, &st);
	if (id == NODE_ROOT)
		remember_root(fs, &st);
	fuse_reply_attr(req, &st, ATTR_TIMEOUT_S);
}

/* replies: attr, error */
static void op_getattr(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	struct fs *fs = req_fs(req);
	struct caller c = req_caller(req);
	struct backing b = fs_as(fs, &c);
	struct node_fd nf;
	struct node *n;
	int err;

	(void)fi; /* the node's pin, or any open handle of it, serves as well */
	if (views_is(id)) {
		views_getattr(req, id);
		return;
	}
	if (control_is(id)) {
		control_getattr(req, id);
		return;
	}
	n = req_node(req, id);
	if (!n)
		return;
	err = tree_fd(fs->tree, &b, n, &nf);
	if (err) {
		reply_result(req, "getattr", id, NULL, err);
	} else {
		reply_attr(req, "getattr", id, nf.fd);
		tree_fd_put(fs->tree, &nf);
	}
	node_put(fs->tree, n);
}

/*
 * True if the kernel asks, not the caller. When a user other than the owner writes to a file with
 * suid or sgid bits, the kernel clears the bits by a SETATTR in the user's name, although the user
 * may not chmod. Such a SETATTR takes away these bits, and nothing else.
 */
static bool only_clears_suid(struct backing *b, int fd, mode_t mode)
{
	struct statx stx;

	return !backing_stat(b, fd, &stx) &&
	       (stx.stx_mode & 07777 & ~(S_ISUID | S_ISGID)) ==
		       (mode & 07777 & ~(S_ISUID | S_ISGID)) &&
	       !(mode & ~stx.stx_mode & (S_ISUID | S_ISGID));
}

static int set_mode(struct fs *fs, const struct caller *c, int fd, mode_t mode)
{
	struct backing as = fs_as(fs, c), b = fs_for(fs, c);
	int err;

	as.who.groups = mode & S_ISGID; /* else the bit is dropped without an error */
	err = backing_chmod(&as, fd, mode & 07777);
	if (err == -EPERM && only_clears_suid(&b, fd, mode))
		err = backing_chmod(&b, fd, mode & 07777);
	return err;
}

static int set_owner(struct fs *fs, const struct caller *c, int fd, const struct stat *attr,
		     int to_set)
{
	struct backing b = fs_as(fs, c);
	uid_t uid = to_set & FUSE_SET_ATTR_UID ? attr->st_uid : (uid_t)-1;
	gid_t gid = to_set & FUSE_SET_ATTR_GID ? attr->st_gid : (gid_t)-1;

	return backing_chown(&b, fd, uid, gid);
}

static int set_backing_size(struct backing *b, int fd, const struct handle *h, off_t size)
{
	if (h && (h->flags & O_ACCMODE) != O_RDONLY)
		return backing_ftruncate(b, h->fd, size);
	return backing_truncate(b, fd, size);
}

static int set_size(struct fs *fs, const struct caller *c, struct node *n, int fd, struct handle *h,
		    off_t size)
{
	struct backing b = fs_as(fs, c);
	bool writable = h && (h->flags & O_ACCMODE) != O_RDONLY;
	struct data_span span;
	int err = data_truncate(fs, c, n, (uint64_t)size);

	if (err != -ENOTSUP)
		return err;
	err = data_begin_change(fs, c, n, writable ? h : NULL, fd, &span);
	if (err)
		return err;
	err = set_backing_size(&b, fd, h, size);
	data_end(&span, (uint64_t)size, UINT64_MAX - (uint64_t)size);
	return err;
}

static struct timespec time_to_set(int to_set, int given, int now, struct timespec t)
{
	if (to_set & now)
		return (struct timespec){.tv_nsec = UTIME_NOW};
	if (to_set & given)
		return t;
	return (struct timespec){.tv_nsec = UTIME_OMIT};
}

static int set_times(struct fs *fs, const struct caller *c, struct node *n, int fd,
		     const struct stat *attr, int to_set)
{
	struct timespec times[2] = {
		time_to_set(to_set, FUSE_SET_ATTR_ATIME, FUSE_SET_ATTR_ATIME_NOW, attr->st_atim),
		time_to_set(to_set, FUSE_SET_ATTR_MTIME, FUSE_SET_ATTR_MTIME_NOW, attr->st_mtim),
	};

	struct content *ct = route_content(fs, n);
	/* else the flush would set them later */
	int err = ct && !content_is_staged(ct) ? content_write_back(ct) : 0;

	if (!err)
		err = route_set_times(fs, c, n, fd, times);
	if (!err && ct && times[1].tv_nsec != UTIME_OMIT)
		content_set_mtime(ct, times[1].tv_nsec == UTIME_NOW
					      ? clock_wall_ns()
					      : (uint64_t)times[1].tv_sec * NSEC_PER_SEC +
							(uint64_t)times[1].tv_nsec);
	content_put(ct);
	return err;
}

#define SET_OWNER (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)
#define SET_TIMES \
	(FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_ATIME_NOW | \
	 FUSE_SET_ATTR_MTIME_NOW)

#define SET_ANYTHING (FUSE_SET_ATTR_MODE | SET_OWNER | FUSE_SET_ATTR_SIZE | SET_TIMES)

/* Sets the mode first: after a chown the caller may not own the file any more. */
static int set_attrs(struct fs *fs, const struct caller *c, struct node *n, int fd,
		     struct handle *h, const struct stat *attr, int to_set)
{
	int err = 0;

	if (to_set & FUSE_SET_ATTR_MODE)
		err = set_mode(fs, c, fd, attr->st_mode);
	/* chown(-1, -1) sets only ctime. */
	if (!err && (to_set & SET_OWNER || !(to_set & SET_ANYTHING)))
		err = set_owner(fs, c, fd, attr, to_set);
	/*
	 * The kernel sends this, too, before a user other than the owner writes to a file with only
	 * the sgid bit. The write itself has the backing clear the bit.
	 */
	if (err == -EPERM && !(to_set & SET_ANYTHING))
		err = 0;
	if (!err && (to_set & FUSE_SET_ATTR_SIZE))
		err = set_size(fs, c, n, fd, h, attr->st_size);
	if (!err && (to_set & SET_TIMES))
		err = set_times(fs, c, n, fd, attr, to_set);
	return err;
}

/* replies: attr, error */
static void op_setattr(fuse_req_t req, fuse_ino_t id, struct stat *attr, int to_set,
		       struct fuse_file_info *fi)
{
	struct fs *fs = req_fs(req);
	struct caller c = req_caller(req);
	struct backing b = fs_as(fs, &c);
	struct node_fd nf;
	struct node *n;
	int err;

	if (control_is(id) || views_is(id)) {
		fuse_reply_err(req, views_is(id) ? EROFS : EPERM);
		return;
	}
	n = req_node(req, id);
	if (!n)
		return;
	err = tree_fd(fs->tree, &b, n, &nf);
	if (!err) {
		struct handle *h = fi ? handle_get(fs->tree, fi->fh) : NULL;
		struct generation *g;

		err = late_call_wait(fs->tree, n);
		if (!err && to_set & FUSE_SET_ATTR_SIZE && !h) {
			err = route_truncate(fs, &c, n, (uint64_t)attr->st_size);
			if (!err)
				to_set &= ~FUSE_SET_ATTR_SIZE;
			err = err == -ENOTSUP ? 0 : err;
		}
		if (!err)
			err = route_begin_change(fs, &c, nf.fd, &g);
		if (!err) {
			err = set_attrs(fs, &c, n, nf.fd, h, attr, to_set);
			route_end_change(g);
		}
		if (h)
			finish_handle(fs, h);
		if (!err)
			reply_attr(req, "setattr", id, nf.fd);
		tree_fd_put(fs->tree, &nf);
	}
	if (err)
		reply_result(req, "setattr", id, NULL, err);
	node_put(fs->tree, n);
}

/* replies: statfs, error. Of the file's own filesystem, if the backing contains several. */
static void op_statfs(fuse_req_t req, fuse_ino_t id)
{
	struct fs *fs = req_fs(req);
	struct caller c = req_caller(req);
	struct backing b = fs_as(fs, &c);
	struct node *n = control_is(id) || views_is(id) ? NULL : node_get(fs->tree, id);
	struct node_fd nf;
	struct statvfs sv;
	int err;

	if (n && !tree_fd(fs->tree, &b, n, &nf)) {
		err = backing_statfs(&b, nf.fd, &sv);
		tree_fd_put(fs->tree, &nf);
	} else {
		err = backing_statfs(&b, b.root_fd, &sv);
	}
	node_put(fs->tree, n);
	if (err)
		reply_result(req, "statfs", id, NULL, err);
	else
		fuse_reply_statfs(req, &sv);
}

void ops_attr(struct fuse_lowlevel_ops *ops)
{
	ops->getattr = op_getattr;
	ops->setattr = op_setattr;
	ops->statfs = op_statfs;
}
