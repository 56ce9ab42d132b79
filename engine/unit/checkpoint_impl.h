/* SPDX-License-Identifier: MIT */
/*
 * What the files of checkpoint.h share:
 *
 * - checkpoint.c: lookup, references, its files
 * - checkpoint_state.c: the state, and what holds
 * - participant.c: processes that write to it
 * - checkpoint_stage.c: makes the staging directory, and shows it
 * - checkpoint_begin.c: begins it, or gives that up
 * - checkpoint_enter.c: processes that change it
 * - checkpoint_claim.c: its rule, or an ordinary directory
 * - checkpoint_name.c: a program removes or renames it
 * - checkpoint_end.c: the end
 * - hold.c, fail.c: a thread has one for itself; failure
 * - checkpoint_told.c: processes hear of a failure
 * - checkpoint_abandoned.c: a writer died, or the mount ends
 *
 * Functions that end in _locked are for callers that hold the units' lock. What other files of this
 * directory use is in internal.h.
 */
#ifndef ENGINE_UNIT_CHECKPOINT_IMPL_H
#define ENGINE_UNIT_CHECKPOINT_IMPL_H

#include "engine/unit/internal.h"

/* The checkpoint that a name shows, not referenced, or NULL. */
struct checkpoint *checkpoints_find_locked(struct units *us, const struct inode_id *dir,
					   const char *name);

/* Frees all of a list that no other thread knows any more. */
void checkpoint_free_participants(struct list *participants);

/* The participant of @cp that is @p, or NULL. */
struct participant *checkpoint_participant_of_locked(struct checkpoint *cp,
						     const struct process *p);

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

/*
 * Without locks. True if this call fails @cp. False: @cp has failed before, or does when the thread
 * that has it lets go; or @only_open and @cp is not OPEN.
 */
bool checkpoint_fail_if(struct checkpoint *cp, bool only_open, int err, const char *reason);

/* Lock not held. Notes that @cp replaces what has its name on the backing. 0 or -errno. */
int checkpoint_note_replaced(struct checkpoint *cp);

#endif
