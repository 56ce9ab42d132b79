/* SPDX-License-Identifier: MIT */
/*
 * Makes a mount read-only, or writable again: `mount -o remount,ro` and `remount,rw`. The kernel
 * does it, for the whole filesystem, and refuses it while a file is open for writing. Asks the
 * daemon by its socket, never the mount; has no lock.
 */
#ifndef FS_REMOUNT_H
#define FS_REMOUNT_H

#include "engine/config/config.h"
#include "fs/mountinfo.h"

/* The ckptfs mount at exactly @point. 0 or -errno with @e filled. */
int remount_find(const char *point, struct mount_entry *m, struct error *e);

/*
 * Applies `ro` of @wanted; all other options must stay as they are. -EBUSY: a checkpoint is being
 * saved, or a file is open for writing. Else: another option would change. On error nothing has
 * changed, and @e is filled.
 */
int remount(const struct mount_entry *m, const struct config *wanted, struct error *e);

#endif
