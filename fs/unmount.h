/* SPDX-License-Identifier: MIT */
/*
 * Unmounting, by the daemon and by other processes, and the search for what uses a mount. A mount
 * may hang, so only links and tables in /proc are read. Has no lock.
 */
#ifndef FS_UNMOUNT_H
#define FS_UNMOUNT_H

#include "fs/fs.h"
#include "fs/mountinfo.h"

/* Unmounts the daemon's own mount point. 0 or -errno, @e filled; -EBUSY: in use, it stays. */
int unmount_self(struct fs *fs, struct error *e);

/* Detaches the mount, which works on for open files. 0 or -errno; @e gets a message anyway. */
int unmount_detach(struct fs *fs, struct error *e);

/* For any process: unmounts @m, a bind mount of a ckptfs mount elsewhere. */
int unmount_bind(const struct mount_entry *m, struct error *e);

/*
 * For any process: detaches @m. @abort: every request on it fails first, so that nothing can hang.
 * 0 or -errno with @e filled.
 */
int unmount_path(const struct mount_entry *m, bool abort, struct error *e);

/* " by python3 (pid 12), bash (pid 7)": the processes that use the mount; "": none seen. */
void unmount_users(const char *mountpoint, char *buf, size_t size);

/*
 * Says why the daemon @daemon goes on although the mount is gone from here: the other mount
 * namespace that has it, as far as visible.
 */
void unmount_held(const struct mount_entry *m, int daemon, char *buf, size_t size);

#endif
