/* SPDX-License-Identifier: MIT */
/*
 * Passing files: commit files that programs make as they copy units, by `cp -r` of a bare backing,
 * rsync or an archive. Each unit gets a commit file of its own when it is committed; a copied or
 * forged one never gets that name on the backing. A passing file has no name there. The mount finds
 * the last PASSING_KEPT by the names that they were given, so that a program can go on to set mode
 * and times; if the directory has a commit file, the mount finds that instead.
 *
 * passing_lock guards the table. All functions may be called from any thread.
 */
#ifndef FS_PASSING_H
#define FS_PASSING_H

#include "fs/save.h"

/* True for the name of a commit file, or of a copy of one that is not whole yet: a passing name. */
bool passing_is(const char *name);

/*
 * Makes the passing file @name in @dir, which is open as @at, as @c. A descriptor for reading and
 * writing, or the backing's -errno.
 */
int passing_create(struct fs *fs, const struct caller *c, struct node *dir, int at,
		   const char *name, mode_t mode);

/* As tree_lookup, for a passing file. -ENOENT: there is none. */
int passing_lookup(struct fs *fs, const struct caller *c, struct node *dir, const char *name,
		   struct node **out, struct statx *stx);

/*
 * Removes a passing file. If a unit's commit file has the name, begins a change to the unit, which
 * gets a new one: tar removes it before it extracts over it. 0; -ENOENT: none is there; or -errno.
 */
int passing_unlink(struct fs *fs, const struct caller *c, struct node *dir, const char *name);

/*
 * Renames @from to @to, at least one of which is a passing name. What gets one loses its name on
 * the backing. 0 or -errno. -EXDEV: a passing file is to get another kind of name; the program
 * copies it.
 */
int passing_rename(struct fs *fs, const struct caller *c, const struct save_name *from,
		   const struct save_name *to, unsigned flags);

/* Forgets all, when the mount ends. */
void passing_finish(struct fs *fs);

#endif
