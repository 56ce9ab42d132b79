/* SPDX-License-Identifier: MIT */
/*
 * Copied commit files: those that programs make as they copy units, by `cp -r` of a bare backing,
 * rsync or an archive. Each unit gets a commit file of its own when it is committed; a copied or
 * forged one never gets that name on the backing. A copied one has no name there. The mount finds
 * the last COPIED_COMMITS_KEPT by the names that they were given, so that a program can go on to
 * set mode and times; if the directory has a commit file, the mount finds that instead.
 *
 * copied_commit_lock guards the table. All functions may be called from any thread.
 */
#ifndef FS_COPIED_COMMIT_H
#define FS_COPIED_COMMIT_H

#include "fs/route.h"

/* True for the name of a commit file, or of a copy of one that is not whole yet. */
bool copied_commit_is(const char *name);

/*
 * Makes the copied commit file @name in @dir, which is open as @at, as @c. A descriptor for reading
 * and writing, or the backing's -errno.
 */
int copied_commit_create(struct fs *fs, const struct caller *c, struct node *dir, int at,
			 const char *name, mode_t mode);

/* As tree_lookup, for a copied commit file. -ENOENT: there is none. */
int copied_commit_lookup(struct fs *fs, const struct caller *c, struct node *dir, const char *name,
			 struct node **out, struct statx *stx);

/*
 * Removes a copied commit file. If a unit's commit file has the name, begins a change to the unit,
 * which gets a new one: tar removes it before it extracts over it. 0; -ENOENT: none is there; or
 * -errno.
 */
int copied_commit_unlink(struct fs *fs, const struct caller *c, struct node *dir, const char *name);

/*
 * Gives a copied commit file another name of one. 0; -ENOENT: none is there; -EXDEV: it is to get
 * another kind of name, and the program copies it.
 */
int copied_commit_move(struct fs *fs, const struct entry_name *from, const struct entry_name *to);

/* From now on that name finds @fd, which it takes over. */
void copied_commit_keep(struct fs *fs, const struct inode_id *dir, const char *name, int fd);

/* Forgets all, when the mount ends. */
void copied_commit_finish(struct fs *fs);

#endif
