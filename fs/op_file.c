/* SPDX-License-Identifier: MIT */
/* Handlers for open files, without state or lock. data.c decides which way their bytes go. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"
#include "engine/calls/file.h"
#include "engine/content/content.h"
#include "engine/save/checkpoint.h"
#include "fs/control_dir.h"
#include "fs/copied_commit.h"
#include "fs/data.h"
#include "fs/fs.h"
#include "fs/late_call.h"
#include "fs/open.h"
#include "fs/other_nodes.h"
#include "fs/route.h"
#include "fs/views.h"

/* The most that one request copies; a long copy could not be interrupted. */
#define COPY_MAX ((size_t)128 << 20)

/* The kernel sets it in an open by execve, which needs execute permission only. */
#define OPEN_FOR_EXEC 0x20

/* Flags that the backing gets; appending and syncing are done write by write. */
#define BACKING_FLAGS (O_ACCMODE | O_TRUNC | O_DIRECT | O_NOATIME)

static int reopen(struct fs *fs, const struct caller *c, int fd, int flags)
{
	struct backing b = fs_as(fs, c);
	int backing_flags = flags & BACKING_FLAGS;
	int r = backing_reopen(&b, fd, backing_flags);

	if (r == -EACCES && (flags & OPEN_FOR_EXEC)) {
		b = fs_for(fs, c); /* the kernel has checked the right to execute */
		r = backing_reopen(&b, fd, backing_flags);
	}
	return r;
}

/* Ends the open that the kernel knows by @id. The last reference closes, and may fail. */
static void release(struct fs *fs, const struct caller *c, uint64_t id)
{
	struct handle *h = handle_get(fs->tree, id);
	uint64_t node;
	int err;

	if (!h)
		return;
	node = h->node->id;
	open_end(fs, h->node);
	if (h->generation)
		generation_released(h->generation);
	finish_handle(fs, h); /* the kernel's reference */
	handle_put(fs->tree, h, &err);
	note_trouble(fs, c, "close", node, NULL, err);
}

/* Opens the file on the backing. With O_TRUNC the cache drops what it has of the file, too. */
static int reopen_plain(struct fs *fs, const struct caller *c, struct node *n, int fd, int flags)
{
	struct backing b = fs_as(fs, c);
	struct content *ct = flags & O_TRUNC ? route_content(fs, n) : NULL;
	int r, err = 0;

	if (!ct)
		return reopen(fs, c, fd, flags);
	r = reopen(fs, c, fd, flags & ~O_TRUNC);
	if (r >= 0)
		err = content_truncate(ct, &b, 0);
	if (err) {
		close(r);
		r = err;
	}
	content_put(ct);
	return r;
}

/* Opens @n, a regular file; the kernel opens all else itself. */
static int open_node(struct fs *fs, const struct caller *c, struct node *n,
		     struct fuse_file_info *fi)
{
	struct backing as = fs_as(fs, c), b = fs_for(fs, c);
	struct generation *g;
	struct node_fd nf;
	struct statx stx;
	struct handle *h;
	int fd, err;

	if (!S_ISREG(n->type))
		return S_ISDIR(n->type) ? -EISDIR : -ENXIO;
	err = late_call_wait(fs->tree, n);
	/* Without O_TRUNC the content is read, or may be. */
	if (!err && !(fi->flags & O_TRUNC) && fs->engine->units)
		err = other_nodes_await(fs, c, n);
	if (!err)
		err = route_open(fs, c, n, fi->flags, &g);
	if (err)
		return err;
	err = tree_fd(fs->tree, &as, n, &nf);
	if (!err) {
		/* The cache has truncated the file of a unit. */
		fd = g ? reopen(fs, c, nf.fd, fi->flags & ~(O_TRUNC | O_DIRECT))
		       : reopen_plain(fs, c, n, nf.fd, fi->flags);
		tree_fd_put(fs->tree, &nf);
		err = fd < 0 ? fd : backing_stat(&b, fd, &stx);
		if (!err && !g && route_is_gone(fs, &stx))
			err = -ESTALE;
		if (err && fd >= 0)
			close(fd);
	}
	h = err ? NULL : handle_create(fs->tree, n, fd, fi->flags);
	if (!h) {
		route_not_opened(g);
		return err ? err : -ENOMEM;
	}
	route_opened(h, g);
	open_begin(fs, h, &stx, fi);
	fi->fh = h->id;
	return 0;
}

/* Undoes an open: the program was killed while it waited for the reply. */
static void take_back(struct fs *fs, const struct caller *c, struct fuse_file_info *fi)
{
	struct handle *h = handle_get(fs->tree, fi->fh);

	if (h && h->generation && fi->flags & O_TRUNC)
		generation_cut_off(h->generation);
	if (h)
		finish_handle(fs, h);
	release(fs, c, fi->fh);
}

/* replies: open, error */
static void op_open(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	struct fs *fs = req_fs(req);
	struct caller c = req_caller(req);
	struct node *n;
	int err;

	if (views_is(id)) {
		views_open(req, id, fi);
		return;
	}
	if (control_is(id)) {
		control_open(req, id, fi);
		return;
	}
	n = req_node(req, id);
	if (!n)
		return;
	err = open_node(fs, &c, n, fi);
	if (err)
		reply_result(req, "open", id, NULL, err);
	else if (fuse_reply_open(req, fi))
		take_back(fs, &c, fi);
	node_put(fs->tree, n);
}

/* Makes and opens @name: a descriptor or -errno. *@g: its generation, if it is a unit's. */
static int create_named(struct fs *fs, const struct caller *c, struct node *dir, int at,
			const char *name, mode_t mode, int flags, struct generation **g,
			bool *created)
{
	struct backing b = fs_as(fs, c);
	struct inode_id dir_id = node_inode(dir);
	int err = route_create(fs, c, dir, at, name, mode, flags, g);

	if (err)
		return err;
	if (*g) /* open since it was made, whatever its mode */
		return backing_dup(&b, generation_content(*g)->fd);
	b = backing_maker(&b, c);
	b.who.groups = mode & S_ISGID;
	return WITH_ROOM(fs->engine->units, c, &dir_id,
			 backing_create(&b, at, name, flags, mode, created));
}

/* Makes and opens @name. On success one lookup is counted, and @fi->fh is the handle. */
static int create(struct fs *fs, const struct caller *c, struct node *dir, const char *name,
		  mode_t mode, struct fuse_file_info *fi, struct fuse_entry_param *entry)
{
	struct backing as = fs_as(fs, c), b = fs_for(fs, c);
	int flags = fi->flags & (BACKING_FLAGS | O_EXCL);
	struct generation *g = NULL;
	struct node_fd at;
	struct statx stx;
	struct node *n;
	struct handle *h;
	bool created = true;
	int fd, err = tree_fd(fs->tree, &as, dir, &at);

	if (err)
		return err;
	if (copied_commit_is(name))
		fd = copied_commit_create(fs, c, dir, at.fd, name, mode);
	else
		fd = create_named(fs, c, dir, at.fd, name, mode, flags, &g, &created);
	tree_fd_put(fs->tree, &at);
	if (fd < 0) {
		route_not_opened(g);
		return fd == -ELOOP || fd == -ENXIO ? -ESTALE : gone_dir(fs, c, dir, fd);
	}
	err = tree_adopt(fs->tree, &b, dir, name, fd, created, &n, &stx);
	if (err) {
		close(fd);
		route_not_opened(g);
		return err;
	}
	fill_entry(fs, n, &stx, entry);
	if (S_ISREG(n->type)) {
		h = handle_create(fs->tree, n, fd, fi->flags);
		err = h ? 0 : -ENOMEM;
	} else {
		close(fd); /* another process made it meanwhile: the kernel looks again */
		err = -ESTALE;
	}
	if (!err) {
		route_opened(h, g);
		open_begin(fs, h, &stx, fi);
		fi->fh = h->id;
	} else {
		route_not_opened(g);
		tree_forget(fs->tree, n->id, 1);
	}
	node_put(fs->tree, n);
	return err;
}

/* replies: create, error */
static void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		      struct fuse_file_info *fi)
{
	struct fs *fs = req_fs(req);
	struct caller c = req_caller(req);
	struct fuse_entry_param entry;
	struct node *dir;
	int err;

	if (views_is(parent)) {
		fuse_reply_err(req, EROFS);
		return;
	}
	if (control_is(parent) || control_is_name(parent, name)) {
		fuse_reply_err(req, control_is(parent) ? EPERM : EISDIR);
		return;
	}
	if (!backing_name_ok(name)) {
		fuse_reply_err(req, strlen(name) > NAME_MAX ? ENAMETOOLONG : EINVAL);
		return;
	}
	dir = req_node(req, parent);
	if (!dir)
		return;
	err = create(fs, &c, dir, name, mode & 07777, fi, &entry);
	if (err) {
		reply_result(req, "create", parent, name, err);
	} else if (fuse_reply_create(req, &entry, fi)) {
		release(fs, &c, fi->fh);
		tree_forget(fs->tree, entry.ino, 1);
	}
	node_put(fs->tree, dir);
}

/*
 * A call on an open file failed, which tells the caller of its checkpoint's failure: that is not
 * told again.
 */
static void told(const struct caller *c, const struct handle *h, ssize_t err)
{
	if (err < 0 && err != -EINTR && h->generation && generation_checkpoint(h->generation))
		checkpoint_told(h->generation, c);
}

/* replies: buf, error */
static void op_read(fuse_req_t req, fuse_ino_t id, size_t size, off_t off,
		    struct fuse_file_info *fi)
{
	struct fs *fs = req_fs(req);
	struct caller c = req_caller(req);
	void *buf = requests_data_buffer();
	struct content_pins pins;
	struct handle *h;
	ssize_t n;

	if (views_is(id)) {
		views_read(req, size, off, fi);
		return;
	}
	if (control_is(id)) {
		control_read(req, size, off, fi);
		return;
	}
	h = req_handle(req, fi);
	if (!h)
		return;
	if (size > REQUEST_MAX_BYTES)
		size = REQUEST_MAX_BYTES;
	n = (ssize_t)data_pin(fs, h, size, off, &pins);
	if (n) {
		fuse_reply_iov(req, pins.bytes, (int)pins.nr);
		data_unpin(&pins);
	} else {
		n = data_read(fs, &c, h, buf, size, off);
		if (n < 0)
			reply_result(req, "read", id, NULL, (int)n);
		else
			fuse_reply_buf(req, buf, (size_t)n);
	}
	if (n > 0)
		atomic_fetch_add(&fs->engine->metrics.read_bytes, (uint64_t)n);
	finish_handle(fs, h);
}

/* RWF_ flags for the caller's open flags, which fcntl may have changed since the open. */
static int write_flags(const struct fuse_file_info *fi)
{
	int rwf = 0;

	if (fi->flags & O_APPEND)
		rwf |= RWF_APPEND;
	if ((fi->flags & O_SYNC) == O_SYNC)
		rwf |= RWF_SYNC;
	else if (fi->flags & O_DSYNC)
		rwf |= RWF_DSYNC;
	return rwf;
}

/* replies: write, error */
static void op_write(fuse_req_t req, fuse_ino_t id, const char *data, size_t size, off_t off,
		     struct fuse_file_info *fi)
{
	struct fs *fs = req_fs(req);
	struct caller c = req_caller(req);
	struct handle *h = req_handle(req, fi);
	ssize_t n;

	if (!h)
		return;
	atomic_store(&h->written, true);
	if (fi->writepage)
		n = data_write_pages(fs, h, data, size, off);
	else
		n = data_write(fs, &c, h, fi->lock_owner, data, size, off, write_flags(fi));
	if (n >= 0)
		atomic_fetch_add(&fs->engine->metrics.written_bytes, (uint64_t)n);
	else if (!h->generation) /* the engine reports those, in more detail */
		note_trouble(fs, &c, "write", id, NULL, (int)n);
	told(&c, h, n);
	if ((n < 0 ? fuse_reply_err(req, (int)-n) : fuse_reply_write(req, (size_t)n)) && n < 0 &&
	    fi->writepage)
		late_call_keep_error(fs->tree, h->node, (int)n);
	finish_handle(fs, h);
}

/* replies: error. One for each close of a descriptor; the last chance to report an error. */
static void op_flush(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	struct fs *fs = req_fs(req);
	struct caller c = req_caller(req);
	struct handle *h;
	int err;

	if (control_is(id) || views_is(id)) {
		fuse_reply_err(req, 0);
		return;
	}
	h = req_handle(req, fi);
	if (!h)
		return;
	err = data_close(fs, &c, h, fi->lock_owner);
	told(&c, h, err);
	if (h->generation)
		fuse_reply_err(req, -err); /* the engine has reported it in more detail */
	else
		reply_result(req, "close", id, NULL, err);
	finish_handle(fs, h);
}

/* replies: error */
static void op_release(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	struct caller c = req_caller(req);

	if (views_is(id)) {
		views_release(req, fi);
		return;
	}
	if (control_is(id)) {
		control_release(req, fi);
		return;
	}
	release(req_fs(req), &c, fi->fh);
	fuse_reply_err(req, 0);
}

/* replies: error */
static void op_fsync(fuse_req_t req, fuse_ino_t id, int data_only, struct fuse_file_info *fi)
{
	struct fs *fs = req_fs(req);
	struct caller c = req_caller(req);
	struct handle *h;
	int err;

	if (control_is(id) || views_is(id)) {
		fuse_reply_err(req, 0);
		return;
	}
	h = req_handle(req, fi);
	if (!h)
		return;
	err = data_sync(fs, &c, h, data_only);
	told(&c, h, err);
	if (h->generation)
		fuse_reply_err(req, -err); /* the engine has reported it in more detail */
	else
		reply_result(req, "fsync", id, NULL, err);
	finish_handle(fs, h);
}

/* replies: error */
static void op_fallocate(fuse_req_t req, fuse_ino_t id, int mode, off_t off, off_t len,
			 struct fuse_file_info *fi)
{
	struct fs *fs = req_fs(req);
	struct caller c = req_caller(req);
	struct backing b = fs_as(fs, &c);
	struct handle *h = req_handle(req, fi);
	struct data_span span;
	int err;

	if (!h)
		return;
	err = data_begin_change(fs, &c, h->node, h, h->fd, &span);
	if (!err) {
		err = backing_fallocate(&b, h->fd, mode, off, len);
		data_end(&span, (uint64_t)off, UINT64_MAX); /* it may move what follows */
	}
	reply_result(req, "fallocate", id, NULL, err);
	finish_handle(fs, h);
}

/* replies: lseek, error. Only SEEK_HOLE and SEEK_DATA reach a filesystem. */
static void op_lseek(fuse_req_t req, fuse_ino_t id, off_t off, int whence,
		     struct fuse_file_info *fi)
{
	struct fs *fs = req_fs(req);
	struct data_span span;
	struct handle *h;
	off_t r;

	if (control_is(id) || views_is(id) || (whence != SEEK_HOLE && whence != SEEK_DATA)) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	h = req_handle(req, fi);
	if (!h)
		return;
	r = data_begin(fs, h->node, &span);
	if (!r) {
		r = backing_seek(&fs->engine->backing, h->fd, off, whence);
		data_end(&span, 0, 0);
	}
	if (r < 0)
		reply_result(req, "lseek", id, NULL, (int)r);
	else
		fuse_reply_lseek(req, r);
	finish_handle(fs, h);
}

/* replies: write, error. After a short count the caller asks for the rest. */
static void op_copy_file_range(fuse_req_t req, fuse_ino_t id_in, off_t off_in,
			       struct fuse_file_info *fi_in, fuse_ino_t id_out, off_t off_out,
			       struct fuse_file_info *fi_out, size_t len, int flags)
{
	struct fs *fs = req_fs(req);
	struct caller c = req_caller(req);
	struct backing b = fs_as(fs, &c);
	struct data_span from = {.content = NULL}, to;
	struct handle *in, *out;
	ssize_t n;

	if (control_is(id_in) || control_is(id_out) || views_is(id_in) || views_is(id_out)) {
		fuse_reply_err(req, EXDEV); /* the kernel then copies by read and write */
		return;
	}
	in = req_handle(req, fi_in);
	if (!in)
		return;
	out = req_handle(req, fi_out);
	if (!out) {
		finish_handle(fs, in);
		return;
	}
	atomic_store(&out->written, true);
	n = data_begin(fs, in->node, &from);
	if (!n)
		n = data_begin_change(fs, &c, out->node, out, out->fd, &to);
	if (!n) {
		n = backing_copy_range(&b, in->fd, off_in, out->fd, off_out,
				       len < COPY_MAX ? len : COPY_MAX, (unsigned)flags);
		data_end(&to, (uint64_t)off_out, n > 0 ? (uint64_t)n : 0);
	}
	data_end(&from, 0, 0);
	if (n < 0)
		reply_result(req, "copy_file_range", id_out, NULL, (int)n);
	else
		fuse_reply_write(req, (size_t)n);
	finish_handle(fs, out);
	finish_handle(fs, in);
}

void ops_file(struct fuse_lowlevel_ops *ops)
{
	ops->open = op_open;
	ops->create = op_create;
	ops->read = op_read;
	ops->write = op_write;
	ops->flush = op_flush;
	ops->release = op_release;
	ops->fsync = op_fsync;
	ops->fallocate = op_fallocate;
	ops->lseek = op_lseek;
	ops->copy_file_range = op_copy_file_range;
}
