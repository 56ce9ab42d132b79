/* SPDX-License-Identifier: MIT */
/*
 * Renames within a checkpoint that is being written, into one, out of a committed one, and of a
 * checkpoint itself. Each is noted as evidence. Has no lock of its own. route_rename handles
 * renames that touch no checkpoint.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/backing/backing.h"
#include "engine/calls/directory.h"
#include "engine/calls/file.h"
#include "engine/content/content.h"
#include "engine/liveness/job.h"
#include "engine/names/names.h"
#include "engine/rule/rule.h"
#include "fs/in_checkpoint.h"

struct call {
	struct fs *fs;
	const struct caller *c;
	const struct entry_name *from, *to;
	unsigned flags;
};

static int rename_now(void *call)
{
	struct call *k = call;
	struct backing b = fs_as(k->fs, k->c);

	return backing_rename(&b, k->from->at, k->from->name, k->to->at, k->to->name, k->flags);
}

/*
 * Claims the checkpoint by the new name of a file, which may be the first to tell what it is.
 * -EEXIST: it is an ordinary directory now.
 */
static int claim_by_rename(struct fs *fs, const struct caller *c, struct in_checkpoint *in,
			   const struct entry_name *from)
{
	struct backing b = fs_for(fs, c);
	struct statx stx;

	if (backing_stat_at(&b, from->at, from->name, &stx) || !S_ISREG(stx.stx_mode))
		return 0;
	return checkpoint_claim(in->checkpoint, in->rel, in->process);
}

/*
 * True if a program copies or moves a file: that rename does not mean what a framework's rename
 * does. rsync keeps a whole file aside under its own name.
 */
static bool is_copied(const struct entry_name *from, const struct entry_name *to)
{
	return rules_is_copy(from->name, to->name) || !strcmp(from->name, to->name);
}

/* Renames within one checkpoint, which was entered for @to. */
static int rename_within(struct fs *fs, struct in_checkpoint *to_in, const char *from_rel,
			 struct call *call)
{
	struct backing b = fs_for(fs, call->c);
	const struct entry_name *from = call->from, *to = call->to;
	struct generation *g = in_checkpoint_written_at(fs, call->c, from);
	struct inode_id dir = node_inode(to->dir);
	int err = call->flags & RENAME_EXCHANGE ? 0 : claim_by_rename(fs, call->c, to_in, from);

	if (!err)
		err = change_from_nothing(to_in->checkpoint, to_in->process, to_in->rel);
	if (!err)
		err = call->flags & RENAME_EXCHANGE
			      ? rename_now(call)
			      : in_checkpoint_take_away(fs, call->c, to, rename_now, call);
	if (!err && g)
		generation_moved_in(g, &dir, to->name, to_in->rel);
	generation_put(g);
	if (err)
		return err == -EEXIST && !(call->flags & RENAME_NOREPLACE) ? -ENOTSUP : err;
	tree_moved(fs->tree, &b, to->dir, to->name);
	if (call->flags & RENAME_EXCHANGE)
		tree_moved(fs->tree, &b, from->dir, from->name);
	else
		checkpoint_vanished(to_in->checkpoint, from_rel);
	checkpoint_note(to_in->checkpoint, is_copied(from, to) ? EVIDENCE_CLOSE : EVIDENCE_RENAME,
			to_in->rel, to_in->process->rank);
	return 0;
}

/*
 * Neither name is in a checkpoint that is being written. A file in a committed one has to be copied
 * out (-EXDEV); a new name in a committed one begins a change to it.
 */
static int rename_committed(struct fs *fs, const struct caller *c, struct call *call)
{
	int err = in_checkpoint_begin_change(fs, c, call->to->dir, call->to->name,
					     (struct change){0});

	if (!err)
		err = in_checkpoint_is_committed(fs, call->c, call->from->dir);
	if (err > 0)
		return -EXDEV;
	return err ? err : -ENOTSUP;
}

/* Makes something from outside a part of a checkpoint. */
static int rename_into(struct fs *fs, struct in_checkpoint *in, struct call *call)
{
	struct backing b = fs_for(fs, call->c);
	struct inode_id from_dir = node_inode(call->from->dir);
	struct name_shown s;
	int err;

	names_look_saved(fs->engine->units, &from_dir, call->from->name, 0, &s);
	err = s.file && generation_is_open(s.file)
		      ? 1
		      : in_checkpoint_is_committed(fs, call->c, call->from->dir);
	names_put(&s);
	if (err > 0)
		err = -EXDEV; /* the program then copies it, once it is closed */
	if (!err && call->flags & RENAME_EXCHANGE)
		err = -EXDEV;
	if (!err)
		err = units_settle_name(fs->engine->units, &from_dir, call->from->name);
	if (!err)
		err = route_data_first(fs, call->c, call->from);
	if (!err)
		err = checkpoint_claim(in->checkpoint, in->rel, in->process);
	if (!err)
		err = checkpoint_join(in->checkpoint, in->process);
	if (!err)
		err = change_from_nothing(in->checkpoint, in->process, in->rel);
	if (!err)
		err = in_checkpoint_take_away(fs, call->c, call->to, rename_now, call);
	if (err)
		return err == -EEXIST ? -ENOTSUP : err;
	tree_moved(fs->tree, &b, call->to->dir, call->to->name);
	checkpoint_note(in->checkpoint, EVIDENCE_CLOSE, in->rel, in->process->rank);
	if (!is_copied(call->from, call->to))
		checkpoint_note(in->checkpoint, EVIDENCE_RENAME, in->rel, in->process->rank);
	return 0;
}

/* Frees the new name of a checkpoint: only an empty directory gives way. */
static int make_way(struct fs *fs, const struct caller *c, const struct entry_name *to,
		    unsigned flags)
{
	struct inode_id dir = node_inode(to->dir);
	struct checkpoint *there = names_checkpoint(fs->engine->units, &dir, to->name);
	struct statx stx;
	int err;

	if (there) {
		err = flags & RENAME_NOREPLACE ? -EEXIST : checkpoint_remove(there, c);
		checkpoint_put(there);
		if (err && (err != -EEXIST || flags & RENAME_NOREPLACE))
			return err; /* else it was just committed: see below */
	}
	if (names_look_saved(fs->engine->units, &dir, to->name, 0, NULL))
		return -ENOTDIR;
	err = route_look_behind(fs, c, to, &stx);
	if (err)
		return err == -ENOENT ? 0 : err;
	if (flags & RENAME_NOREPLACE)
		return -EEXIST;
	if (!S_ISDIR(stx.stx_mode))
		return -ENOTDIR;
	return route_rmdir(fs, c, to);
}

/* Gives a checkpoint another name. */
static int rename_checkpoint(struct fs *fs, const struct caller *c, struct checkpoint *cp,
			     const struct entry_name *to, unsigned flags)
{
	struct place at = place_of(to);
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
		err = checkpoint_rename(cp, &at);
	if (!err)
		tree_placed(fs->tree, checkpoint_id(cp), to->dir, to->name);
	return err == -EEXIST && !(flags & RENAME_NOREPLACE) ? -ENOTSUP : err;
}

/* Renames over a checkpoint: only a directory may replace it, and only while it is empty. */
static int over_checkpoint(struct fs *fs, const struct caller *c, const struct entry_name *from,
			   const struct entry_name *to, unsigned flags)
{
	struct backing b = fs_for(fs, c);
	struct inode_id dir = node_inode(to->dir);
	struct statx stx;
	struct name_shown s;

	names_look_saved(fs->engine->units, &dir, to->name, 0, &s);
	names_put(&s);
	if (s.as != SHOWN_CHECKPOINT)
		return 0;
	if (flags & RENAME_NOREPLACE)
		return -EEXIST;
	if (flags || backing_stat_at(&b, from->at, from->name, &stx) || !S_ISDIR(stx.stx_mode))
		return -EISDIR;
	return make_way(fs, c, to, flags);
}

int in_checkpoint_rename(struct fs *fs, const struct caller *c, const struct entry_name *from,
			 const struct entry_name *to, unsigned flags)
{
	struct call call = {.fs = fs, .c = c, .from = from, .to = to, .flags = flags};
	struct inode_id dir = node_inode(from->dir);
	struct checkpoint *cp = names_checkpoint(fs->engine->units, &dir, from->name), *source;
	char rel[PATH_MAX];
	struct in_checkpoint in;
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
	err = in_checkpoint_enter(fs, c, to->dir, to->name, (struct change){0}, &in);
	if (err == 1 && source == in.checkpoint)
		err = rename_within(fs, &in, rel, &call);
	else if (err == 1 && !source)
		err = rename_into(fs, &in, &call);
	else if (err == 1 || (!err && source && checkpoint_is_pending(source)))
		err = -EXDEV;
	else if (!err)
		err = rename_committed(fs, c, &call);
	in_checkpoint_leave(&in);
	checkpoint_put(source);
	return err;
}
