/* SPDX-License-Identifier: MIT */
/*
 * Directories that are no checkpoints: each call that makes a file asks that of all directories
 * above it, which on a network costs as much as the file. What was found out holds for a second, as
 * the attributes of directories do, and no longer than until this mount publishes another.
 */
#ifndef FS_NO_UNIT_H
#define FS_NO_UNIT_H

#include "fs/tree.h"

struct fs;

/*
 * Has the directory @n a commit file? 1; 0: it has none, or is gone; -EINPROGRESS: it is a
 * checkpoint that is being written, or changed, right now; -errno: that is not known.
 */
int has_commit_file(struct fs *fs, const struct caller *c, struct node *n);

#endif
