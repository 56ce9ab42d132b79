/* SPDX-License-Identifier: MIT */
/*
 * What programs do inside checkpoints that are being written: to files and names in a staging
 * directory, where nothing of it has to be hidden any more. Each change is one of the checkpoint
 * (checkpoint_enter), and may be evidence of its end.
 */
#ifndef FS_INSIDE_H
#define FS_INSIDE_H

#include "fs/save.h"

struct inside {
	struct checkpoint *checkpoint; /* referenced */
	struct process *process;       /* who calls, referenced */
	char rel[PATH_MAX];	       /* of the name that is changed */
};

/* What is done to a name. */
struct change {
	bool removes;
	bool makes_file;
	bool opens, empties; /* it is written to, from nothing */
};

/*
 * Is @name in @dir (or @dir itself: @name NULL) in a checkpoint that may still be changed? 1: yes,
 * and inside_leave is to be said when the change is done. 0: no. -EBUSY, -EINTR, or what it failed
 * with. -ESTALE: what another job left there is given up; what comes instead is found where the
 * path is looked up again.
 */
int inside_enter(struct fs *fs, const struct caller *c, struct node *dir, const char *name,
		 struct change change, struct inside *in);
void inside_leave(struct inside *in);

/*
 * Before a change to @name in @dir, which is in no checkpoint that is being written: is a directory
 * above it a unit, or shown to be one by that file? 0: no. -ESTALE: a generation that changes it
 * was begun, and is found where the path is looked up again. A second ESTALE would reach the
 * program: there is no reason for one.
 */
int inside_begin(struct fs *fs, const struct caller *c, struct node *dir, const char *name,
		 struct change change);

/* 1: the directory is in a committed checkpoint, or is that; 0; -errno. */
int inside_is_in_committed(struct fs *fs, const struct caller *c, struct node *dir);

/*
 * Removes @n from a committed unit as a job does: not from the backing, before the next commit.
 * @directory: by rmdir. 0: no, it is to be removed there. 1: it was. -errno.
 */
int inside_remove_later(struct fs *fs, const struct caller *c, const struct save_name *n,
			bool directory);

/*
 * As save_create and save_open, for one that was entered. -EAGAIN: it is an ordinary directory now.
 */
int inside_create(struct fs *fs, const struct caller *c, struct inside *in, struct node *dir,
		  int at, const char *name, mode_t mode, int flags, struct generation **g);
int inside_open(struct fs *fs, const struct caller *c, struct inside *in, struct node *n, int flags,
		struct generation **g);
int inside_unlink(struct fs *fs, const struct caller *c, struct inside *in,
		  const struct save_name *n);

/*
 * A rename of which at least one side is in a checkpoint, or is one. -ENOTSUP: neither is, any
 * more.
 */
int inside_rename(struct fs *fs, const struct caller *c, const struct save_name *from,
		  const struct save_name *to, unsigned flags);

#endif
