/* SPDX-License-Identifier: MIT */
/* The trash thread, which removes what lies in trash (engine/redo/trash.h). */
#ifndef ENGINE_UNIT_TRASH_THREAD_H
#define ENGINE_UNIT_TRASH_THREAD_H

#include "engine/unit/unit.h"

/* Queues the trash of @id (32 hex digits) in @dir for removal, as @owner. */
void trash_empty_later(struct units *us, const struct caller *owner, int dir, const char *id);

/* Drops the lock meanwhile. */
void trash_empty_locked(struct units *us);

/* The thread, which also makes room (room.h) and repeats recovery (recover_mount.c). */
void *trash_main(void *units);

#endif
