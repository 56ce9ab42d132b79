/* SPDX-License-Identifier: MIT */
/*
 * What the files of checkpoint directories (directory.h) share:
 *
 * - checkpoint_begin.c: begins it, or gives that up
 * - checkpoint_enter.c: processes that change it
 * - checkpoint_claim.c: its rule, or an ordinary directory
 * - checkpoint_name.c: a program removes or renames it
 * - checkpoint_abandoned.c: a writer died, or the mount ends
 * - inherit.c, unshare.c: a change to a committed one
 * - hold.c: a thread has one for itself
 *
 * Functions that end in _locked are for callers that hold the units' lock.
 */
#ifndef ENGINE_CALLS_CHECKPOINT_IMPL_H
#define ENGINE_CALLS_CHECKPOINT_IMPL_H

#include "engine/calls/directory.h"
#include "engine/save/units.h"

/*
 * Drops the lock while it waits: for the commit of a checkpoint whose end was seen, since a later
 * change is one of the committed checkpoint; and for the verdict if a death has frozen it here. 0:
 * @cp is OPEN. -EEXIST: @cp is not OPEN any more. -EINTR, or the error that @cp failed with.
 */
int checkpoint_hold_still_locked(struct checkpoint *cp);

/*
 * Drops the lock while it waits. The caller becomes busy @with @cp: no other thread changes @cp
 * before checkpoint_let_go, or its end. Returns as checkpoint_hold_still_locked does.
 */
int checkpoint_hold_locked(struct checkpoint *cp, enum busy with);

/*
 * Lock not held. The caller had @cp for its commit (@with 0), or was busy @with it. True if an
 * error was kept meanwhile: then @cp fails now.
 */
bool checkpoint_let_go(struct checkpoint *cp, enum busy with);

/* Lock not held. A commit was not done: @cp is SEALED. True if @cp now fails for a kept error. */
bool checkpoint_give_back(struct checkpoint *cp);

/* For jobs_create. */
void checkpoints_process_ended(void *units, const struct process *p, struct writer_end end);

/* Names each directory in @dir that is still provisional, as an ordinary one. 0 or -errno. */
int checkpoints_yield_in(struct units *us, const struct inode_id *dir);

/*
 * Lock not held. @cp could not be shown, for @err, and ends. Other nodes may have found its claim
 * and joined: then it fails for its job, whose ranks count what they wrote there as saved. The
 * caller hears of that by the error returned.
 */
int checkpoint_give_up(struct checkpoint *cp, int err);

/*
 * As checkpoint_inherit, from a committed one, for a committer: does not wait for room, and hears
 * of no failure, which is for programs. Something was removed from that one, last at @removed_ns;
 * @may_be_ordinary: all of it may be gone.
 */
int checkpoint_inherit_now(struct units *us, const struct caller *c, struct process *p,
			   const struct place *at, uint64_t removed_ns, bool may_be_ordinary,
			   struct checkpoint **out);

#endif
