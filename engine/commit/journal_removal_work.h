/* SPDX-License-Identifier: MIT */
/*
 * Removals of committed checkpoints (journal/journal_removal.h) are judged, and applied.
 *
 * - journal_removal_judge.c: what becomes of a waiting removal
 * - journal_removal_work.c: the committers look at waiting removals from time to time
 * - journal_removal_apply.c: a removal leaves the backing, or becomes a change
 */
#ifndef ENGINE_COMMIT_JOURNAL_REMOVAL_WORK_H
#define ENGINE_COMMIT_JOURNAL_REMOVAL_WORK_H

#include "engine/journal/journal_removal_impl.h"

struct drain;

/* Applies the due removal of that name now, if possible. */
void removal_apply_due(struct units *us, const struct inode_id *dir, const char *name);

/* Drops the lock meanwhile. Does one thing that is due. False: nothing is. */
bool removals_work_locked(struct units *us);

/*
 * For callers that are short of room. Without the lock. Applies, early, the first waiting removal
 * that needs no further commit. @last_in: instead the first by @uid in that directory, even if it
 * removes the last committed checkpoint there. False: there was none.
 */
bool removals_hasten(struct units *us, uid_t uid, const struct inode_id *last_in);

/* Lock held. True if @d covers a partial removal that is still to become a change. */
bool removals_any_in_part(struct units *us, const struct drain *d);

/* For umount: applies what may be applied, and keeps the rest. Without the lock. */
void removals_finish(struct units *us);

/* --- for these files --- */

/* @hurry: no commit is waited for any more, as if the remover had ended. */
enum fate removal_fate_locked(struct units *us, const struct removal *r, bool hurry);

/* Finds the part of a remover that died. */
struct part *removal_cut_short_locked(const struct removal *r);

/* Begins a change that replaces the checkpoint by what is left of it. */
int removal_change(struct units *us, const struct removal *r);

/* Looks for what FATE_LOOK asks for. */
void removal_look(struct units *us, struct removal *r);

/* The same if @r is whole, else removal_change. */
int removal_apply(struct units *us, struct removal *r);

#endif
