/* SPDX-License-Identifier: MIT */
/*
 * Removals: unlink and rmdir, of what is being saved and of what is published. A checkpoint that
 * its job removes stays on the backing until a newer one is there: journal_removal.h. Has no lock
 * of its own. route_rename.c renames.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"
#include "engine/calls/directory.h"
#include "engine/calls/file.h"
#include "engine/calls/pointers.h"
#include "engine/content/content.h"
#include "engine/content/recorded.h"
#include "engine/format/names.h"
#include "engine/journal/journal.h"
#include "engine/liveness/job.h"
#include "engine/names/names.h"
#include "engine/rule/rule.h"
#include "fs/copied_commit.h"
#include "fs/evidence_name.h"
#include "fs/in_checkpoint.h"
#include "fs/route_inside.h"

/* True for a name as mkstemp makes them, even with the ending of a checkpoint. */
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
 * 1: a job removes the single-file checkpoint @n, which stays on the backing until a newer one is
 * there. 0: it goes at once. Else -errno.
 */
static int remove_later(struct fs *fs, const struct caller *c, const struct entry_name *n)
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
	err = route_look_behind(fs, c, n, &stx);
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

/* Once the last name is gone, the cache drops what it has of the file. */
int route_unlink_published(struct fs *fs, const struct caller *c, const struct entry_name *n)
{
	struct backing b = fs_as(fs, c);
	struct backing daemon = fs_for(fs, c);
	__cleanup_fd int held = -1;
	struct content *ct = NULL;
	struct inode_id id;
	struct statx stx;
	int err = remove_later(fs, c, n);

	if (err)
		return err < 0 ? err : 0;
	if (contents_any(fs->engine->contents) && !route_look_behind(fs, c, n, &stx)) {
		id = inode_id_of(&stx);
		ct = content_find(fs->engine->contents, &id);
	}
	held = recorded_hold(&b, n->at, n->name, &stx);
	err = backing_unlink(&b, n->at, n->name, false);
	if (ct && !err)
		content_forget(ct);
	content_put(ct);
	if (!err && held >= 0)
		recorded_forget(&daemon, &stx);
	return err;
}

struct removal {
	struct fs *fs;
	const struct caller *c;
	const struct entry_name *name;
};

static int remove_from_backing(void *removal)
{
	struct removal *r = removal;
	int err = route_unlink_published(r->fs, r->c, r->name);

	return err == -ENOENT ? 0 : err; /* only the cache has it */
}

int route_unlink(struct fs *fs, const struct caller *c, const struct entry_name *n)
{
	struct backing b = fs_as(fs, c);
	struct removal removal = {fs, c, n};
	struct inode_id dir = node_inode(n->dir);
	struct in_checkpoint in;
	struct name_shown s;
	bool held;
	int err;

	if (!fs->engine->units)
		return backing_unlink(&b, n->at, n->name, false);
	if (copied_commit_is(n->name) || name_is_reserved(n->name))
		return copied_commit_unlink(fs, c, n->dir, n->name);
	err = in_checkpoint_enter(fs, c, n->dir, n->name, (struct change){.removes = true}, &in);
	if (err > 0)
		err = in_checkpoint_unlink(fs, c, &in, n);
	if (err || in.checkpoint) {
		in_checkpoint_leave(&in);
		return err;
	}
	err = in_checkpoint_remove_later(fs, c, n, false);
	if (err)
		return err < 0 ? err : 0;
	held = pointers_drop(fs->engine->units, &dir, n->name);
	names_look_saved(fs->engine->units, &dir, n->name, 0, &s);
	err = s.file ? generation_unlink(s.file, remove_from_backing, &removal) : -EEXIST;
	names_put(&s);
	if (err == -EEXIST)
		err = route_unlink_published(fs, c, n);
	if (err == -ENOENT && held)
		err = 0;
	if (!err)
		evidence_name_unlinked(fs, n->dir, n->name);
	return err;
}

int route_rmdir(struct fs *fs, const struct caller *c, const struct entry_name *n)
{
	struct backing b = fs_as(fs, c), daemon = fs_for(fs, c);
	struct inode_id dir = node_inode(n->dir);
	struct checkpoint *cp = names_checkpoint(fs->engine->units, &dir, n->name);
	struct in_checkpoint in = {.checkpoint = NULL};
	int err = cp ? checkpoint_remove(cp, c) : -EEXIST;

	checkpoint_put(cp);
	if (err != -EEXIST)
		return err;
	err = in_checkpoint_enter(fs, c, n->dir, n->name, (struct change){.removes = true}, &in);
	if (!err && fs->engine->units)
		err = in_checkpoint_remove_later(fs, c, n, true);
	if (err && !in.checkpoint)
		return err < 0 ? err : 0;
	err = backing_unlink(&b, n->at, n->name, true);
	in_checkpoint_leave(&in);
	if ((err != -ENOTEMPTY && err != -EEXIST) || !fs->engine->units)
		return err;
	if (!units_clear_dir(fs->engine->units, &daemon, n->at, n->name))
		err = backing_unlink(&b, n->at, n->name, true);
	return err;
}
