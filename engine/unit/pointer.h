/* SPDX-License-Identifier: MIT */
/*
 * Pointer files (DESIGN 4, "What waits for a commit"): `latest` and the like, whose content names a
 * checkpoint beside them. Each write of one is a generation, published as any file is, but not before
 * what it names is committed; never if that fails. Until then its name shows, also in the mount, what
 * was applied last: only handles that wrote it see the new content.
 *
 * All with the units' lock held, but for the last.
 */
#ifndef ENGINE_UNIT_POINTER_H
#define ENGINE_UNIT_POINTER_H

#include "engine/unit/unit.h"

/* It was closed, perhaps once more: which checkpoint does it wait for? That gets the close as evidence. */
void pointer_closed(struct generation *g);

enum pointer_fate { POINTER_GO, POINTER_WAIT, POINTER_DROP };

enum pointer_fate pointer_judge(struct generation *g);

/* One that is not applied: tells people why. Without the lock. */
void pointer_dropped(struct generation *g);

#endif
