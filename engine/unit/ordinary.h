/* SPDX-License-Identifier: MIT */
/*
 * Files that leave single-file treatment (DESIGN 3): those that are held open under a new name, and
 * were not written for open_max_s, like a log or a data set to which a program comes back for days.
 * On any other filesystem a crash would leave what was written under the name; so such a file gets
 * it as it is, without a digest, and what is written from then on goes to it as to any file of the
 * backing.
 *
 * Not what replaces another file, which a crash must not take away before the new one is whole. A
 * directory is no such case: it becomes ordinary by its first file (checkpoint_claim.c), or is
 * dropped with its maker (checkpoint_abandoned.c).
 */
#ifndef ENGINE_UNIT_ORDINARY_H
#define ENGINE_UNIT_ORDINARY_H

#include "engine/unit/unit.h"

/* Has it been open and unwritten for long enough? */
bool ordinary_is_due_locked(const struct generation *g, uint64_t now);

/*
 * What comes before its name, in place of digest and stamp. 0 or -errno; *step: at which it failed.
 */
int ordinary_prepare(struct generation *g, const char **step);

#endif
