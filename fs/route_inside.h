/* SPDX-License-Identifier: MIT */
/*
 * What the files of route.h share. route.c: opens, and what is made. route_remove.c: removals.
 * route_rename.c: renames. route_change.c: sizes, times and attributes. route_file.c: the file at a
 * name.
 */
#ifndef FS_ROUTE_INSIDE_H
#define FS_ROUTE_INSIDE_H

#include "fs/route.h"

/* True if a file of this name is published by a rename, when it is whole. route_file.c */
bool route_is_staged(struct fs *fs, const char *name);

/* Removes the file @n from the backing, or notes that it goes later. route_remove.c */
int route_unlink_published(struct fs *fs, const struct caller *c, const struct entry_name *n);

#endif
