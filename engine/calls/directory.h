/* SPDX-License-Identifier: MIT */
/* What calls of programs do to a checkpoint directory (save/checkpoint.h). Callers hold no lock. */
#ifndef ENGINE_CALLS_DIRECTORY_H
#define ENGINE_CALLS_DIRECTORY_H

#include "engine/save/checkpoint.h"

/*
 * Begins a checkpoint of @at for the process @p, with the rights of @c: makes its staging directory
 * with @mode and shows it. 0 and a reference, or -errno. -EEXIST: the name is taken.
 */
int checkpoint_begin(struct units *us, const struct caller *c, struct process *p,
		     const struct place *at, mode_t mode, struct checkpoint **out);

/*
 * As checkpoint_begin, from the directory that has the name, with everything in it; @committed:
 * that has a commit file. -EEXIST: another process has begun one. -EBUSY: a newer incarnation of
 * the job of @p has saved it. The caller has entered *@out, and has to leave it (checkpoint_leave):
 * so it does not end before the caller's change.
 */
int checkpoint_inherit(struct units *us, const struct caller *c, struct process *p,
		       const struct place *at, bool committed, struct checkpoint **out);

/*
 * Thread @c->pid, of rank @rank, will open the file at the path @rel in @cp for writing. A file
 * that @cp shares with what it inherited from becomes a copy, or @empty; and @cp does not end
 * before that open. Between enter and leave. 0, also if there is no such file, or -errno.
 */
int checkpoint_expect(struct checkpoint *cp, const struct caller *c, int rank, const char *rel,
		      bool empty);

/*
 * Before a change in @cp by @p (NULL: by no known process).
 * - 0: go on, and call checkpoint_leave afterwards.
 * - -EEXIST: @cp is a directory of the backing like any other by now.
 * - -EBUSY: a live job has @cp, and @p is of another.
 * - -ESTALE: look the name up again. The job of @p has superseded @cp, of which no process is left;
 *   or @cp failed for a reason that does not concern @p.
 * - -EINTR; or the error that @cp, or another checkpoint of the job of @p, failed with.
 */
int checkpoint_enter(struct checkpoint *cp, struct process *p);

/*
 * The same for a change by a process that has a file of @cp open, or mapped, since that was
 * written; it need not be known. -ESTALE: @cp is committed by now, and stays as it is.
 */
int checkpoint_enter_open(struct checkpoint *cp);

/*
 * @p is going to write to @cp: the end of @p is watched until the end of @cp was seen. 0 or -errno.
 */
int checkpoint_join(struct checkpoint *cp, struct process *p);

/*
 * @p, which has joined @cp, makes files as cp, tar and rsync do: under names that nothing has
 * (O_EXCL). A process without a rank copies, then: as long as it lives silence is no end, for it
 * may pause.
 */
void checkpoint_copied_by(struct checkpoint *cp, const struct process *p);

/*
 * Decides what @cp is, before @p makes the first file in it, at @rel. If the file shows it to be a
 * unit, the job of @p has it. Between enter and leave. 0: its rule is known, or it stays
 * provisional. -EEXIST: it is an ordinary directory, which now has its name on the backing. Else
 * -errno.
 */
int checkpoint_claim(struct checkpoint *cp, const char *rel, struct process *p);

/*
 * Before a directory whose name suggests a unit is made in @cp: @cp becomes ordinary, unless its
 * name or a file has shown it to be a unit. Returns as checkpoint_claim does.
 */
int checkpoint_yield(struct checkpoint *cp);

/*
 * @c removes the name of @cp, which is empty or not wanted any more: removes staging. 0, -EEXIST as
 * above.
 */
int checkpoint_remove(struct checkpoint *cp, const struct caller *c);

/*
 * A program gives @cp another name, which nothing has, or an empty directory. -EEXIST: @cp is
 * published by now. Else 0 or -errno.
 */
int checkpoint_rename(struct checkpoint *cp, const struct place *at);

/*
 * The mount at @mountpoint ends: fails checkpoints whose end was not seen, and drops those with
 * nothing in them. Returns how many failed.
 */
unsigned checkpoints_leave_open(struct units *us, const char *mountpoint);

#endif
