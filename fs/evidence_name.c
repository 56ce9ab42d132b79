/* SPDX-License-Identifier: MIT */
#include "fs/evidence_name.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"
#include "engine/calls/pointers.h"
#include "engine/content/content.h"
#include "engine/names/names.h"
#include "engine/rule/rule.h"
#include "engine/save/checkpoint.h"

#define POINTER_MAX 4096 /* bytes read of a file; a pointer has fewer */

/* True if the file @fd (any descriptor of it) is a pointer under the name @name; fills @target. */
static bool says(struct fs *fs, struct backing *b, int fd, const char *name,
		 char target[NAME_MAX + 1])
{
	char content[POINTER_MAX];
	int r = backing_reopen(b, fd, O_RDONLY | O_NONBLOCK);
	ssize_t len = r < 0 ? r : backing_read(b, r, content, sizeof(content), 0);

	if (r >= 0)
		close(r);
	return len > 0 &&
	       rules_pointer_names(fs->engine->rules, name, content, (size_t)len, target);
}

/* Reports what the file @name in @dir points to; @fd is any descriptor of it. */
static void tell_pointed(struct fs *fs, struct backing *b, const struct node *dir, const char *name,
			 int fd)
{
	struct inode_id dir_id = node_inode(dir);
	char target[NAME_MAX + 1];

	if (says(fs, b, fd, name, target))
		checkpoints_note_pointed(fs->engine->units, &dir_id, target, name);
}

void evidence_name_renamed(struct fs *fs, const struct caller *c, struct node *dir, int at,
			   const char *name)
{
	struct backing b = fs_for(fs, c);
	struct inode_id id = node_inode(dir);
	int pin;

	checkpoints_note_beside(fs->engine->units, &id, EVIDENCE_RENAME, name);
	if (!rules_is_pointer(fs->engine->rules, name))
		return;
	pin = backing_pin(&b, at, name);
	if (pin < 0)
		return;
	tell_pointed(fs, &b, dir, name, pin);
	close(pin);
}

void evidence_name_unlinked(struct fs *fs, const struct node *dir, const char *name)
{
	struct inode_id id = node_inode(dir);

	checkpoints_note_beside(fs->engine->units, &id, EVIDENCE_UNLINK, name);
}

/* --- pointers that get their name by a rename or as a link --- */

/* True if @from, whose attributes are @stx, is a pointer under the name @to; fills @target. */
static bool would_name(struct fs *fs, struct backing *b, const struct entry_name *from,
		       const struct statx *stx, const char *to, char target[NAME_MAX + 1])
{
	char content[POINTER_MAX];
	__cleanup_fd int pin = -1;
	int len;

	if (S_ISREG(stx->stx_mode) && !rules_is_pointer(fs->engine->rules, to))
		return false;
	pin = backing_pin(b, from->at, from->name);
	if (pin < 0)
		return false;
	if (S_ISREG(stx->stx_mode))
		return says(fs, b, pin, to, target);
	len = backing_readlink(b, pin, content, sizeof(content) - 1);
	if (len < 0)
		return false;
	content[len] = '\0';
	return rules_link_names(content, target);
}

/* @from is on the backing, in no unit. 1: it is a pending pointer now. 0: it is none. Or -errno. */
static int hold_file(struct fs *fs, const struct caller *c, const struct entry_name *from,
		     const struct entry_name *to, unsigned flags, struct inode_id *id)
{
	struct backing b = fs_for(fs, c);
	struct place at = place_of(to);
	char target[NAME_MAX + 1];
	struct statx stx, there;
	int err = backing_stat_at(&b, from->at, from->name, &stx);

	if (err || (!S_ISREG(stx.stx_mode) && !S_ISLNK(stx.stx_mode)))
		return 0;
	err = backing_stat_at(&b, to->at, to->name, &there);
	if (!err && flags & RENAME_NOREPLACE)
		return -EEXIST;
	if ((!err && S_ISDIR(there.stx_mode)) || (!err && there.stx_ino == stx.stx_ino))
		return 0;
	if (S_ISREG(stx.stx_mode) && rules_is_pointer(fs->engine->rules, to->name)) {
		err = route_data_first(fs, c, from);
		if (err)
			return err;
	}
	if (!would_name(fs, &b, from, &stx, to->name, target))
		return 0;
	return held_rename(fs->engine->units, c, from->at, from->name, &at, target, id);
}

/* Reports a pending pointer as evidence, as if it had its name already. */
static void tell_held(struct fs *fs, struct backing *b, const struct entry_name *to)
{
	struct inode_id dir = node_inode(to->dir);
	int pin = held_pin(fs->engine->units, &dir, to->name);

	checkpoints_note_beside(fs->engine->units, &dir, EVIDENCE_RENAME, to->name);
	if (pin < 0)
		return;
	if (rules_is_pointer(fs->engine->rules, to->name))
		tell_pointed(fs, b, to->dir, to->name, pin);
	close(pin);
}

int evidence_name_hold_renamed(struct fs *fs, const struct caller *c, const struct entry_name *from,
			       const struct entry_name *to, unsigned flags)
{
	struct backing b = fs_for(fs, c);
	struct units *us = fs->engine->units;
	struct inode_id from_dir = node_inode(from->dir), id;
	struct place at = place_of(to);
	struct statx stx;
	int err;

	if (flags & ~RENAME_NOREPLACE || names_look_saved(us, &from_dir, from->name, 0, NULL) ||
	    names_look_saved(us, &at.id, to->name, 0, NULL))
		return -ENOTSUP;
	err = hold_file(fs, c, from, to, flags, &id);
	if (!err && backing_stat_at(&b, from->at, from->name, &stx) == -ENOENT) {
		err = held_move(us, c, &from_dir, from->name, &at, &id);
		err = err ? err : 1;
	}
	if (err != 1)
		return err && err != -ENOENT ? err : -ENOTSUP;
	tree_placed(fs->tree, &id, to->dir, to->name);
	tell_held(fs, &b, to);
	return 0;
}

int evidence_name_hold_link(struct fs *fs, const struct caller *c, const struct entry_name *n,
			    const char *target)
{
	struct place at = place_of(n), beside = {-ENOENT, at.id, n->name};
	struct name_shown s;
	int err;

	if (!fs->engine->units)
		return -ENOTSUP;
	names_look(fs->engine->units, NULL, &beside, 0, &s);
	names_put(&s);
	if (s.as == SHOWN_POINTER)
		return -EEXIST;
	err = held_link(fs->engine->units, c, &at, target);
	return err == 1 ? 0 : err ? err : -ENOTSUP;
}
