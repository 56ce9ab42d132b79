/* SPDX-License-Identifier: MIT */
/*
 * Drains: a caller waits until unfinished saves are committed, and wants that soon. While a drain
 * waits, writers that exited with 0 need no silence (`quiet` counts as passed), and descriptors
 * left open get no grace period. Both hold only for the saves that the drain covers.
 *
 * The units' lock guards units->drains.
 */
#ifndef ENGINE_UNIT_DRAIN_H
#define ENGINE_UNIT_DRAIN_H

#include "engine/unit/unit.h"

/* True if @d, or any drain that waits, covers what @p of @uid saves. */
bool drain_covers_locked(const struct drain *d, const struct process *p, uid_t uid);
bool drains_cover_locked(const struct units *us, const struct process *p, uid_t uid);

/* True if @d waits for the commit of this unit. */
bool drain_lists_file_locked(const struct drain *d, const struct generation *g);
bool drain_lists_checkpoint_locked(const struct drain *d, const struct checkpoint *cp);

#endif
