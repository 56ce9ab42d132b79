/* SPDX-License-Identifier: MIT */
/*
 * Evidence of a checkpoint's end from ordinary names beside it: a marker is removed, a pointer gets
 * its name by a rename, or is a symbolic link. (The engine's journal_written.c handles pointers
 * that are written in place.) Keeps no state, and holds no lock across a call on the backing.
 */
#ifndef FS_EVIDENCE_NAME_H
#define FS_EVIDENCE_NAME_H

#include "fs/fs.h"
#include "fs/route.h"

/* The file @name in @dir got that name, whole. For a pointer, that counts as its close. */
void evidence_name_renamed(struct fs *fs, const struct caller *c, struct node *dir, int at,
			   const char *name);

void evidence_name_unlinked(struct fs *fs, const struct node *dir, const char *name);

/*
 * Call before a name that no checkpoint has is renamed, or a symbolic link is made. 0: it is a
 * pending pointer now (engine/journal/held.h), and the caller is done. -ENOTSUP: it is none,
 * and the caller goes on. Else -errno.
 */
int evidence_name_hold_renamed(struct fs *fs, const struct caller *c, const struct entry_name *from,
			       const struct entry_name *to, unsigned flags);
int evidence_name_hold_link(struct fs *fs, const struct caller *c, const struct entry_name *n,
			    const char *target);

#endif
