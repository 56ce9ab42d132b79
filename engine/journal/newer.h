/* SPDX-License-Identifier: MIT */
/* Whether a newer unit stands beside one, as the backing tells. Takes no lock. */
#ifndef ENGINE_JOURNAL_NEWER_H
#define ENGINE_JOURNAL_NEWER_H

#include "engine/save/generation.h"

struct unit_place;

/*
 * True if a newer committed checkpoint stands beside @u. Without the lock. The newer one may be
 * removed as well, but stays until a newer one stands beside it.
 */
bool unit_has_newer(struct units *us, const struct caller *owner, const struct unit_place *u);

#endif
