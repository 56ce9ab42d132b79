/* SPDX-License-Identifier: MIT */
/*
 * What the files of generations (unit.h) share:
 *
 * - generation.c: references
 * - generation_begin.c: the staging file
 * - generation_find.c: by name, inode or staging name
 * - generation_settle.c: whether a generation is closed
 * - generation_writers.c: writers
 * - generation_wait.c: waits for the publish
 * - generation_name.c: a program removes or renames a generation
 * - generation_end.c: the end
 * - hold.c, fail.c: a thread has one for itself; failure
 *
 * All functions here are for callers that hold the units' lock. Functions that other files of this
 * directory use are in internal.h.
 */
#ifndef ENGINE_UNIT_GENERATION_IMPL_H
#define ENGINE_UNIT_GENERATION_IMPL_H

#include "engine/unit/internal.h"

/* The visible generation of a name, not referenced, or NULL. */
struct generation *units_find_locked(struct units *us, const struct inode_id *dir,
				     const char *name);

/* The generation of that inode, referenced, or NULL. */
struct generation *units_find_inode_locked(struct units *us, const struct inode_id *id);

/* The open by thread @pid that @g expects, or NULL. */
struct opener *generation_opener_of_locked(struct generation *g, pid_t pid);

/* As generation_expect. */
bool generation_expect_locked(struct generation *g, pid_t pid);

#endif
