/* SPDX-License-Identifier: MIT */
/*
 * Opens and new files inside a checkpoint that is being written, which the caller has entered: each
 * begins or joins a generation of that checkpoint. Has no lock of its own. in_checkpoint_enter has
 * decided before whether the checkpoint may be changed.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "engine/backing/backing.h"
#include "engine/calls/directory.h"
#include "engine/calls/file.h"
#include "engine/cluster/other_nodes.h"
#include "engine/content/content.h"
#include "engine/liveness/job.h"
#include "engine/rule/reserved_names.h"
#include "fs/in_checkpoint.h"

/*
 * Another process has just made the file. The kernel opens that instead, but retries only once; so
 * a file that another node made becomes this node's own now.
 */
static int open_instead(struct fs *fs, const struct caller *c, struct in_checkpoint *in, int at,
			const char *name, int flags)
{
	struct backing b = fs_for(fs, c);
	struct inode_id id;
	struct statx stx;
	int err = backing_stat_at(&b, at, name, &stx);

	if (flags & O_EXCL)
		return -EEXIST;
	id = inode_id_of(&stx);
	if (!err && S_ISREG(stx.stx_mode) && accord_is_elsewhere(in->checkpoint, &id))
		err = checkpoint_expect(in->checkpoint, c, in->process->rank, in->rel,
					flags & O_TRUNC);
	return !err || err == -ENOENT ? -ESTALE : err;
}

int in_checkpoint_create(struct fs *fs, const struct caller *c, struct in_checkpoint *in,
			 struct node *dir, int at, const char *name, mode_t mode, int flags,
			 struct generation **g)
{
	struct backing b = fs_for(fs, c);
	struct backing maker = backing_maker(&b, c);
	struct inode_id dir_id = node_inode(dir);
	struct statx stx;
	bool created;
	int fd, err = checkpoint_claim(in->checkpoint, in->rel, in->process);

	if (err == -EEXIST)
		return -EAGAIN;
	if (!err)
		err = checkpoint_join(in->checkpoint, in->process);
	if (err)
		return err;
	if (flags & O_EXCL && !name_tells_nothing(name))
		checkpoint_copied_by(in->checkpoint, in->process);
	err = backing_stat_at(&b, at, name, &stx);
	if (!err)
		return open_instead(fs, c, in, at, name, flags);
	if (err == -ENOENT)
		err = change_from_nothing(in->checkpoint, in->process, in->rel);
	if (err)
		return err;
	fd = WITH_ROOM(fs->engine->units, c, checkpoint_id(in->checkpoint),
		       backing_create(&maker, at, name, O_RDWR | O_EXCL, mode, &created));
	if (fd < 0)
		return fd == -EEXIST ? open_instead(fs, c, in, at, name, flags) : fd;
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	err = generation_begin_in(in->checkpoint, c, in->process->rank, &dir_id, name, in->rel, fd,
				  false, g);
	if (!err && !generation_open(*g, c->pid)) {
		generation_put(*g);
		*g = NULL;
		err = -ESTALE;
	}
	return err;
}

/* A file of the checkpoint is emptied, which also may show what the checkpoint is. */
static int write_anew(struct in_checkpoint *in)
{
	int err = checkpoint_is_change(in->checkpoint)
			  ? checkpoint_claim(in->checkpoint, in->rel, in->process)
			  : 0;

	return err ? err : change_from_nothing(in->checkpoint, in->process, in->rel);
}

/* Begins to write, in place, to a file of the checkpoint that is closed and durable. */
static int begin_again(struct fs *fs, const struct caller *c, struct in_checkpoint *in,
		       struct node *n, struct generation **g)
{
	struct backing b = fs_for(fs, c);
	struct backing as = fs_as(fs, c);
	struct node *dir = NULL;
	struct inode_id dir_id;
	char name[NAME_MAX + 1];
	struct node_fd nf;
	int fd, err;

	if (!tree_place(fs->tree, n, &dir, name))
		return -ESTALE;
	dir_id = node_inode(dir);
	node_put(fs->tree, dir);
	err = tree_fd(fs->tree, &as, n, &nf);
	if (err)
		return err;
	/* As the daemon: the kernel has checked the caller's right. */
	fd = backing_reopen(&b, nf.fd, O_RDWR);
	tree_fd_put(fs->tree, &nf);
	if (fd < 0)
		return fd;
	return generation_begin_in(in->checkpoint, c, in->process->rank, &dir_id, name, in->rel, fd,
				   true, g);
}

/* True if the name of @n leads to @n, or if @n has no name. */
static bool is_current(struct fs *fs, const struct caller *c, struct node *n,
		       const struct inode_id *id)
{
	struct backing b = fs_for(fs, c);
	struct node *dir = NULL;
	char name[NAME_MAX + 1];
	struct inode_id found = {0};
	struct node_fd at;
	struct statx stx;
	int err = tree_fd(fs->tree, &b, n, &at);

	if (!err) {
		err = backing_stat(&b, at.fd, &stx);
		tree_fd_put(fs->tree, &at);
	}
	if (err || !stx.stx_nlink)
		return !err;
	if (!tree_place(fs->tree, n, &dir, name))
		return false;
	err = tree_fd(fs->tree, &b, dir, &at);
	if (!err) {
		err = backing_stat_at(&b, at.fd, name, &stx);
		tree_fd_put(fs->tree, &at);
	}
	node_put(fs->tree, dir);
	if (!err)
		found = inode_id_of(&stx);
	return !err && same_inode(&found, id);
}

/* Copies @n for the checkpoint if need be. -ESTALE: the name has a copy, whose open is expected. */
static int make_own(struct fs *fs, const struct caller *c, struct in_checkpoint *in, struct node *n,
		    bool empty)
{
	struct inode_id id = node_inode(n);
	int err;

	if (!accord_is_elsewhere(in->checkpoint, &id) &&
	    (!checkpoint_inherits(in->checkpoint) ||
	     (!checkpoint_shares(in->checkpoint, &id) && is_current(fs, c, n, &id))))
		return 0;
	err = checkpoint_expect(in->checkpoint, c, in->process->rank, in->rel, empty);
	return err ? err : -ESTALE;
}

int in_checkpoint_open(struct fs *fs, const struct caller *c, struct in_checkpoint *in,
		       struct node *n, int flags, struct generation **g)
{
	struct inode_id id = node_inode(n);
	int err = checkpoint_join(in->checkpoint, in->process);

	if (!err)
		err = make_own(fs, c, in, n, flags & O_TRUNC);
	while (!err) {
		*g = units_find_inode(fs->engine->units, &id);
		if (!*g)
			err = begin_again(fs, c, in, n, g);
		if (err)
			return err;
		if (generation_open(*g, c->pid)) {
			err = flags & O_TRUNC ? write_anew(in) : 0;
			if (!err && flags & O_TRUNC)
				err = route_cut(fs, *g);
			if (!err)
				return 0;
			generation_released(*g);
		} else {
			err = generation_wait(*g); /* until it is durable */
		}
		generation_put(*g);
		*g = NULL;
	}
	return err;
}
