/* SPDX-License-Identifier: MIT */
/* What is to be removed from trash (engine/redo/trash.h), by the trash thread or at umount. */
#ifndef ENGINE_SAVE_TRASH_QUEUE_H
#define ENGINE_SAVE_TRASH_QUEUE_H

#include "engine/save/generation.h"

/* Queues the trash of @id (32 hex digits) in @dir for removal, as @owner. */
void trash_empty_later(struct units *us, const struct caller *owner, int dir, const char *id);

/* Drops the lock meanwhile. */
void trash_empty_locked(struct units *us);

#endif
