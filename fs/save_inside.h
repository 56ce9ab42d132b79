/* SPDX-License-Identifier: MIT */
/*
 * What the files of save.h share. save.c: opens, and what is made. save_remove.c: removals.
 * save_rename.c: renames. save_change.c: sizes, times and attributes.
 */
#ifndef FS_SAVE_INSIDE_H
#define FS_SAVE_INSIDE_H

#include "fs/save.h"

/* True if a file of this name is published by a rename, when it is whole. save.c */
bool save_is_staged(struct fs *fs, const char *name);

/* What the backing has at a name, removed or not. 0 or -errno. save_remove.c */
int save_look_behind(struct fs *fs, const struct caller *c, const struct save_name *n,
		     struct inode_id *id, mode_t *mode);

/* As save_look_behind; -ENOENT also if it was removed. save_remove.c */
int save_look_up(struct fs *fs, const struct caller *c, const struct save_name *n,
		 struct inode_id *id, mode_t *mode);

/* Removes the file @n from the backing, or notes that it goes later. save_remove.c */
int save_unlink_published(struct fs *fs, const struct caller *c, const struct save_name *n);

/* Removes what is hidden in the directory @n, if it shows nothing else. save_remove.c */
int save_clear_dir(struct fs *fs, const struct caller *c, const struct save_name *n);

#endif
