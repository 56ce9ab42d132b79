/* SPDX-License-Identifier: MIT */
#include "fs/in_checkpoint.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"
#include "engine/calls/directory.h"
#include "engine/calls/file.h"
#include "engine/cluster/other_nodes.h"
#include "engine/content/content.h"
#include "engine/format/commit.h"
#include "engine/journal/journal.h"
#include "engine/liveness/job.h"
#include "engine/names/names.h"
#include "engine/rule/rule.h"
#include "fs/has_commit_file.h"

void in_checkpoint_leave(struct in_checkpoint *in)
{
	if (!in->checkpoint)
		return;
	checkpoint_leave(in->checkpoint);
	process_put(in->process);
	checkpoint_put(in->checkpoint);
	in->checkpoint = NULL;
}

#define CHAIN_MAX 64

/* A directory above a name, and its place. */
struct link {
	struct node *node; /* referenced */
	struct node *dir;  /* referenced: its parent */
	char name[NAME_MAX + 1];
};

/* Lists @dir and the directories above it, without the top of the backing. Returns their number. */
static size_t chain_of(struct fs *fs, struct node *dir, struct link chain[CHAIN_MAX])
{
	struct node *n = dir, *above;
	size_t nr = 0;

	while (nr < CHAIN_MAX && n->id != NODE_ROOT &&
	       tree_place(fs->tree, n, &above, chain[nr].name)) {
		chain[nr].node = n;
		chain[nr].dir = above;
		n = above;
		nr++;
	}
	return nr;
}

static void chain_put(struct fs *fs, struct link *chain, size_t nr)
{
	while (nr--)
		node_put(fs->tree, chain[nr].dir);
}

/* True if @n is a directory with a commit file; fills @stx. */
static bool is_unit_at(struct backing *b, const struct entry_name *n, struct statx *stx)
{
	struct statx file;
	int pin = backing_pin(b, n->at, n->name);
	bool is;

	if (pin < 0)
		return false;
	is = !backing_stat(b, pin, stx) && S_ISDIR(stx->stx_mode) &&
	     !backing_stat_at(b, pin, COMMIT_FILE, &file);
	close(pin);
	return is;
}

struct beside {
	struct fs *fs;
	const struct caller *c;
	struct node *dir;
};

static bool is_beside(void *beside, const char *name)
{
	struct beside *b = beside;
	struct backing back = fs_for(b->fs, b->c);
	struct inode_id dir = node_inode(b->dir);
	struct node_fd at;
	struct statx stx;
	bool is;

	if (tree_fd(b->fs->tree, &back, b->dir, &at))
		return false;
	is = !backing_stat_at(&back, at.fd, name, &stx);
	tree_fd_put(b->fs->tree, &at);
	return is || names_look_saved(b->fs->engine->units, &dir, name, 0, NULL);
}

/* True if a file at @rel in the directory @l shows that directory to be a unit. */
static bool is_claimed(struct fs *fs, const struct caller *c, struct link *l, const char *rel)
{
	struct beside beside = {fs, c, l->dir};
	char path[PATH_MAX];

	tree_path(fs->tree, l->node->id, NULL, path, sizeof(path));
	return rules_claim(fs->engine->rules, path, rel, is_beside, &beside);
}

/* @rel: the path of @name, in the directory chain[0], from chain[i] on. False: too long. */
static bool rel_from(const struct link *chain, size_t i, const char *name, char *rel, size_t size)
{
	size_t len = 0;

	rel[0] = '\0';
	while (i-- > 0)
		len += (size_t)snprintf(rel + len, len < size ? size - len : 0, "%s/",
					chain[i].name);
	len += (size_t)snprintf(rel + len, len < size ? size - len : 0, "%s", name);
	return len < size;
}

/* Has @p join @cp for a change at @rel; if the change opens the file, @cp expects that open. */
static int join_change(struct checkpoint *cp, const struct caller *c, struct process *p,
		       const char *rel, struct change change)
{
	int err = checkpoint_enter(cp, p);

	if (err)
		return err;
	err = checkpoint_claim(cp, rel, p);
	if (!err)
		err = checkpoint_join(cp, p);
	if (!err && change.opens)
		err = checkpoint_expect(cp, c, p->rank, rel, change.empties);
	checkpoint_leave(cp);
	return err;
}

/*
 * Begins the generation that changes the directory @l, or finds the one that another process has
 * just begun. @committed: what has_commit_file returned. -ESTALE: its name leads to it.
 */
static int begin_change_of(struct fs *fs, const struct caller *c, struct link *l, int committed,
			   const char *rel, struct change change)
{
	struct backing b = fs_for(fs, c);
	struct units *us = fs->engine->units;
	struct place at = {.id = node_inode(l->dir), .name = l->name};
	struct process *p = units_process(us, c);
	struct checkpoint *cp = NULL;
	struct node_fd nf;
	bool begun = false;
	int err = p ? tree_fd(fs->tree, &b, l->dir, &nf) : -ENOMEM;

	if (!err) {
		at.dir = nf.fd;
		cp = names_checkpoint(us, &at.id, l->name);
		if (!cp && committed >= 0) {
			err = checkpoint_inherit(us, c, p, &at, committed, &cp);
			begun = cp;
		}
		/* A network filesystem may tell in these ways that another node just removed it. */
		if (err == -EEXIST || err == -ENOENT || err == -ESTALE) {
			cp = names_checkpoint(us, &at.id, l->name);
			err = !cp && accord_is_for(us, p) ? accord_find(us, c, NULL, &at, true, &cp)
							  : 0;
		}
		tree_fd_put(fs->tree, &nf);
	}
	if (!err && cp)
		err = join_change(cp, c, p, rel, change);
	if (begun)
		checkpoint_leave(cp);
	checkpoint_put(cp);
	process_put(p);
	return !err || err == -EEXIST ? -ESTALE : err;
}

int in_checkpoint_begin_change(struct fs *fs, const struct caller *c, struct node *dir,
			       const char *name, struct change change)
{
	struct link *chain = malloc(CHAIN_MAX * sizeof(*chain));
	char *rel = malloc(PATH_MAX);
	size_t nr = chain && rel ? chain_of(fs, dir, chain) : 0, i;
	int err = chain && rel ? 0 : -ENOMEM;

	for (i = nr; !err && i-- > 0;) {
		int committed = has_commit_file(fs, c, chain[i].node);

		/* -EINPROGRESS: another process was quicker since in_checkpoint_enter. */
		err = committed < 0 && committed != -EINPROGRESS ? committed : 0;
		if (err || !rel_from(chain, i, name, rel, PATH_MAX))
			break;
		if (committed || (change.makes_file && is_claimed(fs, c, &chain[i], rel)))
			err = begin_change_of(fs, c, &chain[i], committed, rel, change);
	}
	if (chain)
		chain_put(fs, chain, nr);
	free(chain);
	free(rel);
	return err;
}

/* Begins a change at @rel to the directory that has the name of @l now. -ESTALE: no unit. */
static int begin_instead_of(struct fs *fs, const struct caller *c, struct link *l, const char *rel,
			    struct change change)
{
	struct backing b = fs_for(fs, c);
	struct entry_name n = {.dir = l->dir, .name = l->name};
	struct node_fd at;
	struct statx stx;
	bool there, committed;
	int err = tree_fd(fs->tree, &b, l->dir, &at);

	if (err)
		return err;
	n.at = at.fd;
	there = !route_look_behind(fs, c, &n, &stx);
	committed = there && is_unit_at(&b, &n, &stx);
	tree_fd_put(fs->tree, &at);
	if (!committed && !(there && change.makes_file && is_claimed(fs, c, l, rel)))
		return -ESTALE;
	return begin_change_of(fs, c, l, committed, rel, change);
}

/*
 * The checkpoint of @in, which contains @dir, was left by another job and is gone. Changes what has
 * its name again instead.
 */
static int begin_anew(struct fs *fs, const struct caller *c, struct node *dir,
		      const struct in_checkpoint *in, struct change change)
{
	struct link *chain = malloc(CHAIN_MAX * sizeof(*chain));
	size_t nr = chain ? chain_of(fs, dir, chain) : 0, i;
	int err = chain ? -ESTALE : -ENOMEM;

	for (i = 0; err == -ESTALE && i < nr; i++) {
		struct inode_id id = node_inode(chain[i].node);

		if (!same_inode(&id, checkpoint_id(in->checkpoint)))
			continue;
		err = begin_instead_of(fs, c, &chain[i], in->rel, change);
		break;
	}
	if (chain)
		chain_put(fs, chain, nr);
	free(chain);
	return err;
}

int in_checkpoint_enter(struct fs *fs, const struct caller *c, struct node *dir, const char *name,
			struct change change, struct in_checkpoint *in)
{
	int err;

	in->checkpoint = tree_checkpoint(fs->tree, dir, name, in->rel, sizeof(in->rel));
	if (!in->checkpoint)
		return 0;
	in->process = units_process(fs->engine->units, c);
	err = in->process ? checkpoint_enter(in->checkpoint, in->process) : -ENOMEM;
	/* A rank has a part in everything that it changes. */
	if (!err && in->process->rank >= 0) {
		err = checkpoint_join(in->checkpoint, in->process);
		if (err)
			checkpoint_leave(in->checkpoint);
	}
	if (!err)
		return 1;
	if (err == -ESTALE && !change.removes)
		err = begin_anew(fs, c, dir, in, change);
	process_put(in->process);
	checkpoint_put(in->checkpoint);
	in->checkpoint = NULL;
	/* Committed meanwhile: a removal has to look the name up in the committed unit. */
	if (err == -EEXIST)
		err = change.removes ? -ESTALE : 0;
	return err;
}

/* @u: the unit, whose name @n is if @top, else the one that contains @n. 1: noted, or -errno. */
static int note_removal(struct fs *fs, const struct caller *c, struct process *p,
			const struct unit_place *u, const struct entry_name *n, bool directory,
			bool top)
{
	struct backing b = fs_for(fs, c);
	struct place at = place_of(n);
	struct statx stx;
	int err = route_look_behind(fs, c, n, &stx);

	if (err)
		return err;
	if (S_ISDIR(stx.stx_mode) != directory)
		return directory ? -ENOTDIR : -EISDIR;
	err = directory ? names_check_empty(fs->engine->units, &b, &at) : 0;
	if (!err)
		err = removal_note(fs->engine->units, c, p, u, &at.id, n->name);
	if (!err && top)
		removal_complete(fs->engine->units, p, u);
	return err ? err : 1;
}

int in_checkpoint_remove_later(struct fs *fs, const struct caller *c, const struct entry_name *n,
			       bool directory)
{
	struct backing b = fs_for(fs, c);
	struct link *chain = malloc(CHAIN_MAX * sizeof(*chain));
	size_t nr = chain ? chain_of(fs, n->dir, chain) : 0, i;
	struct unit_place u = {.name = NULL};
	struct process *p = NULL;
	struct node_fd at = {.node = NULL};
	struct statx stx;
	bool top = false;
	int err = chain ? 0 : -ENOMEM;

	for (i = nr; !err && !u.name && i-- > 0;) {
		int committed = has_commit_file(fs, c, chain[i].node);

		err = committed == -EINPROGRESS ? -ESTALE : committed < 0 ? committed : 0;
		if (committed > 0)
			u = (struct unit_place){.dir_id = node_inode(chain[i].dir),
						.id = node_inode(chain[i].node),
						.name = chain[i].name};
	}
	if (u.name) {
		err = tree_fd(fs->tree, &b, chain[i].dir, &at);
		u.dir = at.fd;
	} else if (!err && directory && is_unit_at(&b, n, &stx)) {
		top = true;
		u = (struct unit_place){.dir = n->at,
					.dir_id = node_inode(n->dir),
					.id = inode_id_of(&stx),
					.name = n->name};
	}
	if (!err && u.name) {
		p = units_process(fs->engine->units, c);
		err = p ? note_removal(fs, c, p, &u, n, directory, top) : -ENOMEM;
	}
	if (at.node)
		tree_fd_put(fs->tree, &at);
	process_put(p);
	if (chain)
		chain_put(fs, chain, nr);
	free(chain);
	return err;
}

int in_checkpoint_is_committed(struct fs *fs, const struct caller *c, struct node *dir)
{
	struct link *chain = malloc(CHAIN_MAX * sizeof(*chain));
	size_t nr = chain ? chain_of(fs, dir, chain) : 0, i;
	int is = chain ? 0 : -ENOMEM;

	for (i = 0; !is && i < nr; i++)
		is = has_commit_file(fs, c, chain[i].node);
	is = is == -EINPROGRESS ? -ESTALE : is;
	if (chain)
		chain_put(fs, chain, nr);
	free(chain);
	return is;
}

/* --- names that go --- */

struct generation *in_checkpoint_written_at(struct fs *fs, const struct caller *c,
					    const struct entry_name *n)
{
	struct backing b = fs_for(fs, c);
	struct inode_id id;
	struct statx stx;

	if (backing_stat_at(&b, n->at, n->name, &stx))
		return NULL;
	id = inode_id_of(&stx);
	return units_find_inode(fs->engine->units, &id);
}

int in_checkpoint_take_away(struct fs *fs, const struct caller *c, const struct entry_name *n,
			    int (*now)(void *arg), void *arg)
{
	struct generation *g = in_checkpoint_written_at(fs, c, n);
	int err = g ? generation_unlink(g, now, arg) : -EEXIST;

	generation_put(g);
	return err == -EEXIST ? now(arg) : err;
}

struct unlinking {
	struct backing *b;
	const struct entry_name *name;
};

static int unlink_now(void *arg)
{
	const struct unlinking *u = arg;

	return backing_unlink(u->b, u->name->at, u->name->name, false);
}

int in_checkpoint_unlink(struct fs *fs, const struct caller *c, struct in_checkpoint *in,
			 const struct entry_name *n)
{
	struct backing b = fs_as(fs, c);
	struct unlinking k = {&b, n};
	int err = in_checkpoint_take_away(fs, c, n, unlink_now, &k);

	if (!err)
		checkpoint_note(in->checkpoint, EVIDENCE_UNLINK, in->rel, in->process->rank);
	return err;
}
