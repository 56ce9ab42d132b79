/* SPDX-License-Identifier: MIT */
/*
 * What the files of generations (file.h) share:
 *
 * - generation_begin.c: the staging file
 * - generation_settle.c: whether a generation is closed
 * - generation_writers.c: writers
 * - generation_wait.c: waits for the publish
 * - generation_name.c: a program removes or renames a generation
 * - hold.c: a thread has one for itself
 *
 * Functions that end in _locked are for callers that hold the units' lock.
 */
#ifndef ENGINE_CALLS_GENERATION_IMPL_H
#define ENGINE_CALLS_GENERATION_IMPL_H

#include "engine/calls/file.h"
#include "engine/save/units.h"

/* True if @g gets its name now or soon. False for a pointer that waits. */
bool generation_is_going_locked(const struct generation *g);

/* Makes @g OPEN or SEALED, by its handles and writers. */
void generation_settle_locked(struct generation *g);

/* Takes @o off the opens that @g expects. */
void generation_miss_locked(struct generation *g, struct opener *o);

/* As generation_drop, for @g alone, without older generations of its name. */
int generation_drop_one(struct generation *g);

/*
 * Lock not held. The caller held @g for its end (@with 0: then @g is SEALED), or was busy @with it.
 * True if @g now fails for a kept error.
 */
bool generation_let_go(struct generation *g, enum busy with);

/* Removes the staging file of @g from @dir, with the daemon's rights if need be. */
void generation_unstage(struct generation *g, int dir);

/* Renames the staging file of @g to @name in @dir. 0 also if it has that name already. */
int generation_move(struct generation *g, int from, int dir, const char *name);

/* As generation_expect. */
bool generation_expect_locked(struct generation *g, pid_t pid);

/* Fails @g with @err, because of @why: bytes that were promised to it will not come. */
void generation_give_up(struct generation *g, int err, const char *why);

/*
 * As generation_expect, for a file of a checkpoint, which may be SEALED already. @emptied: the file
 * was truncated for that open, which counts as a change.
 */
bool generation_expect_in(struct generation *g, pid_t pid, bool emptied);

/*
 * Drops @g and all older generations of its name: none of them will be published. Waits for a
 * publish that is under way; then returns -EEXIST.
 */
int generation_drop(struct generation *g);

#endif
