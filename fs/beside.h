/* SPDX-License-Identifier: MIT */
/*
 * What programs do to ordinary names beside checkpoints, which may show the end of one: markers are
 * removed, pointer files get their names by a rename (those that are closed are pointer.c's).
 */
#ifndef FS_BESIDE_H
#define FS_BESIDE_H

#include "fs/fs.h"

/* A file has got the name @name in @dir, whole: as good as the close of it, if it is a pointer. */
void beside_renamed(struct fs *fs, struct node *dir, int at, const char *name);

void beside_unlinked(struct fs *fs, const struct node *dir, const char *name);

#endif
