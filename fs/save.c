/* SPDX-License-Identifier: MIT */
#include "fs/save.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/wait.h"
#include "fs/beside.h"
#include "fs/inside.h"
#include "fs/passing.h"
#include "fs/unclaimed.h"

/* Is a file of this name published by a rename, when it is whole? */
static bool is_staged(struct fs *fs, const char *name)
{
	return rules_single(fs->engine->rules, name) || rules_is_pointer(fs->engine->rules, name);
}

/* Is it one under which nothing is meant to stay? */
static bool is_temp(struct fs *fs, const char *name)
{
	const struct rule *rule = rules_single(fs->engine->rules, name);

	return rule && rule_is_temp(rule, name);
}

static bool changes(int flags)
{
	return (flags & O_ACCMODE) != O_RDONLY || flags & O_TRUNC;
}

struct content *save_content(struct fs *fs, const struct node *n)
{
	struct inode_id id = node_inode(n);

	return fs->engine->contents ? content_find(fs->engine->contents, &id) : NULL;
}

bool save_has_name(struct fs *fs, const struct node *dir, const char *name)
{
	struct inode_id id = node_inode(dir);
	struct generation *g = fs->engine->units ? units_find(fs->engine->units, &id, name) : NULL;

	struct checkpoint *cp =
		fs->engine->units ? checkpoints_find(fs->engine->units, &id, name) : NULL;

	generation_put(g);
	checkpoint_put(cp);
	return g || cp;
}

void save_unvouched(struct fs *fs, int fd)
{
	struct backing *b = &fs->engine->backing;

	recorded_drop(b, fd);
}

/*
 * Waits until the bytes of @g, which is closed, are those of a file: then they can be copied. -EAGAIN:
 * it is being written again, or has failed.
 */
static int await_bytes(struct generation *g)
{
	int err = generation_wait(g);

	if (err)
		return err == -EINTR ? err : -EAGAIN;
	return generation_is_open(g) ? -EAGAIN : 0;
}

/* The regular file that has the name, or is held for it (held.h), open for reading; -ESTALE: there is none. */
static int open_named(struct fs *fs, const struct inode_id *dir, int at, const char *name,
		      struct statx *stx)
{
	struct backing *b = &fs->engine->backing;
	bool hidden = removals_hide(fs->engine->units, dir, name);
	int pin = hidden ? -ENOENT : backing_pin(b, at, name), fd;

	if (pin == -ENOENT)
		pin = held_pin(fs->engine->units, dir, name);
	if (pin < 0)
		return -ESTALE;
	fd = backing_stat(b, pin, stx);
	if (!fd)
		fd = S_ISREG(stx->stx_mode) ? backing_reopen(b, pin, O_RDONLY) : -ESTALE;
	close(pin);
	return fd;
}

/* Begins a generation of @name in the place of the file that has it, and expects the open of it. */
static int begin_from_file(struct fs *fs, const struct caller *c, const struct inode_id *dir,
			   int at, const char *name, bool copy)
{
	struct generation *g = NULL;
	struct statx stx;
	int fd, err = 0;

	if (!is_staged(fs, name))
		return -ESTALE; /* which the kernel finds by itself */
	creds_restore();
	fd = open_named(fs, dir, at, name, &stx);
	if (fd < 0)
		return fd;
	if (!copy || stx.stx_size <= config_number(&fs->engine->config, OPT_COW_MAX))
		err = generation_begin(fs->engine->units, c, &(struct place){at, *dir, name}, 0600,
				       fd, copy, c->pid, &g);
	generation_put(g);
	close(fd);
	return err ? err : -ESTALE;
}

/*
 * The kernel tries once more, and only once, when it gets ESTALE: whoever gets it finds, at the end of
 * a second lookup of @name, a generation that was kept open for that. Others may have made one
 * meanwhile; if that is closed already it is replaced, as if this had come a moment later. Returns
 * -ESTALE, or what went wrong.
 */
static int once_more(struct fs *fs, const struct caller *c, const struct inode_id *dir, int at,
		     const char *name, int flags)
{
	struct units *us = fs->engine->units;
	int err;

	do {
		struct generation *g = units_find(us, dir, name), *new = NULL;

		if (!g) {
			err = begin_from_file(fs, c, dir, at, name, !(flags & O_TRUNC));
		} else if (generation_expect(g, c->pid)) {
			err = -ESTALE;
		} else if (flags & O_TRUNC) {
			err = generation_begin(us, c, &(struct place){at, *dir, name}, 0600,
					       g->content->fd, false, c->pid, &new);
			err = err ? err : -ESTALE;
		} else {
			err = await_bytes(g);
			err = err ? err : -EAGAIN; /* it is a file now */
		}
		generation_put(new);
		generation_put(g);
	} while (err == -EAGAIN);
	return err;
}

/* Is @n what its name stands for, be it published or not? -ESTALE: it has been replaced. */
static int check_current(struct fs *fs, struct node *n, const struct inode_id *dir, int at,
			 const char *name)
{
	struct generation *g = units_find(fs->engine->units, dir, name);
	struct inode_id id = node_inode(n);
	struct statx stx;
	bool current;
	int err;

	if (g) {
		current = g->id.ino == id.ino && g->id.dev == id.dev;
		generation_put(g);
		return current ? 0 : -ESTALE;
	}
	err = backing_stat_at(&fs->engine->backing, at, name, &stx);
	if (err)
		return err == -ENOENT ? -ESTALE : err;
	current = inode_id_of(&stx).ino == id.ino && inode_id_of(&stx).dev == id.dev;
	return current ? 0 : -ESTALE;
}

/* Begins the generation that will replace @n, open as @fd, under @name in @dir. */
static int replace(struct fs *fs, const struct caller *c, struct node *n, int fd, struct node *dir,
		   const char *name, bool keep_bytes)
{
	struct inode_id dir_id = node_inode(dir);
	struct generation *g = NULL;
	struct node_fd at;
	int err = tree_fd(fs->tree, dir, &at);

	if (err)
		return err;
	err = check_current(fs, n, &dir_id, at.fd, name);
	if (err == -ESTALE) {
		err = once_more(fs, c, &dir_id, at.fd, name, keep_bytes ? 0 : O_TRUNC);
	} else if (!err) {
		err = generation_begin(fs->engine->units, c, &(struct place){at.fd, dir_id, name},
				       0600, fd, keep_bytes, c->pid, &g);
	}
	generation_put(g);
	tree_fd_put(fs->tree, &at);
	return err ? err : -ESTALE;
}

/* What only the cache has of @n goes to the backing, to be copied from there. */
static int write_back(struct fs *fs, struct node *n)
{
	struct content *ct = save_content(fs, n);
	int err = ct && !content_is_pending(ct) ? content_write_back(ct) : 0;

	content_put(ct);
	return err;
}

/* Before @n, perhaps pending, is changed in place. */
static int await_published(struct fs *fs, struct node *n)
{
	struct inode_id id = node_inode(n);
	struct generation *g = units_find_inode(fs->engine->units, &id);
	int err = g ? await_bytes(g) : 0;

	generation_put(g);
	return err == -EAGAIN ? -ESTALE : err;
}

/* @n is closed and will be, or has been, published; or it was there before ckptfs. */
static int open_closed(struct fs *fs, const struct caller *c, struct node *n, int flags)
{
	char name[NAME_MAX + 1];
	struct node *dir = NULL;
	struct node_fd nf;
	struct statx stx;
	int err;

	if (!tree_place(fs->tree, n, &dir, name))
		return 0;
	if (!is_staged(fs, name)) {
		node_put(fs->tree, dir);
		return await_published(fs, n);
	}
	err = AS_CALLER(c, tree_fd(fs->tree, n, &nf));
	if (!err) {
		creds_restore();
		err = write_back(fs, n);
		if (!err)
			err = backing_stat(&fs->engine->backing, nf.fd, &stx);
		if (!err && flags & O_APPEND && !(flags & O_TRUNC))
			err = -ENOTSUP;
		if (!err && !(flags & O_TRUNC) &&
		    stx.stx_size > config_number(&fs->engine->config, OPT_COW_MAX))
			err = -ENOTSUP;
		if (!err) {
			int fd = flags & O_TRUNC
					 ? nf.fd
					 : backing_reopen(&fs->engine->backing, nf.fd, O_RDONLY);

			err = fd < 0 ? fd : replace(fs, c, n, fd, dir, name, !(flags & O_TRUNC));
			if (fd >= 0 && fd != nf.fd)
				close(fd);
		}
		/* In place, then: who may not make a file beside it may still write to this one. */
		if (err == -ENOTSUP || err == -EACCES || err == -EPERM || err == -EROFS) {
			err = await_published(fs, n);
			if (!err)
				save_unvouched(fs, nf.fd);
		}
		tree_fd_put(fs->tree, &nf);
	}
	node_put(fs->tree, dir);
	return err;
}

int save_cut(struct generation *g)
{
	int err = generation_change(g);

	if (err)
		return err;
	err = content_truncate(g->content, 0);
	if (wait_interrupted())
		generation_cut_off(g); /* and who knows what would have been written to it */
	generation_changed(g);
	return err;
}

int save_open(struct fs *fs, const struct caller *c, struct node *n, int flags,
	      struct generation **g)
{
	struct inode_id id = node_inode(n);
	char name[NAME_MAX + 1];
	struct node *dir;
	struct inside in;
	struct change change = {.opens = true, .empties = flags & O_TRUNC};
	int err;

	*g = NULL;
	if (!fs->engine->units || !changes(flags))
		return 0;
	err = inside_enter(fs, c, n, NULL, change, &in);
	if (err > 0)
		err = inside_open(fs, c, &in, n, flags, g);
	inside_leave(&in);
	if (err || *g)
		return err;
	if (tree_place(fs->tree, n, &dir, name)) {
		err = inside_begin(fs, c, dir, name, change);
		node_put(fs->tree, dir);
		if (err)
			return err;
	}
	do {
		*g = units_find_inode(fs->engine->units, &id);
		err = 0;
		if (*g && generation_open(*g, c->pid)) {
			err = flags & O_TRUNC ? save_cut(*g) : 0;
			if (!err)
				return 0;
			generation_released(*g);
		} else if (*g && !(flags & O_TRUNC)) {
			/* What is closed keeps its bytes; to change some of them they must be there. */
			err = await_bytes(*g);
		}
		generation_put(*g);
		*g = NULL;
	} while (err == -EAGAIN);
	return err && err != -EEXIST ? err : open_closed(fs, c, n, flags);
}

int save_create(struct fs *fs, const struct caller *c, struct node *dir, int at, const char *name,
		mode_t mode, int flags, struct generation **g)
{
	struct inode_id dir_id = node_inode(dir);
	struct inside in;
	struct change change = {.makes_file = true, .opens = true, .empties = flags & O_TRUNC};
	struct statx stx;
	int err;

	*g = NULL;
	if (!fs->engine->units)
		return 0;
	if (rules_reserved(name))
		return -EPERM;
	err = inside_enter(fs, c, dir, name, change, &in);
	if (err > 0) {
		err = inside_create(fs, c, &in, dir, at, name, mode, flags, g);
		inside_leave(&in);
		if (err != -EAGAIN)
			return err;
		err = 0; /* it is no checkpoint after all */
	}
	if (!err)
		err = inside_begin(fs, c, dir, name, change);
	if (err)
		return err;
	if (save_has_name(fs, dir, name))
		return flags & O_EXCL ? -EEXIST : once_more(fs, c, &dir_id, at, name, flags);
	if (!is_staged(fs, name) || flags & O_APPEND)
		return removal_of_file_makes_way(fs->engine->units, &dir_id, name);
	/* What was removed and is still there is replaced by its publish. */
	err = removals_hide(fs->engine->units, &dir_id, name)
		      ? -ENOENT
		      : backing_stat_at(&fs->engine->backing, at, name, &stx);
	if (!err && flags & O_EXCL)
		return -EEXIST;
	if (!err) /* the kernel opens it instead */
		return changes(flags) ? once_more(fs, c, &dir_id, at, name, flags) : -ESTALE;
	if (err != -ENOENT)
		return err;
	err = generation_begin(fs->engine->units, c, &(struct place){at, dir_id, name}, mode, -1,
			       false, c->pid, g);
	if (!err && !generation_open(*g, c->pid)) { /* given up already: this took very long */
		generation_put(*g);
		*g = NULL;
		err = -ESTALE;
	}
	return err;
}

bool save_is_gone(struct fs *fs, const struct statx *stx)
{
	struct inode_id id = inode_id_of(stx);
	enum generation_state state;
	char reason[MESSAGE_MAX];
	struct content *ct;

	if (stx->stx_nlink || !fs->engine->units ||
	    !units_state_of(fs->engine->units, &id, &state, reason) ||
	    (state != GENERATION_DROPPED && state != GENERATION_FAILED))
		return false;
	ct = content_find(fs->engine->contents, &id);
	content_put(ct);
	return !ct;
}

void save_not_opened(struct generation *g)
{
	if (g)
		generation_released(g);
	generation_put(g);
}

void save_opened(struct handle *h, struct generation *g)
{
	h->generation = g;
	if (!g)
		return;
	content_get(g->content);
	h->content = g->content;
}

/* --- names --- */

/* What the backing has at a name, be it removed or not. */
static int look_behind(struct fs *fs, const struct save_name *n, struct inode_id *id, mode_t *mode)
{
	struct statx stx;
	int err = backing_stat_at(&fs->engine->backing, n->at, n->name, &stx);

	*id = inode_id_of(&stx);
	*mode = stx.stx_mode;
	return err;
}

/* The same, if it is to be seen. */
static int look(struct fs *fs, const struct save_name *n, struct inode_id *id, mode_t *mode)
{
	struct inode_id dir = node_inode(n->dir);
	bool hidden = removals_hide(fs->engine->units, &dir, n->name);

	return hidden ? -ENOENT : look_behind(fs, n, id, mode);
}

/* A name as mkstemp makes them, be it with the ending of a checkpoint. */
static bool is_temporary(const struct rule *rule, const char *name)
{
	const char *ending = strrchr(name, '.');
	char stem[NAME_MAX + 1];

	if (rule_is_temp(rule, name))
		return true;
	snprintf(stem, sizeof(stem), "%.*s", ending ? (int)(ending - name) : 0, name);
	return *stem && rule_is_temp(rule, stem);
}

/*
 * A checkpoint of one file that a job removes stays on the backing until a newer one is there. 1: so it does; 0: it is
 * to go at once.
 */
static int remove_later(struct fs *fs, const struct caller *c, const struct save_name *n)
{
	struct units *us = fs->engine->units;
	struct unit_place u = {
		.dir = n->at, .dir_id = node_inode(n->dir), .name = n->name, .file = true};
	struct process *p;
	const struct rule *rule = rules_single(fs->engine->rules, n->name);
	struct statx stx;
	int err;

	if (!rule || is_temporary(rule, n->name))
		return 0;
	if (removals_hide(us, &u.dir_id, n->name))
		return -ENOENT;
	err = backing_stat_at(&fs->engine->backing, n->at, n->name, &stx);
	if (err || !S_ISREG(stx.stx_mode) || stx.stx_nlink > 1) /* it has another name */
		return err;
	u.id = inode_id_of(&stx);
	p = units_process(us, c);
	if (!p)
		return -ENOMEM;
	if (removal_waits(us, p, &u.dir_id, n->name)) {
		err = removal_note(us, c, p, &u, &u.dir_id, n->name);
		if (!err) {
			removal_complete(us, p, &u);
			err = 1;
		}
	}
	process_put(p);
	return err;
}

/* With its last name, what is cached of a file is of no more use than the room that it takes. */
static int unlink_published(struct fs *fs, const struct caller *c, const struct save_name *n)
{
	struct backing *b = &fs->engine->backing;
	__cleanup_fd int held = -1;
	struct content *ct = NULL;
	struct inode_id id;
	struct statx stx;
	mode_t mode;
	int err = remove_later(fs, c, n);

	if (err)
		return err < 0 ? err : 0;
	if (contents_any(fs->engine->contents) && !look(fs, n, &id, &mode))
		ct = content_find(fs->engine->contents, &id);
	held = recorded_hold(b, n->at, n->name, &stx);
	err = AS_CALLER(c, backing_unlink(b, n->at, n->name, false));
	if (ct && !err)
		content_forget(ct);
	content_put(ct);
	creds_restore();
	if (!err && held >= 0)
		recorded_forget(b, &stx);
	return err;
}

struct removal {
	struct fs *fs;
	const struct caller *c;
	const struct save_name *name;
};

static int remove_from_backing(void *removal)
{
	struct removal *r = removal;
	int err = unlink_published(r->fs, r->c, r->name);

	return err == -ENOENT ? 0 : err; /* only the cache has it */
}

int save_unlink(struct fs *fs, const struct caller *c, const struct save_name *n)
{
	struct removal removal = {fs, c, n};
	struct inode_id dir = node_inode(n->dir);
	struct generation *g;
	struct inside in;
	bool held;
	int err;

	if (!fs->engine->units)
		return AS_CALLER(c, backing_unlink(&fs->engine->backing, n->at, n->name, false));
	if (passing_is(n->name) || rules_reserved(n->name))
		return passing_unlink(fs, c, n->dir, n->name);
	err = inside_enter(fs, c, n->dir, n->name, (struct change){.removes = true}, &in);
	if (err > 0)
		err = inside_unlink(fs, c, &in, n);
	if (err || in.checkpoint) {
		inside_leave(&in);
		return err;
	}
	err = inside_remove_later(fs, c, n, false);
	if (err)
		return err < 0 ? err : 0;
	held = pointers_drop(fs->engine->units, &dir, n->name);
	g = units_find(fs->engine->units, &dir, n->name);
	err = g ? generation_unlink(g, remove_from_backing, &removal) : -EEXIST;
	generation_put(g);
	if (err == -EEXIST)
		err = unlink_published(fs, c, n);
	if (err == -ENOENT && held)
		err = 0;
	if (!err)
		beside_unlinked(fs, n->dir, n->name);
	return err;
}

/* The directory @n may be empty but for what is hidden in it. */
static int clear_dir(struct fs *fs, const struct save_name *n)
{
	int pin, err;

	creds_restore();
	pin = backing_pin(&fs->engine->backing, n->at, n->name);
	if (pin < 0)
		return pin;
	err = units_clear_dir(fs->engine->units, pin);
	close(pin);
	return err;
}

int save_rmdir(struct fs *fs, const struct caller *c, const struct save_name *n)
{
	struct backing *b = &fs->engine->backing;
	struct inode_id dir = node_inode(n->dir);
	struct checkpoint *cp =
		fs->engine->units ? checkpoints_find(fs->engine->units, &dir, n->name) : NULL;
	struct inside in = {.checkpoint = NULL};
	int err = cp ? checkpoint_remove(cp, c) : -EEXIST;

	checkpoint_put(cp);
	if (err != -EEXIST)
		return err;
	err = inside_enter(fs, c, n->dir, n->name, (struct change){.removes = true}, &in);
	if (!err && fs->engine->units)
		err = inside_remove_later(fs, c, n, true);
	if (err && !in.checkpoint)
		return err < 0 ? err : 0;
	err = AS_CALLER(c, backing_unlink(b, n->at, n->name, true));
	inside_leave(&in);
	if ((err != -ENOTEMPTY && err != -EEXIST) || !fs->engine->units)
		return err;
	if (!clear_dir(fs, n))
		err = AS_CALLER(c, backing_unlink(b, n->at, n->name, true));
	return err;
}

/* A file of the backing that gets the name of a unit: whole, at any crash, as any unit is. */
static int make_durable(struct fs *fs, const struct save_name *n)
{
	struct backing *b = &fs->engine->backing;
	struct inode_id id;
	mode_t mode;
	int pin, fd, err = look(fs, n, &id, &mode);

	if (err || !S_ISREG(mode))
		return err == -ENOENT ? 0 : err; /* the rename will say so */
	creds_restore();
	pin = backing_pin(b, n->at, n->name);
	if (pin < 0)
		return pin;
	fd = backing_reopen(b, pin, O_RDONLY);
	close(pin);
	if (fd < 0)
		return fd == -EACCES ? 0 : fd;
	err = backing_sync(b, fd, false);
	close(fd);
	return err;
}

/* The same for the name that it has got: then it is committed, which `wait` promises of a unit. */
static int make_name_durable(struct fs *fs, const struct save_name *n)
{
	creds_restore();
	return backing_sync_dir(&fs->engine->backing, n->at);
}

int save_data_first(struct fs *fs, const struct save_name *n)
{
	struct content *ct;
	struct inode_id id;
	mode_t mode;
	int err = look(fs, n, &id, &mode);

	if (err)
		return err == -ENOENT ? 0 : err; /* the rename will say so */
	ct = content_find(fs->engine->contents, &id);
	if (ct)
		err = content_write_back(ct);
	content_put(ct);
	return err;
}

struct move {
	struct fs *fs;
	const struct caller *c;
	const struct save_name *from, *to;
	unsigned flags;
	bool moved; /* the file that is to be replaced was, too */
};

static int rename_on_backing(void *move)
{
	struct move *m = move;
	struct backing *b = &m->fs->engine->backing;
	struct inode_id dir = node_inode(m->to->dir);
	struct statx stx;
	__cleanup_fd int held = m->flags ? -1 : recorded_hold(b, m->to->at, m->to->name, &stx);
	int err = AS_CALLER(m->c, backing_rename(b, m->from->at, m->from->name, m->to->at,
						 m->to->name, m->flags));

	if (!err && held >= 0)
		recorded_forget(b, &stx);
	if (!err)
		removal_renamed_over(m->fs->engine->units, NULL, &dir, m->to->name);
	return err;
}

/* The file that @g is to replace goes along to the new name, and what has that goes. */
static int move_older(struct move *m)
{
	struct inode_id dir = node_inode(m->to->dir);
	struct generation *there = units_find(m->fs->engine->units, &dir, m->to->name);
	int err = there ? generation_unlink(there, rename_on_backing, m) : -EEXIST;

	generation_put(there);
	return err == -EEXIST ? rename_on_backing(m) : err;
}

/*
 * A unit that is being written is renamed, and so is the file that it is to replace: should it come to
 * nothing, the new name has that. But not where that has a temporary name, as what mkstemp makes: it was never
 * meant for the new one.
 */
static int make_way(void *move, bool *replaces, struct inode_id *replaced)
{
	struct move *m = move;
	bool temp = is_temp(m->fs, m->from->name);
	mode_t mode;
	int err = temp ? -ENOENT : look(m->fs, m->from, replaced, &mode);

	*replaces = true;
	if (!err) {
		err = move_older(m);
		m->moved = !err;
	}
	if (err != -ENOENT)
		return err;
	err = look_behind(m->fs, m->to, replaced, &mode);
	*replaces = !err;
	if (!err && S_ISDIR(mode))
		return -EISDIR;
	if (temp && (!err || err == -ENOENT))
		err = unlink_published(m->fs, m->c, m->from);
	return err == -ENOENT ? 0 : err;
}

/* An unpublished generation gets another name. -ENOTSUP: it has ended by now. */
static int rename_generation(struct fs *fs, const struct caller *c, struct generation *g,
			     const struct save_name *from, const struct save_name *to)
{
	struct move move = {.fs = fs, .c = c, .from = from, .to = to};
	struct inode_id to_dir = node_inode(to->dir), id;
	mode_t mode;
	int err = generation_drop_older(g);

	if (err && err != -EEXIST)
		return err;
	err = look(fs, from, &id, &mode);
	if (!err && !generation_is_open(g) && !is_temp(fs, from->name)) {
		/* The name has an older file, too: when ours has replaced that, a plain rename does. */
		err = generation_wait(g);
		if (err || !generation_is_open(g))
			return err ? err : -ENOTSUP;
	}
	if (!err)
		err = units_settle_name(fs->engine->units, &to_dir, to->name);
	if (err && err != -ENOENT)
		return err;
	err = generation_rename(g, &(struct place){to->at, to_dir, to->name}, make_way, &move);
	if (err && move.moved)
		return 0; /* it has failed: what its name shows then is the older file, which was moved */
	if (err)
		return err == -EEXIST ? -ENOTSUP : err;
	tree_placed(fs->tree, &g->id, to->dir, to->name);
	return generation_is_durable(g) ? generation_wait(g) : 0;
}

/* A whole file got the name of a checkpoint: what its job has removed may go. */
static void note_saved(struct fs *fs, const struct caller *c, const struct save_name *n)
{
	struct units *us = fs->engine->units;
	struct inode_id dir = node_inode(n->dir);
	struct process *p = removals_any(us) ? units_process(us, c) : NULL;

	if (p)
		removal_renamed_over(us, p, &dir, n->name);
	process_put(p);
}

/* What has the new name and is not published yet goes away with the file that it replaces. */
static int rename_over(struct fs *fs, const struct caller *c, const struct save_name *from,
		       const struct save_name *to, unsigned flags, struct generation *replaced)
{
	struct move move = {fs, c, from, to, flags, false};
	struct inode_id to_dir = node_inode(to->dir), id, other;
	struct content *old = NULL;
	mode_t mode, other_mode;
	int err = units_settle_name(fs->engine->units, &to_dir, to->name);

	if (!err)
		err = look(fs, from, &id, &mode);
	if (!err && !(flags & RENAME_EXCHANGE) && !look(fs, to, &other, &other_mode))
		old = content_find(fs->engine->contents, &other);
	if (!err)
		err = save_data_first(fs, from);
	if (!err && is_staged(fs, to->name))
		err = make_durable(fs, from);
	if (!err && flags & RENAME_EXCHANGE)
		err = look(fs, to, &other, &other_mode);
	/* A file takes the place of one that was removed by the rename itself. */
	if (!err && S_ISDIR(mode))
		err = removal_make_way(fs->engine->units, &to_dir, to->name);
	if (!err && replaced && !(flags & RENAME_EXCHANGE))
		err = generation_unlink(replaced, rename_on_backing, &move);
	else if (!err)
		err = rename_on_backing(&move);
	if (err == -EEXIST && replaced && !(flags & RENAME_NOREPLACE))
		err = rename_on_backing(&move); /* that has ended meanwhile */
	if ((err == -ENOTEMPTY || err == -EEXIST) && !flags && S_ISDIR(mode) && !clear_dir(fs, to))
		err = rename_on_backing(&move);
	if (!err && old)
		content_forget(
			old); /* else the cache would keep the blocks of a file that is gone */
	content_put(old);
	if (!err)
		tree_moved(fs->tree, to->dir, to->name);
	if (!err && flags & RENAME_EXCHANGE)
		tree_moved(fs->tree, from->dir, from->name);
	if (err || !rules_single(fs->engine->rules, to->name))
		return err;
	err = make_name_durable(fs, to);
	if (!err && S_ISREG(mode))
		note_saved(fs, c, to);
	return err;
}

/* Two names change places only when both are on the backing. Either generation may be NULL. */
static int settle_both(struct units *us, const struct inode_id *from_dir,
		       const struct save_name *from, struct generation *g,
		       const struct inode_id *to_dir, const struct save_name *to,
		       struct generation *other)
{
	int err = units_settle_name(us, from_dir, from->name);

	if (!err)
		err = units_settle_name(us, to_dir, to->name);
	if (err)
		return err;
	return (g && generation_is_open(g)) || (other && generation_is_open(other)) ? -EBUSY : 0;
}

int save_rename(struct fs *fs, const struct caller *c, const struct save_name *from,
		const struct save_name *to, unsigned flags)
{
	struct units *us = fs->engine->units;
	struct inode_id from_dir = node_inode(from->dir), to_dir = node_inode(to->dir), id;
	struct generation *g, *replaced;
	mode_t mode;
	int err = -ENOTSUP;

	if (!us)
		return -EROFS;
	if (passing_is(from->name) || (passing_is(to->name) && !rules_reserved(from->name)))
		return passing_rename(fs, c, from, to, flags);
	if (rules_reserved(from->name) || rules_reserved(to->name))
		return rules_reserved(from->name) ? -ENOENT : -EPERM;
	err = inside_rename(fs, c, from, to, flags);
	if (err != -ENOTSUP)
		return err;
	err = beside_hold_renamed(fs, c, from, to, flags);
	if (err != -ENOTSUP)
		return err;
	if (!(flags & (RENAME_EXCHANGE | RENAME_NOREPLACE)))
		pointers_drop(us, &to_dir, to->name);
	creds_become(c); /* with all that the caller may look at */
	creds_add_groups(c);
	g = units_find(us, &from_dir, from->name);
	replaced = units_find(us, &to_dir, to->name);
	if (g && g == replaced) {
		err = 0; /* onto itself */
	} else if (flags & RENAME_NOREPLACE && (replaced || (g && !look(fs, to, &id, &mode)))) {
		err = -EEXIST;
	} else if (flags & ~RENAME_NOREPLACE) {
		err = settle_both(us, &from_dir, from, g, &to_dir, to, replaced);
		err = err ? err : -ENOTSUP;
	} else if (g) {
		err = rename_generation(fs, c, g, from, to);
	}
	if (err == -ENOTSUP)
		err = rename_over(fs, c, from, to, flags, replaced);
	creds_restore();
	if (!err && !(flags & RENAME_EXCHANGE))
		removal_moved(us, &from_dir, from->name, &(struct place){to->at, to_dir, to->name});
	if (!err)
		beside_renamed(fs, to->dir, to->at, to->name);
	if (!err && !(flags & RENAME_EXCHANGE))
		unclaimed_renamed(fs, c, from->name, to);
	generation_put(g);
	generation_put(replaced);
	return err;
}

/* The digest record of @fd if it is valid now. */
static bool valid_record(struct backing *b, int fd, char hex[DIGEST_HEX])
{
	struct statx stx;

	return !backing_stat(b, fd, &stx) && recorded_valid(b, fd, &stx, hex);
}

static void renew_record(struct backing *b, int fd, const char *hex)
{
	char record[DIGEST_RECORD_MAX];
	struct statx stx;

	creds_restore(); /* the record is the daemon's, not the caller's */
	if (backing_stat(b, fd, &stx))
		return;
	digest_record_format(record, sizeof(record), hex, stx.stx_size,
			     (uint64_t)stx.stx_mtime.tv_sec * NSEC_PER_SEC + stx.stx_mtime.tv_nsec);
	recorded_put(b, &(struct caller){.uid = stx.stx_uid, .gid = stx.stx_gid, .pid = NO_PROCESS},
		     fd, record, true);
}

int save_begin_change(struct fs *fs, int fd, struct generation **g)
{
	struct units *us = fs->engine->units;
	struct inode_id id;
	struct statx stx;
	int err;

	*g = NULL;
	creds_restore();
	if (!us || backing_stat(&fs->engine->backing, fd, &stx) || !S_ISREG(stx.stx_mode))
		return 0;
	id = inode_id_of(&stx);
	*g = units_find_inode(us, &id);
	err = *g ? generation_change(*g) : 0;
	if (err) {
		generation_put(*g);
		*g = NULL;
	}
	return err == -EEXIST ? 0 : err;
}

void save_end_change(struct generation *g)
{
	if (g)
		generation_changed(g);
	generation_put(g);
}

/* Opens @n, which is a file of a checkpoint, to cut it. NULL: it is none. */
static int begin_cut(struct fs *fs, const struct caller *c, struct node *n, bool empty,
		     struct generation **g)
{
	struct change change = {.opens = true, .empties = empty};
	char name[NAME_MAX + 1];
	struct inside in;
	struct node *dir;
	int err = inside_enter(fs, c, n, NULL, change, &in);

	*g = NULL;
	if (err > 0) {
		err = inside_open(fs, c, &in, n, empty ? O_WRONLY | O_TRUNC : O_WRONLY, g);
		inside_leave(&in);
	} else if (!err && tree_place(fs->tree, n, &dir, name)) {
		err = inside_begin(fs, c, dir, name, change);
		node_put(fs->tree, dir);
	}
	return err;
}

int save_truncate(struct fs *fs, const struct caller *c, struct node *n, uint64_t size)
{
	struct generation *g;
	uint64_t key;
	int err;

	if (!fs->engine->units || !S_ISREG(n->type))
		return -ENOTSUP;
	err = begin_cut(fs, c, n, !size, &g);
	if (err || !g)
		return err ? err : -ENOTSUP;
	key = (uintptr_t)g; /* it is a writer that has come, and gone */
	err = generation_write(g, key);
	if (!err) {
		err = content_truncate(g->content, size);
		generation_changed(g);
		generation_flushed(g, key, (struct writer_end){.fate = WRITER_ALIVE});
	}
	generation_released(g);
	generation_put(g);
	return err;
}

int save_set_times(struct fs *fs, const struct caller *c, struct node *n, int fd,
		   const struct timespec times[2])
{
	struct inode_id id = node_inode(n);
	struct backing *b = &fs->engine->backing;
	struct generation *g = fs->engine->units ? units_find_inode(fs->engine->units, &id) : NULL;
	char hex[DIGEST_HEX];
	bool held, valid;
	int err = g ? generation_change(g) : -EEXIST; /* which waits while it is being published */

	held = g && !err;
	if (err == -EEXIST)
		err = 0;
	valid = !err && !held && S_ISREG(n->type) && valid_record(b, fd, hex);
	if (!err)
		err = AS_CALLER(c, backing_utimens(b, fd, times));
	if (!err && valid)
		renew_record(b, fd, hex);
	if (held)
		generation_changed(g);
	generation_put(g);
	return err;
}

/* Is the directory @n, made by @p in @in (NULL: in no checkpoint), to be the top of one? -EEXIST: it may. */
static int may_be_checkpoint(struct fs *fs, const struct save_name *n, const struct process *p,
			     struct checkpoint *in)
{
	struct inode_id dir = node_inode(n->dir);
	char path[PATH_MAX];
	bool suggested;

	tree_path(fs->tree, n->dir->id, n->name, path, sizeof(path));
	suggested = rules_suggest(fs->engine->rules, path);
	if (in)
		return suggested ? checkpoint_yield(in) : 0;
	return suggested || p->rank >= 0 || removals_hide(fs->engine->units, &dir, n->name)
		       ? -EEXIST
		       : 0;
}

int save_mkdir(struct fs *fs, const struct caller *c, const struct save_name *n,
	       struct checkpoint *in, mode_t mode)
{
	struct units *us = fs->engine->units;
	struct inode_id dir = node_inode(n->dir);
	struct checkpoint *cp = NULL;
	struct process *p;
	int err;

	if (!us)
		return -ENOTSUP;
	p = units_process(us, c);
	if (!p)
		return -ENOMEM;
	err = may_be_checkpoint(fs, n, p, in);
	if (err == -EEXIST) {
		err = checkpoint_begin(us, c, p, &(struct place){n->at, dir, n->name}, mode, &cp);
		if (!err)
			err = checkpoint_join(cp, p);
		checkpoint_put(cp);
	} else if (!err) {
		err = -ENOTSUP;
	}
	process_put(p);
	return err;
}

int save_link(struct fs *fs, struct node *n, const struct checkpoint *to)
{
	struct inode_id id = node_inode(n);
	char rel[PATH_MAX];
	struct checkpoint *from = tree_checkpoint(fs->tree, n, NULL, rel, sizeof(rel));
	struct generation *g = fs->engine->units ? units_find_inode(fs->engine->units, &id) : NULL;
	int err;

	checkpoint_put(from);
	if (from != to) {
		generation_put(g);
		return -EXDEV;
	}
	if (!g)
		return 0;
	err = generation_is_open(g) ? -EXDEV : generation_wait(g);
	generation_put(g);
	return err;
}
