/* SPDX-License-Identifier: MIT */
#include "fs/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "fs/no_unit.h"

void inside_leave(struct inside *in)
{
	if (!in->checkpoint)
		return;
	checkpoint_leave(in->checkpoint);
	process_put(in->process);
	checkpoint_put(in->checkpoint);
	in->checkpoint = NULL;
}

/* --- changes to what is a unit already, or is shown to be one --- */

#define CHAIN_MAX 64

/* A directory above a name, and where that is. */
struct link {
	struct node *node; /* referenced */
	struct node *dir;  /* referenced: the one that it is in */
	char name[NAME_MAX + 1];
};

/* The directories above, innermost first, that are not the top of the backing. Their number. */
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

/* Is @n a directory with a commit file? @stx: what it is. */
static bool is_unit_at(struct fs *fs, const struct save_name *n, struct statx *stx)
{
	struct backing *b = &fs->engine->backing;
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
	struct node *dir;
};

static bool is_beside(void *beside, const char *name)
{
	struct beside *b = beside;
	struct node_fd at;
	struct statx stx;
	bool is;

	if (tree_fd(b->fs->tree, b->dir, &at))
		return false;
	is = !backing_stat_at(&b->fs->engine->backing, at.fd, name, &stx);
	tree_fd_put(b->fs->tree, &at);
	return is || save_has_name(b->fs, b->dir, name);
}

/* Does a file at @rel in the directory @l show it to be a unit? */
static bool is_claimed(struct fs *fs, struct link *l, const char *rel)
{
	struct beside beside = {fs, l->dir};
	char path[PATH_MAX];

	tree_path(fs->tree, l->node->id, NULL, path, sizeof(path));
	return rules_claim(fs->engine->rules, path, rel, is_beside, &beside);
}

/* The path of @name in the directory chain[0], from chain[i] on. */
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

/* The change to the directory @l that @rel, which is @opened, is a part of. */
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
 * Begins the generation that changes the directory @l, or finds the one that somebody else began just
 * now. @committed: as has_commit_file says. -ESTALE: it is found by its name.
 */
static int begin_change_of(struct fs *fs, const struct caller *c, struct link *l, int committed,
			   const char *rel, struct change change)
{
	struct units *us = fs->engine->units;
	struct inode_id dir_id = node_inode(l->dir);
	struct process *p = units_process(us, c);
	struct checkpoint *cp = NULL;
	struct node_fd at;
	int err = p ? tree_fd(fs->tree, l->dir, &at) : -ENOMEM;

	if (!err) {
		cp = checkpoints_find(us, &dir_id, l->name);
		if (!cp && committed >= 0)
			err = checkpoint_inherit(us, c, p, &(struct place){at.fd, dir_id, l->name},
						 committed, &cp);
		/* A network filesystem tells so, too, that another node has just removed it. */
		if (err == -EEXIST || err == -ENOENT || err == -ESTALE) {
			cp = checkpoints_find(us, &dir_id, l->name);
			err = !cp && accord_is_for(us, p)
				      ? accord_find(us, c, NULL,
						    &(struct place){at.fd, dir_id, l->name}, true,
						    &cp)
				      : 0;
		}
		tree_fd_put(fs->tree, &at);
	}
	if (!err && cp)
		err = join_change(cp, c, p, rel, change);
	checkpoint_put(cp);
	process_put(p);
	return !err || err == -EEXIST ? -ESTALE : err;
}

int inside_begin(struct fs *fs, const struct caller *c, struct node *dir, const char *name,
		 struct change change)
{
	struct link *chain = malloc(CHAIN_MAX * sizeof(*chain));
	char *rel = malloc(PATH_MAX);
	size_t nr = chain && rel ? chain_of(fs, dir, chain) : 0, i;
	int err = chain && rel ? 0 : -ENOMEM;

	creds_restore();
	for (i = nr; !err && i-- > 0;) {
		int committed = has_commit_file(fs, chain[i].node);

		/* In progress: since inside_enter somebody else was quicker. */
		err = committed < 0 && committed != -EINPROGRESS ? committed : 0;
		if (err || !rel_from(chain, i, name, rel, PATH_MAX))
			break;
		if (committed || (change.makes_file && is_claimed(fs, &chain[i], rel)))
			err = begin_change_of(fs, c, &chain[i], committed, rel, change);
	}
	if (chain)
		chain_put(fs, chain, nr);
	free(chain);
	free(rel);
	return err;
}

/* Begins the change to the directory @l, in which @rel is, if that is what is there now. */
static int begin_instead_of(struct fs *fs, const struct caller *c, struct link *l, const char *rel,
			    struct change change)
{
	struct inode_id dir = node_inode(l->dir);
	struct node_fd at;
	struct statx stx;
	bool hidden = removals_hide(fs->engine->units, &dir, l->name), there, committed = false;
	int err = tree_fd(fs->tree, l->dir, &at);

	if (err)
		return err;
	there = !backing_stat_at(&fs->engine->backing, at.fd, l->name, &stx) && !hidden;
	if (there)
		committed = is_unit_at(fs, &(struct save_name){.at = at.fd, .name = l->name}, &stx);
	tree_fd_put(fs->tree, &at);
	if (!committed && !(there && change.makes_file && is_claimed(fs, l, rel)))
		return -ESTALE;
	return begin_change_of(fs, c, l, committed, rel, change);
}

/* @in, in which @dir is, was left by another job, and is no more. What is below its name again is changed instead. */
static int begin_anew(struct fs *fs, const struct caller *c, struct node *dir,
		      const struct inside *in, struct change change)
{
	struct link *chain = malloc(CHAIN_MAX * sizeof(*chain));
	size_t nr = chain ? chain_of(fs, dir, chain) : 0, i;
	int err = chain ? -ESTALE : -ENOMEM;

	creds_restore();
	for (i = 0; err == -ESTALE && i < nr; i++) {
		struct inode_id id = node_inode(chain[i].node);

		if (!same_inode(&id, &in->checkpoint->id))
			continue;
		err = begin_instead_of(fs, c, &chain[i], in->rel, change);
		break;
	}
	if (chain)
		chain_put(fs, chain, nr);
	free(chain);
	return err;
}

int inside_enter(struct fs *fs, const struct caller *c, struct node *dir, const char *name,
		 struct change change, struct inside *in)
{
	int err;

	in->checkpoint = tree_checkpoint(fs->tree, dir, name, in->rel, sizeof(in->rel));
	if (!in->checkpoint)
		return 0;
	in->process = units_process(fs->engine->units, c);
	err = in->process ? checkpoint_enter(in->checkpoint, in->process) : -ENOMEM;
	/* A rank has a part in what it changes in any way. */
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
	/* Committed meanwhile: what is removed is to be looked up in that. */
	if (err == -EEXIST)
		err = change.removes ? -ESTALE : 0;
	return err;
}

/* Is there nothing in the directory @name of @at that was not removed? 0, -ENOTEMPTY, -errno. */
static int check_empty(struct fs *fs, int at, const char *name, struct inode_id *id)
{
	struct backing *b = &fs->engine->backing;
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;
	__cleanup_fd int pin = backing_pin(b, at, name);
	struct statx stx;
	int err;

	if (pin < 0)
		return pin;
	err = backing_stat(b, pin, &stx);
	if (err)
		return err;
	*id = inode_id_of(&stx);
	dirwalk_begin(&w, b, pin);
	return removals_next_seen(fs->engine->units, id, &w) ? -ENOTEMPTY : w.err;
}

/* @u: the unit itself if @n is its name, else that which it is in. */
static int note_removal(struct fs *fs, const struct caller *c, struct process *p,
			const struct unit_place *u, const struct save_name *n, bool directory,
			bool top)
{
	struct inode_id dir = node_inode(n->dir), id;
	bool hidden = removals_hide(fs->engine->units, &dir, n->name);
	struct statx stx;
	int err = backing_stat_at(&fs->engine->backing, n->at, n->name, &stx);

	if (err || hidden)
		return err ? err : -ENOENT;
	if (S_ISDIR(stx.stx_mode) != directory)
		return directory ? -ENOTDIR : -EISDIR;
	err = directory ? check_empty(fs, n->at, n->name, &id) : 0;
	if (!err)
		err = removal_note(fs->engine->units, c, p, u, &dir, n->name);
	if (!err && top)
		removal_complete(fs->engine->units, p, u);
	return err ? err : 1;
}

int inside_remove_later(struct fs *fs, const struct caller *c, const struct save_name *n,
			bool directory)
{
	struct link *chain = malloc(CHAIN_MAX * sizeof(*chain));
	size_t nr = chain ? chain_of(fs, n->dir, chain) : 0, i;
	struct unit_place u = {.name = NULL};
	struct process *p = NULL;
	struct node_fd at = {.node = NULL};
	struct statx stx;
	bool top = false;
	int err = chain ? 0 : -ENOMEM;

	creds_restore();
	for (i = nr; !err && !u.name && i-- > 0;) {
		int committed = has_commit_file(fs, chain[i].node);

		err = committed == -EINPROGRESS ? -ESTALE : committed < 0 ? committed : 0;
		if (committed > 0)
			u = (struct unit_place){.dir_id = node_inode(chain[i].dir),
						.id = node_inode(chain[i].node),
						.name = chain[i].name};
	}
	if (u.name) {
		err = tree_fd(fs->tree, chain[i].dir, &at);
		u.dir = at.fd;
	} else if (!err && directory && is_unit_at(fs, n, &stx)) {
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

/*
 * Somebody has just made it: the kernel opens that instead, but tries only once more. So what another node has made becomes
 * this one's own now.
 */
static int open_instead(struct fs *fs, const struct caller *c, struct inside *in, int at,
			const char *name, int flags)
{
	struct inode_id id;
	struct statx stx;
	int err = backing_stat_at(&fs->engine->backing, at, name, &stx);

	if (flags & O_EXCL)
		return -EEXIST;
	id = inode_id_of(&stx);
	if (!err && S_ISREG(stx.stx_mode) && accord_is_elsewhere(in->checkpoint, &id))
		err = checkpoint_expect(in->checkpoint, c, in->process->rank, in->rel,
					flags & O_TRUNC);
	return !err || err == -ENOENT ? -ESTALE : err;
}

int inside_create(struct fs *fs, const struct caller *c, struct inside *in, struct node *dir,
		  int at, const char *name, mode_t mode, int flags, struct generation **g)
{
	struct backing *b = &fs->engine->backing;
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
	if (flags & O_EXCL && !rules_tells_nothing(name))
		checkpoint_copied_by(in->checkpoint, in->process);
	err = backing_stat_at(b, at, name, &stx);
	if (!err)
		return open_instead(fs, c, in, at, name, flags);
	if (err == -ENOENT)
		err = change_from_nothing(in->checkpoint, in->process, in->rel);
	if (err)
		return err;
	fd = WITH_ROOM(fs->engine->units, c, &in->checkpoint->id,
		       AS_CALLER(c, backing_create(b, at, name, O_RDWR | O_EXCL, mode, &created)));
	creds_restore();
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

/* One of its files is emptied, which may show what it is, too. */
static int write_anew(struct inside *in)
{
	int err = in->checkpoint->follows ? checkpoint_claim(in->checkpoint, in->rel, in->process)
					  : 0;

	return err ? err : change_from_nothing(in->checkpoint, in->process, in->rel);
}

/* Begins to write to a file of it that is closed and durable, in its place. */
static int begin_again(struct fs *fs, const struct caller *c, struct inside *in, struct node *n,
		       struct generation **g)
{
	struct node *dir = NULL;
	struct inode_id dir_id;
	char name[NAME_MAX + 1];
	struct node_fd nf;
	int fd, err;

	if (!tree_place(fs->tree, n, &dir, name))
		return -ESTALE;
	dir_id = node_inode(dir);
	node_put(fs->tree, dir);
	err = AS_CALLER(c, tree_fd(fs->tree, n, &nf));
	if (err)
		return err;
	creds_restore(); /* the kernel has asked whether the caller may */
	fd = backing_reopen(&fs->engine->backing, nf.fd, O_RDWR);
	tree_fd_put(fs->tree, &nf);
	if (fd < 0)
		return fd;
	return generation_begin_in(in->checkpoint, c, in->process->rank, &dir_id, name, in->rel, fd,
				   true, g);
}

/* Is @n what its name stands for, or without any name? */
static bool is_current(struct fs *fs, struct node *n, const struct inode_id *id)
{
	struct backing *b = &fs->engine->backing;
	struct node *dir = NULL;
	char name[NAME_MAX + 1];
	struct inode_id found = {0};
	struct node_fd at;
	struct statx stx;
	int err = tree_fd(fs->tree, n, &at);

	if (!err) {
		err = backing_stat(b, at.fd, &stx);
		tree_fd_put(fs->tree, &at);
	}
	if (err || !stx.stx_nlink)
		return !err;
	if (!tree_place(fs->tree, n, &dir, name))
		return false;
	err = tree_fd(fs->tree, dir, &at);
	if (!err) {
		err = backing_stat_at(b, at.fd, name, &stx);
		tree_fd_put(fs->tree, &at);
	}
	node_put(fs->tree, dir);
	if (!err)
		found = inode_id_of(&stx);
	return !err && same_inode(&found, id);
}

/* -ESTALE: its name has another inode now, and the checkpoint waits for the open of that. */
static int make_own(struct fs *fs, const struct caller *c, struct inside *in, struct node *n,
		    bool empty)
{
	struct inode_id id = node_inode(n);
	int err;

	if (!accord_is_elsewhere(in->checkpoint, &id) &&
	    (!in->checkpoint->inherits ||
	     (!checkpoint_shares(in->checkpoint, &id) && is_current(fs, n, &id))))
		return 0;
	err = checkpoint_expect(in->checkpoint, c, in->process->rank, in->rel, empty);
	return err ? err : -ESTALE;
}

int inside_open(struct fs *fs, const struct caller *c, struct inside *in, struct node *n, int flags,
		struct generation **g)
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
				err = save_cut(*g);
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

struct call {
	struct fs *fs;
	const struct caller *c;
	const struct save_name *from, *to;
	unsigned flags;
};

static int unlink_now(void *call)
{
	struct call *k = call;

	return AS_CALLER(
		k->c, backing_unlink(&k->fs->engine->backing, k->from->at, k->from->name, false));
}

static int rename_now(void *call)
{
	struct call *k = call;

	return AS_CALLER(k->c, backing_rename(&k->fs->engine->backing, k->from->at, k->from->name,
					      k->to->at, k->to->name, k->flags));
}

/* What is being written under a name of the backing, referenced, or NULL. */
static struct generation *written_at(struct fs *fs, const struct save_name *n)
{
	struct inode_id id;
	struct statx stx;

	if (backing_stat_at(&fs->engine->backing, n->at, n->name, &stx))
		return NULL;
	id = inode_id_of(&stx);
	return units_find_inode(fs->engine->units, &id);
}

/* @now, which takes the name @n away from what has it. */
static int take_away(struct fs *fs, const struct save_name *n, int (*now)(void *call),
		     struct call *call)
{
	struct generation *g = written_at(fs, n);
	int err = g ? generation_unlink(g, now, call) : -EEXIST;

	generation_put(g);
	return err == -EEXIST ? now(call) : err;
}

int inside_unlink(struct fs *fs, const struct caller *c, struct inside *in,
		  const struct save_name *n)
{
	struct call call = {.fs = fs, .c = c, .from = n};
	int err = take_away(fs, n, unlink_now, &call);

	if (!err)
		checkpoint_note(in->checkpoint, EVIDENCE_UNLINK, in->rel, in->process->rank);
	return err;
}

/* A file's new name may be the first to tell what the checkpoint is. -EEXIST: an ordinary directory now. */
static int claim_by_rename(struct fs *fs, struct inside *in, const struct save_name *from)
{
	struct statx stx;

	if (backing_stat_at(&fs->engine->backing, from->at, from->name, &stx) ||
	    !S_ISREG(stx.stx_mode))
		return 0;
	return checkpoint_claim(in->checkpoint, in->rel, in->process);
}

/*
 * What copies, or moves, does not mean by a rename what the framework does. Where rsync keeps what is whole
 * already, aside, it has its name there.
 */
static bool is_copied(const struct save_name *from, const struct save_name *to)
{
	return rules_is_copy(from->name, to->name) || !strcmp(from->name, to->name);
}

/* Both names are in one checkpoint, which was entered by @to. */
static int rename_within(struct fs *fs, struct inside *to_in, const char *from_rel,
			 struct call *call)
{
	const struct save_name *from = call->from, *to = call->to;
	struct generation *g = written_at(fs, from);
	struct inode_id dir = node_inode(to->dir);
	int err = call->flags & RENAME_EXCHANGE ? 0 : claim_by_rename(fs, to_in, from);

	if (!err)
		err = change_from_nothing(to_in->checkpoint, to_in->process, to_in->rel);
	if (!err)
		err = call->flags & RENAME_EXCHANGE ? rename_now(call)
						    : take_away(fs, to, rename_now, call);
	if (!err && g)
		generation_moved_in(g, &dir, to->name, to_in->rel);
	generation_put(g);
	if (err)
		return err == -EEXIST && !(call->flags & RENAME_NOREPLACE) ? -ENOTSUP : err;
	tree_moved(fs->tree, to->dir, to->name);
	if (call->flags & RENAME_EXCHANGE)
		tree_moved(fs->tree, from->dir, from->name);
	else
		checkpoint_vanished(to_in->checkpoint, from_rel);
	checkpoint_note(to_in->checkpoint, is_copied(from, to) ? EVIDENCE_CLOSE : EVIDENCE_RENAME,
			to_in->rel, to_in->process->rank);
	return 0;
}

/* 1: the directory is in a committed one, or is that; 0, -errno. */
static int is_in_committed(struct fs *fs, struct node *dir)
{
	struct link *chain = malloc(CHAIN_MAX * sizeof(*chain));
	size_t nr = chain ? chain_of(fs, dir, chain) : 0, i;
	int is = chain ? 0 : -ENOMEM;

	creds_restore();
	for (i = 0; !is && i < nr; i++)
		is = has_commit_file(fs, chain[i].node);
	is = is == -EINPROGRESS ? -ESTALE : is;
	if (chain)
		chain_put(fs, chain, nr);
	free(chain);
	return is;
}

/*
 * Neither name is in a checkpoint that is being written. What is in a committed one is copied from there, and what
 * gets a name in one is a change to that.
 */
static int rename_committed(struct fs *fs, const struct caller *c, struct call *call)
{
	int err = inside_begin(fs, c, call->to->dir, call->to->name, (struct change){0});

	if (!err)
		err = is_in_committed(fs, call->from->dir);
	if (err > 0)
		return -EXDEV;
	return err ? err : -ENOTSUP;
}

/* Something from elsewhere becomes a part of a checkpoint. */
static int rename_into(struct fs *fs, struct inside *in, struct call *call)
{
	struct inode_id from_dir = node_inode(call->from->dir);
	struct generation *g = units_find(fs->engine->units, &from_dir, call->from->name);
	int err = g && generation_is_open(g) ? 1 : is_in_committed(fs, call->from->dir);

	generation_put(g);
	if (err > 0)
		err = -EXDEV; /* it is copied, then; when it is closed */
	if (!err && call->flags & RENAME_EXCHANGE)
		err = -EXDEV;
	if (!err)
		err = units_settle_name(fs->engine->units, &from_dir, call->from->name);
	if (!err)
		err = save_data_first(fs, call->from);
	if (!err)
		err = checkpoint_claim(in->checkpoint, in->rel, in->process);
	if (!err)
		err = checkpoint_join(in->checkpoint, in->process);
	if (!err)
		err = change_from_nothing(in->checkpoint, in->process, in->rel);
	if (!err)
		err = take_away(fs, call->to, rename_now, call);
	if (err)
		return err == -EEXIST ? -ENOTSUP : err;
	tree_moved(fs->tree, call->to->dir, call->to->name);
	checkpoint_note(in->checkpoint, EVIDENCE_CLOSE, in->rel, in->process->rank);
	if (!is_copied(call->from, call->to))
		checkpoint_note(in->checkpoint, EVIDENCE_RENAME, in->rel, in->process->rank);
	return 0;
}

/* What has the new name of a checkpoint gives way only if it is an empty directory. */
static int make_way(struct fs *fs, const struct caller *c, const struct save_name *to,
		    unsigned flags)
{
	struct inode_id dir = node_inode(to->dir);
	struct checkpoint *there = checkpoints_find(fs->engine->units, &dir, to->name);
	struct statx stx;
	bool hidden;
	int err;

	if (there) {
		err = flags & RENAME_NOREPLACE ? -EEXIST : checkpoint_remove(there, c);
		checkpoint_put(there);
		if (err && (err != -EEXIST || flags & RENAME_NOREPLACE))
			return err; /* else it was just committed: it is looked at there */
	}
	if (save_has_name(fs, to->dir, to->name))
		return -ENOTDIR;
	hidden = removals_hide(fs->engine->units, &dir, to->name);
	err = backing_stat_at(&fs->engine->backing, to->at, to->name, &stx);
	if (err || hidden)
		return err == -ENOENT ? 0 : err;
	if (flags & RENAME_NOREPLACE)
		return -EEXIST;
	if (!S_ISDIR(stx.stx_mode))
		return -ENOTDIR;
	return save_rmdir(fs, c, to);
}

/* A checkpoint gets another name. */
static int rename_checkpoint(struct fs *fs, const struct caller *c, struct checkpoint *cp,
			     const struct save_name *to, unsigned flags)
{
	struct inode_id dir = node_inode(to->dir);
	struct checkpoint *other;
	char rel[PATH_MAX];
	int err;

	if (flags & ~RENAME_NOREPLACE)
		return -EINVAL;
	other = tree_checkpoint(fs->tree, to->dir, NULL, rel, sizeof(rel));
	checkpoint_put(other);
	if (other)
		return other == cp ? -EINVAL : -EXDEV;
	err = make_way(fs, c, to, flags);
	if (!err)
		err = checkpoint_rename(cp, &(struct place){to->at, dir, to->name});
	if (!err)
		tree_placed(fs->tree, &cp->id, to->dir, to->name);
	return err == -EEXIST && !(flags & RENAME_NOREPLACE) ? -ENOTSUP : err;
}

/* What is no checkpoint itself gets the name of one: only an empty directory may go that way. */
static int over_checkpoint(struct fs *fs, const struct caller *c, const struct save_name *from,
			   const struct save_name *to, unsigned flags)
{
	struct inode_id dir = node_inode(to->dir);
	struct checkpoint *there = checkpoints_find(fs->engine->units, &dir, to->name);
	struct statx stx;

	checkpoint_put(there);
	if (!there)
		return 0;
	if (flags & RENAME_NOREPLACE)
		return -EEXIST;
	if (flags || backing_stat_at(&fs->engine->backing, from->at, from->name, &stx) ||
	    !S_ISDIR(stx.stx_mode))
		return -EISDIR;
	return make_way(fs, c, to, flags);
}

int inside_rename(struct fs *fs, const struct caller *c, const struct save_name *from,
		  const struct save_name *to, unsigned flags)
{
	struct call call = {.fs = fs, .c = c, .from = from, .to = to, .flags = flags};
	struct inode_id dir = node_inode(from->dir);
	struct checkpoint *cp = checkpoints_find(fs->engine->units, &dir, from->name), *source;
	char rel[PATH_MAX];
	struct inside in;
	int err;

	if (cp) {
		err = rename_checkpoint(fs, c, cp, to, flags);
		checkpoint_put(cp);
		return err;
	}
	err = over_checkpoint(fs, c, from, to, flags);
	if (err)
		return err;
	source = tree_checkpoint(fs->tree, from->dir, from->name, rel, sizeof(rel));
	err = inside_enter(fs, c, to->dir, to->name, (struct change){0}, &in);
	if (err == 1 && source == in.checkpoint)
		err = rename_within(fs, &in, rel, &call);
	else if (err == 1 && !source)
		err = rename_into(fs, &in, &call);
	else if (err == 1 || (!err && source && checkpoint_is_pending(source)))
		err = -EXDEV;
	else if (!err)
		err = rename_committed(fs, c, &call);
	inside_leave(&in);
	checkpoint_put(source);
	return err;
}
