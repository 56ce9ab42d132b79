/* SPDX-License-Identifier: MIT */
/*
 * What follows a commit that this mount makes: pointers that wait for the commit, and removals that
 * become due. Both go into the decision record (decision.h). The committer thread applies them
 * in that order, before the record goes. What comes too late for the record is applied as well
 * (journal.h), but a crash loses it.
 *
 * Only the committer of the checkpoint uses its struct following. Functions that end in _locked
 * need the units' lock.
 */
#ifndef ENGINE_COMMIT_JOURNAL_FOLLOWING_H
#define ENGINE_COMMIT_JOURNAL_FOLLOWING_H

#include "engine/journal/journal_pending.h"
#include "engine/record/decision.h"
#include "engine/save/checkpoint.h"

struct following {
	/* referenced; a written one is TAKEN or NAMING, a held one busy with BUSY_APPLY */
	struct pending taken[ORDER_MAX];
	size_t nr;
	bool recorded; /* the record may exist: what it says stays as it is */
	bool waits;    /* something was not done: the record stays */
	struct order order;
};

/* True if no thread changes or applies a pointer of @cp right now, so that they may be taken. */
bool following_rests_locked(struct checkpoint *cp);

/* @cp is COMMITTING: keeps others from changing the pointers that wait for it. */
void following_take_locked(struct checkpoint *cp);

/* Makes what was taken durable in staging, and fills cp->following->order. */
void following_prepare(struct checkpoint *cp);

/* (O6) @cp has its name: applies the pointers. */
void following_point(struct checkpoint *cp);

/* (O7) @cp is committed: applies the removals. False: the next mount or fsck has to do the rest. */
bool following_remove(struct checkpoint *cp);

/* @cp is not committed now: lets others change the pointers again. */
void following_release(struct checkpoint *cp);

#endif
