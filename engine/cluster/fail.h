/* SPDX-License-Identifier: MIT */
/* The failure of a save, here and on all nodes that write to it. The caller holds no lock. */
#ifndef ENGINE_CLUSTER_FAIL_H
#define ENGINE_CLUSTER_FAIL_H

#include "engine/save/checkpoint.h"

/*
 * Fails @cp: hides it, and frees the cache of its files. Its writers are told at their next call,
 * unless their job wanted that (-ECANCELED) or is gone (-ESTALE). Without locks. No effect once @cp
 * is committed.
 */
void checkpoint_fail(struct checkpoint *cp, int err, const char *reason);

/*
 * Without locks. True if this call fails @cp. False: @cp has failed before, or does when the thread
 * that has it lets go; or @only_open and @cp is not OPEN.
 */
bool checkpoint_fail_if(struct checkpoint *cp, bool only_open, int err, const char *reason);

/* As checkpoint_fail, but only if it is still OPEN, and no thread has it. */
void checkpoint_fail_open(struct checkpoint *cp, int err, const char *reason);

/*
 * Fails @g, with @reason for people. Takes the lock. If a thread holds @g, the error is kept: @g
 * fails when that thread lets go of it unpublished.
 */
void generation_fail(struct generation *g, int err, const char *reason);

#endif
