/* SPDX-License-Identifier: MIT */
#include "fs/other_nodes.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/cluster/other_nodes.h"
#include "engine/content/content.h"
#include "engine/format/commit.h"
#include "engine/format/names.h"
#include "engine/names/names.h"
#include "fs/route.h"

/*
 * The slot that remembers an ordinary directory, and its content. Each path through the directory
 * looks its name up, so the others are asked once a second whether they make a checkpoint of it.
 * For a checkpoint they are asked each time.
 */
static _Atomic uint64_t *slot_of(struct fs *fs, const struct inode_id *dir_id, const char *name,
				 const struct statx *stx, uint64_t *key)
{
	struct inode_id id = inode_id_of(stx);

	*key = hash_name(dir_id, name) ^ hash_inode(&id) * (1 + clock_mono_ns() / NSEC_PER_SEC);
	return &fs->ordinary[*key % ORDINARY_KEPT];
}

static bool has_commit_file(struct backing *b, int dir, const char *name)
{
	char path[NAME_MAX + sizeof(COMMIT_FILE) + 1];
	struct statx stx;

	snprintf(path, sizeof(path), "%s/" COMMIT_FILE, name);
	return backing_stat_at(b, dir, path, &stx) != -ENOENT;
}

/* Asks for a name that nothing on this node has yet. Returns as other_nodes_join. */
static int find(struct fs *fs, const struct caller *c, struct node *dir, const char *name,
		bool patient)
{
	struct units *us = fs->engine->units;
	struct inode_id dir_id = node_inode(dir);
	struct backing b = fs_for(fs, c);
	struct checkpoint *cp = NULL;
	_Atomic uint64_t *slot;
	struct node_fd at;
	struct statx stx;
	uint64_t key;
	bool there;
	int err;

	err = tree_fd(fs->tree, &b, dir, &at);
	if (err)
		return 0; /* the lookup will tell */
	err = backing_stat_at(&b, at.fd, name, &stx);
	there = !err && S_ISDIR(stx.stx_mode);
	slot = there ? slot_of(fs, &dir_id, name, &stx, &key) : NULL;
	if ((!there && err != -ENOENT && err != -ESTALE) || (there && atomic_load(slot) == key)) {
		tree_fd_put(fs->tree, &at);
		return there;
	}
	err = accord_find(us, c, NULL, &(struct place){at.fd, dir_id, name}, patient, &cp);
	if (there && !err && !cp && !has_commit_file(&b, at.fd, name))
		atomic_store(slot, key);
	tree_fd_put(fs->tree, &at);
	if (err == -EAGAIN && !patient)
		err = 0;
	if (!err && cp)
		tree_placed(fs->tree, checkpoint_id(cp), dir, name); /* it may have been renamed */
	if (!err)
		checkpoint_put(cp);
	return err ? err : there && !cp;
}

static int meet(struct fs *fs, const struct caller *c, struct node *dir, const char *name,
		bool patient, bool sure)
{
	struct units *us = fs->engine->units;
	struct inode_id dir_id = node_inode(dir);
	char now[NAME_MAX + 1], rel[PATH_MAX];
	struct checkpoint *cp;
	bool renamed, undecided;
	int err;

	if (!us || !accord_has_others(us) || name_is_reserved(name))
		return 0;
	cp = tree_checkpoint(fs->tree, dir, NULL, rel, sizeof(rel));
	err = cp ? accord_await_name(cp, sure) : 0;
	checkpoint_put(cp);
	if (err < 0)
		return err;
	undecided = err == 1;
	if (cp)
		cp = tree_checkpoint(fs->tree, dir, NULL, rel, sizeof(rel));
	checkpoint_put(cp);
	if (cp)
		return undecided; /* a name in a checkpoint is in its staging directory */
	err = accord_await_removed(us, &dir_id, name);
	if (err)
		return err;
	cp = names_checkpoint(us, &dir_id, name);
	err = cp && patient ? accord_await_verdict(cp, c) : 0;
	renamed = cp && accord_was_renamed(cp, name, now);
	checkpoint_put(cp);
	if (err)
		return err;
	err = renamed ? find(fs, c, dir, now, patient) : 0;
	if (err < 0 || names_look_saved(us, &dir_id, name, 0, NULL))
		return err < 0 ? err : 0;
	return find(fs, c, dir, name, patient);
}

int other_nodes_join(struct fs *fs, const struct caller *c, struct node *dir, const char *name,
		     bool sure)
{
	return meet(fs, c, dir, name, true, sure);
}

int other_nodes_join_staged(struct fs *fs, const struct caller *c, struct node *dir, int fd,
			    const char *staging)
{
	struct backing b = fs_as(fs, c);
	char name[NAME_MAX + 1];
	int pin = backing_pin(&b, fd, staging), err;

	if (pin < 0)
		return 0; /* gone, or the caller may not see it */
	err = accord_staged_name(&b, pin, name);
	close(pin);
	err = err ? 0 : meet(fs, c, dir, name, false, false);
	return err < 0 ? err : 0;
}

bool other_nodes_may_change(struct fs *fs)
{
	return fs->engine->units && accord_may_meet_others(fs->engine->units);
}

int other_nodes_follow(struct fs *fs, const struct caller *c, struct node *dir, const char *name)
{
	struct backing b = fs_for(fs, c);
	struct checkpoint *cp;
	char rel[PATH_MAX];
	struct node_fd at;
	int err = 0;

	if (!fs->engine->units || !accord_has_others(fs->engine->units) || name_is_reserved(name))
		return 0;
	cp = tree_checkpoint(fs->tree, dir, NULL, rel, sizeof(rel));
	if (cp && accord_may_have_company(cp) && checkpoint_is_pending(cp)) {
		err = tree_fd(fs->tree, &b, dir, &at);
		if (!err) {
			err = accord_follow_name(cp, at.fd, name);
			tree_fd_put(fs->tree, &at);
		}
	}
	checkpoint_put(cp);
	return err;
}

int other_nodes_await(struct fs *fs, const struct caller *c, struct node *n)
{
	struct backing b = fs_for(fs, c);
	struct inode_id id = node_inode(n);
	struct checkpoint *cp;
	struct node_fd nf;
	char rel[PATH_MAX];
	int err = 0;

	if (!accord_has_others(fs->engine->units))
		return 0;
	cp = tree_checkpoint(fs->tree, n, NULL, rel, sizeof(rel));
	if (cp && accord_is_elsewhere(cp, &id)) {
		err = tree_fd(fs->tree, &b, n, &nf);
		if (!err) {
			err = accord_await_file(cp, &id, rel, nf.fd);
			tree_fd_put(fs->tree, &nf);
		}
	}
	checkpoint_put(cp);
	return err;
}
