/* SPDX-License-Identifier: MIT */
#include "fs/elsewhere.h"

#include <errno.h>

#include "engine/base/cleanup.h"
#include "fs/save.h"

/* Another node has renamed what this one shows as @name: so does this one then. */
static bool is_renamed(struct fs *fs, struct node *dir, const char *name)
{
	struct inode_id dir_id = node_inode(dir);
	struct checkpoint *cp = checkpoints_find(fs->engine->units, &dir_id, name);
	char now[NAME_MAX + 1];
	bool renamed = cp && accord_follows_name(cp, now);

	if (renamed)
		tree_placed(fs->tree, &cp->id, dir, now);
	checkpoint_put(cp);
	return renamed;
}

int elsewhere_meet(struct fs *fs, const struct caller *c, struct node *dir, const char *name)
{
	struct units *us = fs->engine->units;
	struct inode_id dir_id = node_inode(dir);
	struct checkpoint *cp = NULL;
	struct node_fd at;
	struct statx stx;
	int err;

	if (!us || !accord_has_others(us) || rules_reserved(name))
		return 0;
	if (save_has_name(fs, dir, name) && !is_renamed(fs, dir, name))
		return 0;
	cp = checkpoints_find_inode(us, &dir_id);
	checkpoint_put(cp);
	if (cp)
		return 0; /* what is in one is where its staging directory is */
	creds_restore();
	err = tree_fd(fs->tree, dir, &at);
	if (err)
		return 0; /* the lookup will tell */
	err = backing_stat_at(&fs->engine->backing, at.fd, name, &stx);
	err = err == -ENOENT || (!err && S_ISDIR(stx.stx_mode))
		      ? accord_find(us, c, at.fd, &dir_id, name, &cp)
		      : 0;
	tree_fd_put(fs->tree, &at);
	if (!err && cp)
		tree_placed(fs->tree, &cp->id, dir, name); /* it may have been renamed */
	if (!err)
		checkpoint_put(cp);
	return err;
}

int elsewhere_await(struct fs *fs, struct node *n)
{
	struct inode_id id = node_inode(n);
	struct checkpoint *cp;
	struct node_fd nf;
	char rel[PATH_MAX];
	int err = 0;

	if (!accord_has_others(fs->engine->units))
		return 0;
	cp = tree_checkpoint(fs->tree, n, NULL, rel, sizeof(rel));
	if (cp && accord_is_elsewhere(cp, &id)) {
		creds_restore();
		err = tree_fd(fs->tree, n, &nf);
		if (!err) {
			err = accord_await_file(cp, &id, nf.fd);
			tree_fd_put(fs->tree, &nf);
		}
	}
	checkpoint_put(cp);
	return err;
}
