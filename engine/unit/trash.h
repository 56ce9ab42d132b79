/* SPDX-License-Identifier: MIT */
/*
 * What awaits removal: PARENT/.ckptfs-trash-<id>, a file or a directory tree, hidden in the mount.
 * It is removed by a thread of its own, since that may take long; what a crash leaves is fsck's.
 */
#ifndef ENGINE_UNIT_TRASH_H
#define ENGINE_UNIT_TRASH_H

#include "engine/unit/unit.h"

#define TRASH_PREFIX ".ckptfs-trash-"

/* Has the trash of @id (32 hex digits) in @dir removed, soon, as @owner. */
void trash_empty_later(struct units *us, const struct caller *owner, int dir, const char *id);

/*
 * Removes @name in @dir with all that is in it, as whoever this thread acts for; symbolic links are
 * not followed, other filesystems not entered. What @cached, which may be NULL, has of it is
 * forgotten. 0 or the first -errno; the rest is removed all the same.
 */
int trash_remove(struct backing *b, struct contents *cached, int dir, const char *name);

/*
 * Moves @name in @dir to trash, as @owner, if @is_it says that this is what is to go: any
 * descriptor of it, and what it is. Another that came to the name in that moment is given it back.
 * 1: it lies, durably, in the trash of @id. 0: it is not there. Or -errno.
 */
int trash_put(struct backing *b, const struct caller *owner, int dir, const char *name,
	      bool (*is_it)(void *arg, int pin, const struct statx *stx), void *arg,
	      char id[STAGING_MAX]);

/* Drops the lock meanwhile. */
void trash_empty_locked(struct units *us);

/*
 * Also makes room, where that is wanted (room.h), and does what waits from before the mount
 * (recover_mount.c).
 */
void *trash_main(void *units);

#endif
