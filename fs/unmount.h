/* SPDX-License-Identifier: MIT */
/* Unmounting, from inside the daemon and from outside. */
#ifndef FS_UNMOUNT_H
#define FS_UNMOUNT_H

#include "fs/fs.h"
#include "fs/mountinfo.h"

/* The daemon unmounts its own mount point. -EBUSY with @e filled: in use, stays mounted. */
int unmount_self(struct fs *fs, struct error *e);

/* Takes it out of the tree; it works on for those who have files of it open. */
int unmount_detach(struct fs *fs, struct error *e);

/* From any process: unmounts @m, which is a bind mount of a ckptfs mount elsewhere. */
int unmount_bind(const struct mount_entry *m, struct error *e);

/*
 * From any process: detaches @path; with @abort every request on it fails first, so nothing can
 * hang. 0 or -errno with @e filled.
 */
int unmount_path(const struct mount_entry *m, bool abort, struct error *e);

/* " by python3 (pid 12), bash (pid 7)": who uses the mount, as far as may be seen; "" if nobody. */
void unmount_users(const char *mountpoint, char *buf, size_t size);

/*
 * Why the daemon @daemon of a mount that is gone from here goes on: which other mount namespace has
 * it, as far as may be seen.
 */
void unmount_held(const struct mount_entry *m, int daemon, char *buf, size_t size);

#endif
