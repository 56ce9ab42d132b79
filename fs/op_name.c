/* SPDX-License-Identifier: MIT */
/*
 * Handlers for lookup, forget, and all calls that make, move or remove a name. They take no lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"
#include "engine/base/log.h"
#include "engine/base/message.h"
#include "engine/calls/directory.h"
#include "engine/content/content.h"
#include "engine/format/names.h"
#include "engine/journal/journal.h"
#include "engine/names/names.h"
#include "fs/control_dir.h"
#include "fs/evidence_name.h"
#include "fs/fs.h"
#include "fs/in_checkpoint.h"
#include "fs/route.h"
#include "fs/views.h"

/* replies: entry, error. An absent name is not remembered: another node may make it. */
static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fs *fs = req_fs(req);
	struct node *dir;

	if (views_is(parent)) {
		views_lookup(req, parent, name);
		return;
	}
	if (control_is(parent) || control_is_name(parent, name)) {
		control_lookup(req, parent, name);
		return;
	}
	if (!backing_name_ok(name)) {
		fuse_reply_err(req, strlen(name) > NAME_MAX ? ENAMETOOLONG : EINVAL);
		return;
	}
	dir = req_node(req, parent);
	if (!dir)
		return;
	reply_entry(req, "lookup", dir, name);
	node_put(fs->tree, dir);
}

static void forget(struct fs *fs, uint64_t id, uint64_t count)
{
	if (views_is(id))
		views_forget(fs, id, count);
	else if (!control_is(id))
		tree_forget(fs->tree, id, count);
}

/* replies: none */
static void op_forget(fuse_req_t req, fuse_ino_t id, uint64_t nlookup)
{
	forget(req_fs(req), id, nlookup);
	fuse_reply_none(req);
}

/* replies: none */
static void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	size_t i;

	for (i = 0; i < count; i++)
		forget(req_fs(req), forgets[i].ino, forgets[i].nlookup);
	fuse_reply_none(req);
}

/* A directory in which the caller changes a name, ready for *at calls. */
struct change_in {
	struct fs *fs;
	struct caller caller;
	struct node *dir;
	struct node_fd at;
	struct in_checkpoint inside; /* entered, if the name is made in one */
};

/* Refuses the control directory and bad names. False: the error was replied. */
static bool place_begin(struct change_in *p, fuse_req_t req, const char *op, uint64_t dir,
			const char *name)
{
	struct backing b;
	int err;

	*p = (struct change_in){.fs = req_fs(req), .caller = req_caller(req)};
	if (views_is(dir)) {
		fuse_reply_err(req, EROFS);
		return false;
	}
	if (control_is(dir) || control_is_name(dir, name)) {
		char text[MESSAGE_MAX];

		MESSAGE(text, RESERVED_NAME, CONTROL_DIR_NAME, p->caller.uid);
		log_info("%s: %s", op, text);
		fuse_reply_err(req, EPERM);
		return false;
	}
	if (!backing_name_ok(name)) {
		fuse_reply_err(req, strlen(name) > NAME_MAX ? ENAMETOOLONG : EINVAL);
		return false;
	}
	p->dir = req_node(req, dir);
	if (!p->dir)
		return false;
	b = fs_as(p->fs, &p->caller);
	err = tree_fd(p->fs->tree, &b, p->dir, &p->at);
	if (err) {
		reply_result(req, op, dir, name, err);
		node_put(p->fs->tree, p->dir);
		return false;
	}
	return true;
}

/* Prepares the making of a name. -EEXIST: something has it that is not on the backing yet. */
static int place_free(struct change_in *p, const char *name)
{
	struct inode_id dir = node_inode(p->dir);
	struct units *us = p->fs->engine->units;
	int err;

	if (!us)
		return 0;
	if (name_is_reserved(name))
		return -EPERM;
	if (names_look_saved(us, &dir, name, 0, NULL))
		return -EEXIST;
	err = in_checkpoint_enter(p->fs, &p->caller, p->dir, name, (struct change){0}, &p->inside);
	if (!err)
		err = in_checkpoint_begin_change(p->fs, &p->caller, p->dir, name,
						 (struct change){0});
	if (!err)
		err = removal_of_file_makes_way(us, &dir, name);
	return err < 0 ? err : 0;
}

/* As place_free, for what is no directory: it may decide what the checkpoint around it is. */
static int place_claim(struct change_in *p, const char *name)
{
	int err = place_free(p, name);

	if (!err && p->inside.checkpoint)
		err = checkpoint_claim(p->inside.checkpoint, p->inside.rel, p->inside.process);
	return err == -EEXIST && p->inside.checkpoint ? 0 : err;
}

static void place_end(struct change_in *p)
{
	in_checkpoint_leave(&p->inside);
	tree_fd_put(p->fs->tree, &p->at);
	node_put(p->fs->tree, p->dir);
}

/* Ends every call that makes a name: replies an entry for it, or the error. */
static void place_made(struct change_in *p, fuse_req_t req, const char *op, const char *name,
		       int err)
{
	if (!err)
		reply_entry(req, op, p->dir, name);
	else
		reply_result(req, op, p->dir->id, name, gone_dir(p->fs, &p->caller, p->dir, err));
	place_end(p);
}

/* With S_ISGID the backing gets the caller's groups, without which it silently drops the bit. */
static struct backing maker_of(const struct change_in *p, mode_t mode)
{
	struct backing b = backing_maker(&p->fs->engine->backing, &p->caller);

	b.who.groups = mode & S_ISGID;
	return b;
}

/* replies: entry, error */
static void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct change_in p;
	struct inode_id dir;
	struct backing b;
	int err;

	if (!place_begin(&p, req, "mkdir", parent, name))
		return;
	dir = node_inode(p.dir);
	err = place_free(&p, name);
	if (!err)
		err = route_mkdir(p.fs, &p.caller, &(struct entry_name){p.dir, p.at.fd, name},
				  p.inside.checkpoint, mode);
	b = maker_of(&p, mode);
	if (err == -ENOTSUP)
		err = WITH_ROOM(p.fs->engine->units, &p.caller, &dir,
				backing_mkdir(&b, p.at.fd, name, mode));
	place_made(&p, req, "mkdir", name, err);
}

/* replies: entry, error. Regular files come here only by mknod(2). */
static void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	struct change_in p;
	struct backing b;
	int err;

	if (parent == CONTROL_DIR_ID) {
		control_mknod(req, name, mode);
		return;
	}
	if (!place_begin(&p, req, "mknod", parent, name))
		return;
	err = place_claim(&p, name);
	b = maker_of(&p, mode);
	if (!err)
		err = backing_mknod(&b, p.at.fd, name, mode, rdev);
	place_made(&p, req, "mknod", name, err);
}

/* replies: entry, error */
static void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	struct change_in p;
	struct backing b;
	int err;

	if (!place_begin(&p, req, "symlink", parent, name))
		return;
	b = fs_as(p.fs, &p.caller);
	err = place_claim(&p, name);
	if (!err)
		err = p.inside.checkpoint
			      ? -ENOTSUP
			      : evidence_name_hold_link(p.fs, &p.caller,
							&(struct entry_name){p.dir, p.at.fd, name},
							target);
	if (err == -ENOTSUP)
		err = backing_symlink(&b, target, p.at.fd, name);
	place_made(&p, req, "symlink", name, err);
}

/* replies: entry, error */
static void op_link(fuse_req_t req, fuse_ino_t id, fuse_ino_t parent, const char *name)
{
	struct change_in p;
	struct backing b;
	struct node *n;
	struct node_fd source;
	int err;

	if (control_is(id) || views_is(id)) {
		fuse_reply_err(req, EPERM);
		return;
	}
	if (!place_begin(&p, req, "link", parent, name))
		return;
	b = fs_as(p.fs, &p.caller);
	n = node_get(p.fs->tree, id);
	err = n ? place_claim(&p, name) : -ESTALE;
	if (!err)
		err = route_link(p.fs, &p.caller, n, p.inside.checkpoint);
	if (!err)
		err = tree_fd(p.fs->tree, &b, n, &source);
	if (!err) {
		err = backing_link(&b, source.fd, p.at.fd, name);
		tree_fd_put(p.fs->tree, &source);
	}
	node_put(p.fs->tree, n);
	place_made(&p, req, "link", name, err);
}

static void remove_name(fuse_req_t req, fuse_ino_t parent, const char *name, bool directory)
{
	const char *op = directory ? "rmdir" : "unlink";
	struct change_in p;
	int err;

	if (!place_begin(&p, req, op, parent, name))
		return;
	err = (directory ? route_rmdir : route_unlink)(p.fs, &p.caller,
						       &(struct entry_name){p.dir, p.at.fd, name});
	reply_result(req, op, parent, name, gone_dir(p.fs, &p.caller, p.dir, err));
	place_end(&p);
}

/* replies: error */
static void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	remove_name(req, parent, name, false);
}

/* replies: error */
static void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	remove_name(req, parent, name, true);
}

/* replies: error */
static void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
		      const char *new_name, unsigned flags)
{
	struct change_in from, to;
	int err;

	if (!place_begin(&from, req, "rename", parent, name))
		return;
	if (!place_begin(&to, req, "rename", new_parent, new_name)) {
		place_end(&from);
		return;
	}
	err = route_rename(from.fs, &from.caller, &(struct entry_name){from.dir, from.at.fd, name},
			   &(struct entry_name){to.dir, to.at.fd, new_name}, flags);
	err = gone_dir(to.fs, &to.caller, to.dir, gone_dir(from.fs, &from.caller, from.dir, err));
	reply_result(req, "rename", parent, name, err);
	place_end(&to);
	place_end(&from);
}

/* replies: readlink, error */
static void op_readlink(fuse_req_t req, fuse_ino_t id)
{
	struct fs *fs = req_fs(req);
	char *target = requests_data_buffer();
	struct node_fd nf;
	struct caller c = req_caller(req);
	struct backing b = fs_as(fs, &c);
	struct node *n = control_is(id) || views_is(id) ? NULL : node_get(fs->tree, id);
	int len = n ? tree_fd(fs->tree, &b, n, &nf) : -EINVAL;

	if (views_is(id)) {
		views_readlink(req, id);
		return;
	}
	if (!len) {
		len = backing_readlink(&b, nf.fd, target, PATH_MAX);
		tree_fd_put(fs->tree, &nf);
	}
	node_put(fs->tree, n);
	if (len < 0) {
		reply_result(req, "readlink", id, NULL, len);
		return;
	}
	target[len < PATH_MAX ? len : PATH_MAX - 1] = '\0';
	fuse_reply_readlink(req, target);
}

void ops_name(struct fuse_lowlevel_ops *ops)
{
	ops->lookup = op_lookup;
	ops->forget = op_forget;
	ops->forget_multi = op_forget_multi;
	ops->mkdir = op_mkdir;
	ops->mknod = op_mknod;
	ops->symlink = op_symlink;
	ops->link = op_link;
	ops->unlink = op_unlink;
	ops->rmdir = op_rmdir;
	ops->rename = op_rename;
	ops->readlink = op_readlink;
}
