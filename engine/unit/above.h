/* SPDX-License-Identifier: MIT */
/*
 * The directories above what is committed. Programs make them as any others, and sync none; what is
 * durable in one is lost with its name all the same. So the names on the way from the top are made
 * durable before a commit, once each.
 */
#ifndef ENGINE_UNIT_ABOVE_H
#define ENGINE_UNIT_ABOVE_H

#include "engine/unit/unit.h"

#define ABOVE_KEPT 256 /* a cache: one that is not in it is synced once more */

/*
 * Makes durable the names of the directory @dir, a descriptor, and of those above it. As @owner, or
 * the daemon. 0, or -errno. One that may not be opened, or is somewhere else by now, is none of
 * ours. Lock not held.
 */
int above_sync(struct units *us, const struct caller *owner, int dir);

#endif
