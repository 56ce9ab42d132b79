/* SPDX-License-Identifier: MIT */
/*
 * Remembers directories that are no units. Each call that makes a file asks about all directories
 * above it, which on a network costs as much as the file. An answer holds for a second, as the
 * attributes of directories do, and no longer than until this mount publishes another unit.
 */
#ifndef FS_NO_UNIT_H
#define FS_NO_UNIT_H

#include "fs/tree.h"

struct fs;

/*
 * 1: the directory @n has a commit file. 0: it has none, or is gone. -EINPROGRESS: it is a
 * checkpoint that is being written or changed. -errno: unknown.
 */
int has_commit_file(struct fs *fs, const struct caller *c, struct node *n);

#endif
