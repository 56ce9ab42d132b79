/* SPDX-License-Identifier: MIT */
/*
 * Renames outside of checkpoint directories: of a generation that is being saved, and of what is on
 * the backing, which is made durable before it gets the name of a checkpoint. in_checkpoint_rename
 * is tried first, for those inside. Has no lock of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"
#include "engine/calls/file.h"
#include "engine/calls/pointers.h"
#include "engine/content/content.h"
#include "engine/content/recorded.h"
#include "engine/format/names.h"
#include "engine/journal/journal.h"
#include "engine/liveness/job.h"
#include "engine/names/names.h"
#include "engine/rule/rule.h"
#include "engine/save/checkpoint.h"
#include "fs/copied_commit.h"
#include "fs/evidence_name.h"
#include "fs/in_checkpoint.h"
#include "fs/route_inside.h"
#include "fs/unclaimed.h"

/* True for a name under which nothing is meant to stay. */
static bool is_temp(struct fs *fs, const char *name)
{
	const struct rule *rule = rules_single(fs->engine->rules, name);

	return rule && rule_is_temp(rule, name);
}

/* Syncs a file that gets the name of a unit: after a crash it is whole, as any unit. */
static int make_durable(struct fs *fs, const struct caller *c, const struct entry_name *n)
{
	struct backing b = fs_for(fs, c);
	struct statx stx;
	int pin, fd, err = route_look_behind(fs, c, n, &stx);

	if (err || !S_ISREG(stx.stx_mode))
		return err == -ENOENT ? 0 : err; /* the rename will say so */
	pin = backing_pin(&b, n->at, n->name);
	if (pin < 0)
		return pin;
	fd = backing_reopen(&b, pin, O_RDONLY);
	close(pin);
	if (fd < 0)
		return fd == -EACCES ? 0 : fd;
	err = backing_sync(&b, fd, false);
	close(fd);
	return err;
}

/* Syncs the name that it got: then it is committed, as `wait` promises of a unit. */
static int make_name_durable(struct fs *fs, const struct caller *c, const struct entry_name *n)
{
	struct backing b = fs_for(fs, c);

	return backing_sync_dir(&b, n->at);
}

struct move {
	struct fs *fs;
	const struct caller *c;
	const struct entry_name *from, *to;
	unsigned flags;
	bool moved; /* so was the file that is to be replaced */
};

static int rename_on_backing(void *move)
{
	struct move *m = move;
	struct backing b = fs_as(m->fs, m->c);
	struct inode_id dir = node_inode(m->to->dir);
	struct statx stx;
	__cleanup_fd int held = m->flags ? -1 : recorded_hold(&b, m->to->at, m->to->name, &stx);
	int err = backing_rename(&b, m->from->at, m->from->name, m->to->at, m->to->name, m->flags);

	if (!err && held >= 0)
		recorded_forget(&b, &stx);
	if (!err)
		removal_renamed_over(m->fs->engine->units, NULL, &dir, m->to->name);
	return err;
}

/* Moves the file that @g is to replace to the new name, and removes what has that. */
static int move_older(struct move *m)
{
	struct inode_id dir = node_inode(m->to->dir);
	struct name_shown there;
	int err;

	names_look_saved(m->fs->engine->units, &dir, m->to->name, 0, &there);
	err = there.file ? generation_unlink(there.file, rename_on_backing, m) : -EEXIST;
	names_put(&there);
	return err == -EEXIST ? rename_on_backing(m) : err;
}

/*
 * Prepares the rename of a unit that is being written: the file that it is to replace moves along,
 * so that the new name has that if the save comes to nothing. But a file with a temporary name, as
 * mkstemp makes them, was never meant for the new name, and is removed.
 */
static int make_way(void *move, bool *replaces, struct inode_id *replaced)
{
	struct move *m = move;
	struct backing b = fs_for(m->fs, m->c);
	bool temp = is_temp(m->fs, m->from->name);
	struct statx stx;
	int err = temp ? -ENOENT : route_look_behind(m->fs, m->c, m->from, &stx);

	*replaces = true;
	if (!err) {
		*replaced = inode_id_of(&stx);
		err = move_older(m);
		m->moved = !err;
	}
	if (err != -ENOENT)
		return err;
	err = backing_stat_at(&b, m->to->at, m->to->name, &stx); /* also what was removed */
	*replaces = !err;
	*replaced = inode_id_of(&stx);
	if (!err && S_ISDIR(stx.stx_mode))
		return -EISDIR;
	if (temp && (!err || err == -ENOENT))
		err = route_unlink_published(m->fs, m->c, m->from);
	return err == -ENOENT ? 0 : err;
}

/* Gives an unpublished generation another name. -ENOTSUP: it has ended. */
static int rename_generation(struct fs *fs, const struct caller *c, struct generation *g,
			     const struct entry_name *from, const struct entry_name *to)
{
	struct move move = {.fs = fs, .c = c, .from = from, .to = to};
	struct place at = place_of(to);
	struct statx stx;
	int err = generation_drop_older(g);

	if (err && err != -EEXIST)
		return err;
	err = route_look_behind(fs, c, from, &stx);
	if (!err && !generation_is_open(g) && !is_temp(fs, from->name)) {
		/*
		 * The name has an older file, too. Once the generation has replaced that, a plain
		 * rename does.
		 */
		err = generation_wait(g);
		if (err || !generation_is_open(g))
			return err ? err : -ENOTSUP;
	}
	if (!err)
		err = units_settle_name(fs->engine->units, &at.id, to->name);
	if (err && err != -ENOENT)
		return err;
	err = generation_rename(g, &at, make_way, &move);
	/* it has failed: its name showed the older file, which was moved */
	if (err && move.moved)
		return 0;
	if (err)
		return err == -EEXIST ? -ENOTSUP : err;
	tree_placed(fs->tree, generation_id(g), to->dir, to->name);
	return generation_asked_durable(g) ? generation_wait(g) : 0;
}

/* A whole file got the name of a checkpoint: what its job has removed may go. */
static void note_saved(struct fs *fs, const struct caller *c, const struct entry_name *n)
{
	struct units *us = fs->engine->units;
	struct inode_id dir = node_inode(n->dir);
	struct process *p = removals_any(us) ? units_process(us, c) : NULL;

	if (p)
		removal_renamed_over(us, p, &dir, n->name);
	process_put(p);
}

/* Renames on the backing. An unpublished file of the new name goes with what it replaces. */
static int rename_over(struct fs *fs, const struct caller *c, const struct entry_name *from,
		       const struct entry_name *to, unsigned flags, struct generation *replaced)
{
	struct backing b = fs_for(fs, c);
	struct move move = {fs, c, from, to, flags, false};
	struct inode_id to_dir = node_inode(to->dir), id;
	struct content *old = NULL;
	struct statx stx, other;
	int err = units_settle_name(fs->engine->units, &to_dir, to->name);

	if (!err)
		err = route_look_behind(fs, c, from, &stx);
	if (!err && !(flags & RENAME_EXCHANGE) && !route_look_behind(fs, c, to, &other)) {
		id = inode_id_of(&other);
		old = content_find(fs->engine->contents, &id);
	}
	if (!err)
		err = route_data_first(fs, c, from);
	if (!err && route_is_staged(fs, to->name))
		err = make_durable(fs, c, from);
	if (!err && flags & RENAME_EXCHANGE)
		err = route_look_behind(fs, c, to, &other);
	/* A directory needs a removed one out of its way; a file just replaces it. */
	if (!err && S_ISDIR(stx.stx_mode))
		err = removal_make_way(fs->engine->units, &to_dir, to->name);
	if (!err && replaced && !(flags & RENAME_EXCHANGE))
		err = generation_unlink(replaced, rename_on_backing, &move);
	else if (!err)
		err = rename_on_backing(&move);
	if (err == -EEXIST && replaced && !(flags & RENAME_NOREPLACE))
		err = rename_on_backing(&move); /* @replaced has ended meanwhile */
	if ((err == -ENOTEMPTY || err == -EEXIST) && !flags && S_ISDIR(stx.stx_mode) &&
	    !units_clear_dir(fs->engine->units, &b, to->at, to->name))
		err = rename_on_backing(&move);
	if (!err && old)
		content_forget(old); /* else the cache keeps the blocks of a file that is gone */
	content_put(old);
	if (!err)
		tree_moved(fs->tree, &b, to->dir, to->name);
	if (!err && flags & RENAME_EXCHANGE)
		tree_moved(fs->tree, &b, from->dir, from->name);
	if (err || !rules_single(fs->engine->rules, to->name))
		return err;
	err = make_name_durable(fs, c, to);
	if (!err && S_ISREG(stx.stx_mode))
		note_saved(fs, c, to);
	return err;
}

/* Waits until both names are on the backing. -EBUSY: one is open. @g, @other may be NULL. */
static int settle_both(struct units *us, const struct inode_id *from_dir,
		       const struct entry_name *from, struct generation *g,
		       const struct inode_id *to_dir, const struct entry_name *to,
		       struct generation *other)
{
	int err = units_settle_name(us, from_dir, from->name);

	if (!err)
		err = units_settle_name(us, to_dir, to->name);
	if (err)
		return err;
	return (g && generation_is_open(g)) || (other && generation_is_open(other)) ? -EBUSY : 0;
}

/* @from becomes a copied commit file, and loses its name on the backing. */
static int become_copied_commit(struct fs *fs, const struct caller *c,
				const struct entry_name *from, const struct entry_name *to,
				unsigned flags)
{
	struct backing b = fs_as(fs, c);
	struct inode_id dir = node_inode(to->dir);
	int pin, err;

	if (flags & ~RENAME_NOREPLACE)
		return -EINVAL;
	pin = backing_pin(&b, from->at, from->name);
	err = route_unlink(fs, c, from);
	if (!err && pin >= 0)
		copied_commit_keep(fs, &dir, to->name, take_fd(&pin));
	if (pin >= 0)
		close(pin);
	return err;
}

int route_rename(struct fs *fs, const struct caller *c, const struct entry_name *from,
		 const struct entry_name *to, unsigned flags)
{
	struct units *us = fs->engine->units;
	struct inode_id from_dir = node_inode(from->dir);
	struct place at = place_of(to);
	struct generation *g, *replaced;
	struct name_shown here, there;
	struct statx stx;
	int err = -ENOTSUP;

	if (!us)
		return -EROFS;
	if (copied_commit_is(from->name))
		return copied_commit_move(fs, from, to);
	if (copied_commit_is(to->name) && !name_is_reserved(from->name))
		return become_copied_commit(fs, c, from, to, flags);
	if (name_is_reserved(from->name) || name_is_reserved(to->name))
		return name_is_reserved(from->name) ? -ENOENT : -EPERM;
	err = in_checkpoint_rename(fs, c, from, to, flags);
	if (err != -ENOTSUP)
		return err;
	err = evidence_name_hold_renamed(fs, c, from, to, flags);
	if (err != -ENOTSUP)
		return err;
	if (!(flags & (RENAME_EXCHANGE | RENAME_NOREPLACE)))
		pointers_drop(us, &at.id, to->name);
	names_look_saved(us, &from_dir, from->name, 0, &here);
	names_look_saved(us, &at.id, to->name, 0, &there);
	g = here.file;
	replaced = there.file;
	if (g && g == replaced) {
		err = 0; /* onto itself */
	} else if (flags & RENAME_NOREPLACE &&
		   (replaced || (g && !route_look_behind(fs, c, to, &stx)))) {
		err = -EEXIST;
	} else if (flags & ~RENAME_NOREPLACE) {
		err = settle_both(us, &from_dir, from, g, &at.id, to, replaced);
		err = err ? err : -ENOTSUP;
	} else if (g) {
		err = rename_generation(fs, c, g, from, to);
	}
	if (err == -ENOTSUP)
		err = rename_over(fs, c, from, to, flags, replaced);
	if (!err && !(flags & RENAME_EXCHANGE))
		removal_moved(us, &from_dir, from->name, &at);
	if (!err)
		evidence_name_renamed(fs, c, to->dir, to->at, to->name);
	if (!err && !(flags & RENAME_EXCHANGE))
		unclaimed_renamed(fs, c, from->name, to);
	names_put(&here);
	names_put(&there);
	return err;
}
