/* SPDX-License-Identifier: MIT */
/*
 * Changes by programs inside checkpoints that are being written: to files and names in a staging
 * directory, where nothing needs hiding any more. Each one is a change of the checkpoint
 * (checkpoint_enter), and may be evidence of its end. Has no lock of its own, and holds none across
 * a call on the backing.
 */
#ifndef FS_IN_CHECKPOINT_H
#define FS_IN_CHECKPOINT_H

#include "fs/route.h"

struct in_checkpoint {
	struct checkpoint *checkpoint; /* referenced */
	struct process *process;       /* the caller, referenced */
	char rel[PATH_MAX];	       /* path of the changed name in it */
};

/* What a call does to a name. */
struct change {
	bool removes;
	bool makes_file;
	bool opens, empties; /* opens it for writing; empties it before */
};

/*
 * Enters the checkpoint that contains @name in @dir (@name NULL: @dir itself), if it may still be
 * changed. 1: entered; the caller calls in_checkpoint_leave after the change. 0: there is none.
 * -EBUSY, -EINTR, or the error that it failed with. -ESTALE: look the path up again: what another
 * job left there was given up.
 */
int in_checkpoint_enter(struct fs *fs, const struct caller *c, struct node *dir, const char *name,
			struct change change, struct in_checkpoint *in);
void in_checkpoint_leave(struct in_checkpoint *in);

/*
 * Call before a change to @name in @dir, which is in no checkpoint that is being written. If a
 * directory above it is a unit, or the new file shows it to be one, begins a generation that
 * changes it. 0: none is. -ESTALE: look the path up again, which finds that generation. The program
 * would get a second ESTALE, but nothing causes one.
 */
int in_checkpoint_begin_change(struct fs *fs, const struct caller *c, struct node *dir,
			       const char *name, struct change change);

/* 1: the directory is a committed checkpoint, or in one. 0: it is not. Else -errno. */
int in_checkpoint_is_committed(struct fs *fs, const struct caller *c, struct node *dir);

/*
 * Removes @n from a committed unit the way a job does: on the backing only after the next commit.
 * @directory: by rmdir. 0: it is in no such unit; remove it on the backing. 1: done. Else -errno.
 */
int in_checkpoint_remove_later(struct fs *fs, const struct caller *c, const struct entry_name *n,
			       bool directory);

/*
 * As route_create and route_open, in a checkpoint that was entered. -EAGAIN: that is an ordinary
 * directory now.
 */
int in_checkpoint_create(struct fs *fs, const struct caller *c, struct in_checkpoint *in,
			 struct node *dir, int at, const char *name, mode_t mode, int flags,
			 struct generation **g);
int in_checkpoint_open(struct fs *fs, const struct caller *c, struct in_checkpoint *in,
		       struct node *n, int flags, struct generation **g);
int in_checkpoint_unlink(struct fs *fs, const struct caller *c, struct in_checkpoint *in,
			 const struct entry_name *n);

/* The generation that is written under a name of the backing, referenced, or NULL. */
struct generation *in_checkpoint_written_at(struct fs *fs, const struct caller *c,
					    const struct entry_name *n);

/* Calls @now, which takes the name @n away from what has it. */
int in_checkpoint_take_away(struct fs *fs, const struct caller *c, const struct entry_name *n,
			    int (*now)(void *arg), void *arg);

/* Renames where at least one side is a checkpoint, or in one. -ENOTSUP: neither is any more. */
int in_checkpoint_rename(struct fs *fs, const struct caller *c, const struct entry_name *from,
			 const struct entry_name *to, unsigned flags);

#endif
