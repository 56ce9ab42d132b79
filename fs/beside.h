/* SPDX-License-Identifier: MIT */
/*
 * What programs do to ordinary names beside checkpoints, which may show the end of one: markers are
 * removed, pointers get their names by a rename, or are symbolic links (those that are written are
 * pointer.c's).
 */
#ifndef FS_BESIDE_H
#define FS_BESIDE_H

#include "fs/fs.h"
#include "fs/save.h"

/* A file has got the name @name in @dir, whole: as good as the close of it, if it is a pointer. */
void beside_renamed(struct fs *fs, const struct caller *c, struct node *dir, int at,
		    const char *name);

void beside_unlinked(struct fs *fs, const struct node *dir, const char *name);

/*
 * Before what no checkpoint has is renamed, or a symbolic link is made: 0: as a pointer it waits
 * for a commit now (engine/unit/held.h), the caller's part is done. -ENOTSUP: it does not. Else
 * -errno.
 */
int beside_hold_renamed(struct fs *fs, const struct caller *c, const struct save_name *from,
			const struct save_name *to, unsigned flags);
int beside_hold_link(struct fs *fs, const struct caller *c, const struct save_name *n,
		     const char *target);

#endif
