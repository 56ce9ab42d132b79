/* SPDX-License-Identifier: MIT */
/*
 * What is left of checkpoints that have failed: their staging directories, hidden. They are kept, since
 * somebody may want to look, or to save what is there; but not at the expense of new ones. One that a
 * commit in its directory has outlived goes when there is no room. One that failed for want of room goes at
 * once: it is not whole, and is itself what there is no room for.
 *
 * Kept in any case: what was decided, which recovery needs; and what is whole, but in conflict with what has its
 * name, of which its owner was told.
 */
#ifndef ENGINE_UNIT_WRECK_H
#define ENGINE_UNIT_WRECK_H

#include "engine/unit/checkpoint.h"

/* Lock held. @cp was committed, and outlives those that have failed beside it. */
void wrecks_outlived(struct units *us, const struct checkpoint *cp);

/* Lock held. @cp has failed, for want of room: it is removed soon. */
void wreck_unwanted(struct checkpoint *cp);

/* Without the lock. Removes those that nobody wants; if somebody wants room, those that were outlived, too. */
bool wrecks_clear(struct units *us);

#endif
