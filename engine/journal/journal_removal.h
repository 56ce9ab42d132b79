/* SPDX-License-Identifier: MIT */
/*
 * Removals of committed checkpoints that wait for the next commit (ckptfs-semantics(7), POINTERS
 * AND REMOVALS): a job that rotates its checkpoints always has its last good one. What a job
 * removes leaves the mount at once. A removed checkpoint leaves the backing, by one rename to
 * trash, only when a newer one of that job is committed beside it and no pointer names it. When the
 * remover exits, on time-out and at umount, a newer one that was committed before suffices. If
 * there is none, the removal is cancelled on time-out and at umount, and the checkpoint reappears:
 * at once if the remover died, or if a checkpoint that its job saved beside it on several nodes
 * failed.
 *
 * The first removed name in a checkpoint begins a removal. The rmdir of the top makes the removal
 * whole, and its process the remover. A removal that stops in the middle becomes a change to the
 * checkpoint, like any other, after some silence (quiet_s). If no file is left, that change makes
 * the checkpoint an ordinary directory; but one that a job has emptied waits as if the removal were
 * whole. If a remover is killed in the middle, what its job has removed reappears, and what others
 * have removed does not. All this holds for a person's removal too, except that a whole one does
 * not wait.
 */
#ifndef ENGINE_JOURNAL_JOURNAL_REMOVAL_H
#define ENGINE_JOURNAL_JOURNAL_REMOVAL_H

#include "engine/base/json.h"
#include "engine/journal/journal.h"
#include "engine/record/decision.h"
#include "engine/save/checkpoint.h"

/* The same for the name @name in @dir. NULL: no removal. */
json_t *removal_describe(struct units *us, const struct inode_id *dir, const char *name);

/* Notes that @p saves checkpoints in that directory. */
void removal_note_saver_locked(struct units *us, struct process *p, const struct inode_id *dir);

/*
 * Lists the removals that the commit of @cp makes due, and another process can do. @named: those of
 * what a pointer names now, too, beside the pointers in @order.
 */
void removals_list(struct checkpoint *cp, struct order *order, bool named);

/* True if a thread is busy with the removal of that name. */
bool removal_is_applied_locked(struct units *us, const struct inode_id *dir, const char *name);

/*
 * @p of @c removes @cp, a change to a committed checkpoint: the latter is removed with it, at once
 * or when a newer one is committed.
 */
void removal_of_replaced(struct checkpoint *cp, const struct caller *c, struct process *p);

/* @cp was committed: makes the removals that waited for it due. */
void removals_committed_locked(struct units *us, const struct checkpoint *cp);

/* The same for a file that got the name @name in @dir, by the job of @maker; NULL: by a change. */
void removals_published_locked(struct units *us, const struct process *maker,
			       const struct inode_id *dir, const char *name);

/* Another file has the name of a removed single-file checkpoint: that is gone, its removal due. */
void removal_of_file_replaced_locked(struct units *us, const struct inode_id *dir,
				     const char *name);

#endif
