/* SPDX-License-Identifier: MIT */
/*
 * Makes a mount that is there read-only, or writable again: `mount -o remount,ro` and `remount,rw`.
 * The kernel does it, for the whole filesystem, and refuses it while a file is open for writing. It
 * never waits for the mount.
 */
#ifndef FS_REMOUNT_H
#define FS_REMOUNT_H

#include "engine/config/config.h"
#include "fs/mountinfo.h"

/* The ckptfs mount at exactly @point. 0 or -errno with @e filled. */
int remount_find(const char *point, struct mount_entry *m, struct error *e);

/*
 * As @wanted says; all of it but `ro` must be as it is. -EBUSY: a checkpoint is being saved, or a
 * file is open for writing; other errors: nothing else can be changed. Then nothing was, and @e is
 * filled.
 */
int remount(const struct mount_entry *m, const struct config *wanted, struct error *e);

#endif
