/* SPDX-License-Identifier: MIT */
/*
 * Makes the directories above a committed unit durable. Programs create these directories and do
 * not sync them, and a crash that loses the name of a directory loses all that is in it. So the
 * daemon syncs each name on the way from the top once, before a commit.
 */
#ifndef ENGINE_SAVE_ABOVE_H
#define ENGINE_SAVE_ABOVE_H

#include "engine/save/generation.h"

#define ABOVE_KEPT 256 /* a cache; a directory that is not in it is synced again */

/*
 * Makes the names of the directory @dir (a descriptor) and of those above it durable, as @owner, or
 * as the daemon. 0 or -errno. A directory that may not be opened, or has been moved, is ignored.
 * Lock not held.
 */
int above_sync(struct units *us, const struct caller *owner, int dir);

#endif
