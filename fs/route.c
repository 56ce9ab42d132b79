/* SPDX-License-Identifier: MIT */
#include "fs/route.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "engine/backing/backing.h"
#include "engine/base/message.h"
#include "engine/base/wait.h"
#include "engine/calls/directory.h"
#include "engine/calls/file.h"
#include "engine/commit/report.h"
#include "engine/config/config.h"
#include "engine/content/content.h"
#include "engine/content/recorded.h"
#include "engine/format/names.h"
#include "engine/gen/state.h"
#include "engine/journal/journal.h"
#include "engine/liveness/job.h"
#include "engine/names/names.h"
#include "engine/rule/rule.h"
#include "fs/in_checkpoint.h"
#include "fs/route_inside.h"

static bool changes(int flags)
{
	return (flags & O_ACCMODE) != O_RDONLY || flags & O_TRUNC;
}

/*
 * Waits until the bytes of @g, which is closed, are those of a file that can be copied. -EAGAIN: it
 * is being written again, or has failed.
 */
static int await_bytes(struct generation *g)
{
	int err = generation_wait(g);

	if (err)
		return err == -EINTR ? err : -EAGAIN;
	return generation_is_open(g) ? -EAGAIN : 0;
}

/*
 * Opens the regular file that @at shows, on the backing or as a pending pointer (journal_held.h),
 * for reading. -ESTALE: there is none.
 */
static int open_named(struct fs *fs, struct backing *b, const struct place *at, struct statx *stx)
{
	struct name_shown s;
	int err = names_look(fs->engine->units, b, at, 0, &s), fd = -ESTALE;

	if (!err && s.as == SHOWN_ON_BACKING)
		s.pin = backing_pin(b, at->dir, at->name);
	if (s.pin >= 0)
		fd = backing_stat(b, s.pin, stx);
	if (!fd)
		fd = S_ISREG(stx->stx_mode) ? backing_reopen(b, s.pin, O_RDONLY) : -ESTALE;
	names_put(&s);
	return fd;
}

/* Begins a generation of @at that replaces the file of that name, and expects its open. */
static int begin_from_file(struct fs *fs, const struct caller *c, const struct place *at, bool copy)
{
	struct backing b = fs_for(fs, c);
	struct generation *g = NULL;
	struct statx stx;
	int fd, err = 0;

	if (!route_is_staged(fs, at->name))
		return -ESTALE; /* the kernel finds it by itself */
	fd = open_named(fs, &b, at, &stx);
	if (fd < 0)
		return fd;
	if (!copy || stx.stx_size <= config_number(&fs->engine->config, OPT_COW_MAX))
		err = generation_begin(fs->engine->units, c, at, 0600, fd, copy, c->pid, &g);
	generation_put(g);
	close(fd);
	return err ? err : -ESTALE;
}

/*
 * Prepares the second try. On ESTALE the kernel tries again, once: its second lookup of @name has
 * to find a generation that is kept open for it. Another process may have made one meanwhile; if
 * that is closed already, it is replaced, as if this call had come a moment later. -ESTALE, or what
 * went wrong.
 */
static int once_more(struct fs *fs, const struct caller *c, const struct place *at, int flags)
{
	struct units *us = fs->engine->units;
	int err;

	do {
		struct generation *new = NULL;
		struct name_shown s;

		names_look_saved(us, &at->id, at->name, 0, &s);
		if (!s.file) {
			err = begin_from_file(fs, c, at, !(flags & O_TRUNC));
		} else if (generation_expect(s.file, c->pid)) {
			err = -ESTALE;
		} else if (flags & O_TRUNC) {
			err = generation_begin(us, c, at, 0600, generation_content(s.file)->fd,
					       false, c->pid, &new);
			err = err ? err : -ESTALE;
		} else {
			err = await_bytes(s.file);
			err = err ? err : -EAGAIN; /* it is a file now */
		}
		generation_put(new);
		names_put(&s);
	} while (err == -EAGAIN);
	return err;
}

/* 0: the name shows @n, published or not. -ESTALE: @n has been replaced. Else -errno. */
static int check_current(struct fs *fs, struct backing *b, struct node *n, const struct place *at)
{
	struct inode_id id = {0};
	struct name_shown s;
	int err = names_look(fs->engine->units, b, at, 0, &s);

	if (s.as == SHOWN_FILE)
		id = *generation_id(s.file);
	else if (s.as == SHOWN_ON_BACKING)
		id = inode_id_of(&s.stx);
	names_put(&s);
	return err ? err : id.ino == n->ino && id.dev == n->dev ? 0 : -ESTALE;
}

/* Begins the generation that will replace @n, open as @fd, under @name in @dir. */
static int replace(struct fs *fs, const struct caller *c, struct node *n, int fd, struct node *dir,
		   const char *name, bool keep_bytes)
{
	struct backing b = fs_for(fs, c);
	struct generation *g = NULL;
	struct node_fd nf;
	struct place at;
	int err = tree_fd(fs->tree, &b, dir, &nf);

	if (err)
		return err;
	at = (struct place){nf.fd, node_inode(dir), name};
	err = check_current(fs, &b, n, &at);
	if (err == -ESTALE)
		err = once_more(fs, c, &at, keep_bytes ? 0 : O_TRUNC);
	else if (!err)
		err = generation_begin(fs->engine->units, c, &at, 0600, fd, keep_bytes, c->pid, &g);
	generation_put(g);
	tree_fd_put(fs->tree, &nf);
	return err ? err : -ESTALE;
}

/* Writes back what only the cache has of @n, to be copied from the backing. */
static int write_back(struct fs *fs, struct node *n)
{
	struct content *ct = route_content(fs, n);
	int err = ct && !content_is_pending(ct) ? content_write_back(ct) : 0;

	content_put(ct);
	return err;
}

/* Waits until @n, which may be pending, is published: it is going to be changed in place. */
static int await_published(struct fs *fs, struct node *n)
{
	struct inode_id id = node_inode(n);
	struct generation *g = units_find_inode(fs->engine->units, &id);
	int err = g ? await_bytes(g) : 0;

	generation_put(g);
	return err == -EAGAIN ? -ESTALE : err;
}

/* Opens @n to change it. It is closed, and is or will be published; or it is older than ckptfs. */
static int open_closed(struct fs *fs, const struct caller *c, struct node *n, int flags)
{
	struct backing b = fs_for(fs, c);
	struct backing as = fs_as(fs, c);
	char name[NAME_MAX + 1];
	struct node *dir = NULL;
	struct node_fd nf;
	struct statx stx;
	int err;

	if (!tree_place(fs->tree, n, &dir, name))
		return 0;
	if (!route_is_staged(fs, name)) {
		node_put(fs->tree, dir);
		return await_published(fs, n);
	}
	err = tree_fd(fs->tree, &as, n, &nf);
	if (!err) {
		err = write_back(fs, n);
		if (!err)
			err = backing_stat(&b, nf.fd, &stx);
		if (!err && flags & O_APPEND && !(flags & O_TRUNC))
			err = -ENOTSUP;
		if (!err && !(flags & O_TRUNC) &&
		    stx.stx_size > config_number(&fs->engine->config, OPT_COW_MAX))
			err = -ENOTSUP;
		if (!err) {
			int fd = flags & O_TRUNC ? nf.fd : backing_reopen(&b, nf.fd, O_RDONLY);

			err = fd < 0 ? fd : replace(fs, c, n, fd, dir, name, !(flags & O_TRUNC));
			if (fd >= 0 && fd != nf.fd)
				close(fd);
		}
		/* In place, then: a caller that may not make a file beside it may write it. */
		if (err == -ENOTSUP || err == -EACCES || err == -EPERM || err == -EROFS) {
			err = await_published(fs, n);
			if (!err)
				route_drop_record(fs, c, nf.fd);
		}
		tree_fd_put(fs->tree, &nf);
	}
	node_put(fs->tree, dir);
	return err;
}

int route_open(struct fs *fs, const struct caller *c, struct node *n, int flags,
	       struct generation **g)
{
	struct inode_id id = node_inode(n);
	char name[NAME_MAX + 1];
	struct node *dir;
	struct in_checkpoint in;
	struct change change = {.opens = true, .empties = flags & O_TRUNC};
	int err;

	*g = NULL;
	if (!fs->engine->units || !changes(flags))
		return 0;
	err = in_checkpoint_enter(fs, c, n, NULL, change, &in);
	if (err > 0)
		err = in_checkpoint_open(fs, c, &in, n, flags, g);
	in_checkpoint_leave(&in);
	if (err || *g)
		return err;
	if (tree_place(fs->tree, n, &dir, name)) {
		err = in_checkpoint_begin_change(fs, c, dir, name, change);
		node_put(fs->tree, dir);
		if (err)
			return err;
	}
	do {
		*g = units_find_inode(fs->engine->units, &id);
		err = 0;
		if (*g && generation_open(*g, c->pid)) {
			err = flags & O_TRUNC ? route_cut(fs, *g) : 0;
			if (!err)
				return 0;
			generation_released(*g);
		} else if (*g && !(flags & O_TRUNC)) {
			/*
			 * A closed file keeps its bytes. To change some of them, all must be there.
			 */
			err = await_bytes(*g);
		}
		generation_put(*g);
		*g = NULL;
	} while (err == -EAGAIN);
	return err && err != -EEXIST ? err : open_closed(fs, c, n, flags);
}

int route_create(struct fs *fs, const struct caller *c, struct node *dir, int at, const char *name,
		 mode_t mode, int flags, struct generation **g)
{
	struct backing b = fs_for(fs, c);
	struct place here = {at, node_inode(dir), name};
	struct units *us = fs->engine->units;
	struct in_checkpoint in;
	struct change change = {.makes_file = true, .opens = true, .empties = flags & O_TRUNC};
	struct statx stx;
	int err;

	*g = NULL;
	if (!us)
		return 0;
	if (name_is_reserved(name))
		return -EPERM;
	err = in_checkpoint_enter(fs, c, dir, name, change, &in);
	if (err > 0) {
		err = in_checkpoint_create(fs, c, &in, dir, at, name, mode, flags, g);
		in_checkpoint_leave(&in);
		if (err != -EAGAIN)
			return err;
		err = 0; /* it is no checkpoint after all */
	}
	if (!err)
		err = in_checkpoint_begin_change(fs, c, dir, name, change);
	if (err)
		return err;
	if (names_look_saved(us, &here.id, name, 0, NULL))
		return flags & O_EXCL ? -EEXIST : once_more(fs, c, &here, flags);
	if (!route_is_staged(fs, name) || flags & O_APPEND)
		return removal_of_file_makes_way(us, &here.id, name);
	/* The publish replaces what was removed and is still there. */
	err = names_look_behind(us, &b, &here, &stx);
	if (!err && flags & O_EXCL)
		return -EEXIST;
	if (!err) /* the kernel opens it instead */
		return changes(flags) ? once_more(fs, c, &here, flags) : -ESTALE;
	if (err != -ENOENT)
		return err;
	err = generation_begin(us, c, &here, mode, -1, false, c->pid, g);
	if (!err && !generation_open(*g, c->pid)) { /* this took so long that it was given up */
		generation_put(*g);
		*g = NULL;
		err = -ESTALE;
	}
	return err;
}

bool route_is_gone(struct fs *fs, const struct statx *stx)
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

void route_not_opened(struct generation *g)
{
	if (g)
		generation_released(g);
	generation_put(g);
}

void route_opened(struct handle *h, struct generation *g)
{
	h->generation = g;
	if (!g)
		return;
	h->content = generation_content(g);
	content_get(h->content);
}

/*
 * -EEXIST: the directory @n, made by @p in @in (NULL: in no checkpoint), may be the top of a
 * checkpoint. 0: it is not. Else -errno.
 */
static int may_be_checkpoint(struct fs *fs, const struct entry_name *n, const struct process *p,
			     struct checkpoint *in)
{
	struct place at = {-ENOENT, node_inode(n->dir), n->name};
	char path[PATH_MAX];
	bool suggested;
	struct name_shown s;

	tree_path(fs->tree, n->dir->id, n->name, path, sizeof(path));
	suggested = rules_suggest(fs->engine->rules, path);
	if (in)
		return suggested ? checkpoint_yield(in) : 0;
	names_look(fs->engine->units, NULL, &at, 0, &s);
	names_put(&s);
	return suggested || p->rank >= 0 || s.as == SHOWN_REMOVED ? -EEXIST : 0;
}

int route_mkdir(struct fs *fs, const struct caller *c, const struct entry_name *n,
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

/* True if @n was last seen in a committed checkpoint directory. Else false, or -errno. */
static int is_in_committed(struct fs *fs, const struct caller *c, struct node *n)
{
	char name[NAME_MAX + 1];
	struct node *dir;
	int is;

	if (!tree_place(fs->tree, n, &dir, name))
		return false;
	is = in_checkpoint_is_committed(fs, c, dir);
	node_put(fs->tree, dir);
	return is;
}

int route_link(struct fs *fs, const struct caller *c, struct node *n, const struct checkpoint *to)
{
	struct inode_id id = node_inode(n);
	char rel[PATH_MAX];
	struct checkpoint *from = tree_checkpoint(fs->tree, n, NULL, rel, sizeof(rel));
	struct generation *g = fs->engine->units ? units_find_inode(fs->engine->units, &id) : NULL;
	int err = from != to ? 1 : !to && fs->engine->units ? is_in_committed(fs, c, n) : 0;

	checkpoint_put(from);
	if (err > 0)
		err = -EXDEV;
	if (!err && g)
		err = generation_is_open(g) ? -EXDEV : generation_wait(g);
	generation_put(g);
	return err;
}
