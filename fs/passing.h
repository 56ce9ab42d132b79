/* SPDX-License-Identifier: MIT */
/*
 * Commit files that programs make, as they copy units: `cp -r` of a bare backing, rsync, an
 * unpacked archive. Each unit has a commit file of its own, made when it is committed; another's,
 * or one that tells anything, never gets that name on the backing. What a program writes goes into
 * a file without a name, which is found by the name that it was given, so that who copies can go on
 * to set its mode and times by that. The last PASSING_KEPT of the mount are; where the directory
 * has a commit file, that is found instead.
 *
 * All functions may be called from any thread.
 */
#ifndef FS_PASSING_H
#define FS_PASSING_H

#include "fs/save.h"

/* A commit file, or a copy of one that is not whole yet: all names of which this speaks. */
bool passing_is(const char *name);

/*
 * Creates @name in @dir, which is open as @at. A descriptor for reading and writing, or -errno of
 * the backing, on which the file is made as @c.
 */
int passing_create(struct fs *fs, const struct caller *c, struct node *dir, int at,
		   const char *name, mode_t mode);

/* As tree_lookup, of one that is passing; -ENOENT: none is. */
int passing_lookup(struct fs *fs, const struct caller *c, struct node *dir, const char *name,
		   struct node **out, struct statx *stx);

/*
 * Removes one. That of a unit goes by a change to the unit, which gets another: as tar, that
 * extracts over it, removes it first. 0; -ENOENT: none is there; or -errno.
 */
int passing_unlink(struct fs *fs, const struct caller *c, struct node *dir, const char *name);

/*
 * Renames @from to @to, of which at least one is such a name: what gets it has it no longer on the
 * backing.
 * 0 or -errno; -EXDEV where one is to get another kind of name: it is copied, then.
 */
int passing_rename(struct fs *fs, const struct caller *c, const struct save_name *from,
		   const struct save_name *to, unsigned flags);

/* The mount ends. */
void passing_finish(struct fs *fs);

#endif
