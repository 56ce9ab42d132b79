/* SPDX-License-Identifier: MIT */
/* What all handlers share (fs.h): errors, attributes and entries on their way to the kernel. */
#include <errno.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"
#include "engine/base/message.h"
#include "engine/content/content.h"
#include "engine/metrics/failures.h"
#include "engine/save/checkpoint.h"
#include "fs/copied_commit.h"
#include "fs/fs.h"
#include "fs/other_nodes.h"
#include "fs/views.h"

/* True for trouble with the backing, false for an answer that the caller may expect. */
static bool is_trouble(int err)
{
	static const int troubles[] = {
		EIO,	   ENOSPC,    EDQUOT,  ENOTCONN, ETIMEDOUT,    ENODEV, ENXIO,
		EREMOTEIO, ESHUTDOWN, EUCLEAN, ENOLINK,	 EHOSTDOWN,    ECOMM,  ENFILE,
		EMFILE,	   ENOMEM,    EPROTO,  ENOTBLK,	 EHOSTUNREACH,
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(troubles); i++)
		if (troubles[i] == err)
			return true;
	return false;
}

void note_trouble(struct fs *fs, const struct caller *c, const char *op, uint64_t node,
		  const char *name, int err)
{
	char path[PATH_MAX], text[MESSAGE_MAX];

	if (err >= 0 || !is_trouble(-err) || failures_explained(-err))
		return;
	tree_path(fs->tree, node, name, path, sizeof(path));
	MESSAGE(text, BACKING_ERROR, op, path, strerror(-err), (int)c->pid, c->uid,
		fs->engine->backing.path);
	failures_add(fs->engine->failures, c->uid, op, path, -err, text);
}

void reply_result(fuse_req_t req, const char *op, uint64_t node, const char *name, int err)
{
	struct caller c = req_caller(req);

	/* SEEK_DATA behind the last data gets ENXIO by design. */
	if (err && !(err == -ENXIO && !strcmp(op, "lseek")))
		note_trouble(req_fs(req), &c, op, node, name, err);
	fuse_reply_err(req, -err);
}

uint64_t visible_ino(struct fs *fs, dev_t dev, uint64_t ino)
{
	if (dev == fs->engine->backing.dev)
		return ino;
	return ino ^ ((uint64_t)dev * 0x9E3779B97F4A7C15ull | 1ull << 62);
}

static struct timespec time_of(struct statx_timestamp t)
{
	return (struct timespec){.tv_sec = t.tv_sec, .tv_nsec = t.tv_nsec};
}

/* Puts what the cache knows better over the attributes of the backing. */
static void overlay(struct fs *fs, struct statx *stx)
{
	struct inode_id id = inode_id_of(stx);
	struct content *ct = S_ISREG(stx->stx_mode) && fs->engine->contents
				     ? content_find(fs->engine->contents, &id)
				     : NULL;

	if (ct)
		content_overlay(ct, stx);
	content_put(ct);
}

void fill_stat(struct fs *fs, const struct statx *backing_stx, struct stat *st)
{
	struct statx over = *backing_stx, *stx = &over;

	overlay(fs, stx);
	memset(st, 0, sizeof(*st));
	st->st_dev = makedev(stx->stx_dev_major, stx->stx_dev_minor);
	st->st_ino = visible_ino(fs, st->st_dev, stx->stx_ino);
	st->st_mode = stx->stx_mode;
	st->st_nlink = stx->stx_nlink;
	st->st_uid = stx->stx_uid;
	st->st_gid = stx->stx_gid;
	st->st_rdev = makedev(stx->stx_rdev_major, stx->stx_rdev_minor);
	st->st_size = (off_t)stx->stx_size;
	st->st_blksize = stx->stx_blksize;
	st->st_blocks = (blkcnt_t)stx->stx_blocks;
	st->st_atim = time_of(stx->stx_atime);
	st->st_mtim = time_of(stx->stx_mtime);
	st->st_ctim = time_of(stx->stx_ctime);
}

/* True if @n is a checkpoint's: its name leads elsewhere when that fails, goes or changes. */
static bool shows_checkpoint(struct fs *fs, const struct node *n)
{
	struct inode_id id = node_inode(n);
	struct checkpoint *cp = S_ISDIR(n->type) && fs->engine->units
					? checkpoints_find_inode(fs->engine->units, &id)
					: NULL;

	checkpoint_put(cp);
	return cp;
}

void fill_entry(struct fs *fs, struct node *n, const struct statx *stx,
		struct fuse_entry_param *entry)
{
	memset(entry, 0, sizeof(*entry));
	entry->ino = n->id;
	entry->attr_timeout = ATTR_TIMEOUT_S;
	entry->entry_timeout =
		S_ISDIR(n->type) && !shows_checkpoint(fs, n) && !other_nodes_may_change(fs)
			? DIR_TIMEOUT_S
			: NAME_TIMEOUT_S;
	fill_stat(fs, stx, &entry->attr);
}

int fs_look_up(struct fs *fs, const struct caller *c, struct node *dir, const char *name,
	       struct node **n, struct statx *stx)
{
	struct backing b = fs_as(fs, c);
	bool again = false;
	int met, err;

	do {
		met = other_nodes_join(fs, c, dir, name, again);
		err = met < 0 ? met : other_nodes_follow(fs, c, dir, name);
		if (!err)
			err = tree_lookup(fs->tree, &b, dir, name, c->pid, n, stx);
		again = !again && met == 1 && err == -ENOENT;
	} while (again);
	return err;
}

void reply_entry(fuse_req_t req, const char *op, struct node *dir, const char *name)
{
	struct fs *fs = req_fs(req);
	struct caller c = req_caller(req);
	struct fuse_entry_param entry;
	struct statx stx;
	struct node *n;
	int err = fs_look_up(fs, &c, dir, name, &n, &stx);

	if (err == -ENOENT && copied_commit_is(name))
		err = copied_commit_lookup(fs, &c, dir, name, &n, &stx);
	if (err == -ENOENT && !strcmp(name, VIEWS_NAME) && !strcmp(op, "lookup") &&
	    views_lookup_top(req, dir))
		return;
	if (err) {
		reply_result(req, op, dir->id, name, gone_dir(fs, &c, dir, err));
		return;
	}
	fill_entry(fs, n, &stx, &entry);
	if (fuse_reply_entry(req, &entry))
		tree_forget(fs->tree, n->id, 1);
	node_put(fs->tree, n);
}

struct node *req_node(fuse_req_t req, uint64_t id)
{
	struct node *n = node_get(req_fs(req)->tree, id);

	if (!n)
		fuse_reply_err(req, ESTALE);
	return n;
}

struct handle *req_handle(fuse_req_t req, const struct fuse_file_info *fi)
{
	struct handle *h = handle_get(req_fs(req)->tree, fi->fh);

	if (!h)
		fuse_reply_err(req, EBADF);
	return h;
}

int gone_dir(struct fs *fs, const struct caller *c, struct node *dir, int err)
{
	struct backing b = fs_for(fs, c);
	struct node_fd nf;
	struct statx stx;

	if (err != -ENOENT || dir->id == NODE_ROOT || tree_fd(fs->tree, &b, dir, &nf))
		return err;
	if (!backing_stat(&b, nf.fd, &stx) && stx.stx_nlink == 0)
		err = -ESTALE;
	tree_fd_put(fs->tree, &nf);
	return err;
}
