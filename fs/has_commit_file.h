/* SPDX-License-Identifier: MIT */
/*
 * Whether a directory has a commit file, so is a unit. Each call that makes a file asks about all
 * directories above it, which on a network costs as much as the file. So the answer "none" holds
 * for a second, as the attributes of directories do, and no longer than until this mount publishes
 * another unit.
 */
#ifndef FS_HAS_COMMIT_FILE_H
#define FS_HAS_COMMIT_FILE_H

#include "fs/tree.h"

struct fs;

/*
 * 1: the directory @n has a commit file. 0: it has none, or is gone. -EINPROGRESS: it is a
 * checkpoint that is being written or changed. -errno: unknown.
 */
int has_commit_file(struct fs *fs, const struct caller *c, struct node *n);

#endif
