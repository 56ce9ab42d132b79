/* SPDX-License-Identifier: MIT */
/*
 * The journal: operations on the backing that wait for the commit of a save. The program that asked
 * for one goes on at once.
 *
 *   operation                                  kept by             waits for the commit
 *   a program writes a pointer                 journal_written.h   of what it names
 *   a program renames a pointer to its name,   journal_held.h      of what it names
 *   or makes a symbolic link
 *   a program removes a committed checkpoint   journal_removal.h   of a newer one by its job
 *
 * An operation ends in one of these ways:
 *
 * - The committer that commits the checkpoint takes what waits for that (journal_following.h). It
 *   goes into the decision record (decision.h), so that the next mount redoes it after a
 *   crash: first the pointers, then the removals, which spare what a pointer names.
 * - What comes too late for a record, and what waits for the save of a single file, is judged from
 *   time to time. engine/gen/fate.h decides whether it is applied, waits on or is dropped. The
 *   publishers do that for written pointers, the committers for all else (commit.c).
 * - The program gives the name to something else, or removes it: the pointer is dropped
 *   (calls/pointers.h), the removal is applied (removal_make_way).
 *
 * Each mount has a journal of its own, in memory. What a crash finds in no record is lost: the
 * pointer says what it said, and the removed checkpoint is there. A node tells with its vote what
 * waits on it, and the node that commits does that if the former is lost (accord_left.c).
 *
 * Callers of these functions hold no lock. journal_pending.h and the headers above have the rest,
 * for the rooms of saves.
 */
#ifndef ENGINE_JOURNAL_JOURNAL_H
#define ENGINE_JOURNAL_JOURNAL_H

#include "engine/save/generation.h"

struct dirwalk;
struct process;

/* --- removals: journal_removal*.c --- */

/* A committed checkpoint on the backing: @name in @dir. */
struct unit_place {
	int dir;
	struct inode_id dir_id, id;
	const char *name;
	bool file; /* a single file; else a directory */
};

/* Notes that @p of @c removes @name from the directory @dir of the unit @u. 0 or -ENOMEM. */
int removal_note(struct units *us, const struct caller *c, struct process *p,
		 const struct unit_place *u, const struct inode_id *dir, const char *name);

/*
 * True if @p removes @name from @dir as a job does, not as a person. Then the removal waits. One of
 * these is enough:
 *
 * - @p has a world of more than one rank.
 * - The job of @p is saving a checkpoint directory under another name in @dir.
 * - @p itself has saved a checkpoint, or a part of one, in @dir (removal_note_saver_locked).
 */
bool removal_waits(struct units *us, const struct process *p, const struct inode_id *dir,
		   const char *name);

/* @p removes the name of @u, after all names in it. A person's removal takes effect at once. */
void removal_complete(struct units *us, const struct process *p, const struct unit_place *u);

/*
 * Applies the whole removal of @name in @dir at once, because something else gets that name. 0,
 * also if there is none; -errno. Waits for a thread that is busy with it: -EINTR.
 */
int removal_make_way(struct units *us, const struct inode_id *dir, const char *name);

/* As removal_make_way, but for single-file checkpoints only. */
int removal_of_file_makes_way(struct units *us, const struct inode_id *dir, const char *name);

/* A rename on the backing replaced @name in @dir; by a whole file of the job of @maker, or NULL. */
void removal_renamed_over(struct units *us, const struct process *maker, const struct inode_id *dir,
			  const char *name);

/*
 * The checkpoint @from in @from_dir is @at now: a partial removal of it moves along. 0, or -errno:
 * what was removed is seen again.
 */
int removal_moved(struct units *us, const struct inode_id *from_dir, const char *from,
		  const struct place *at);

/* True if any removal is waiting. */
bool removals_any(struct units *us);

/* The removals that are not done, oldest first, with what each waits for. */
json_t *removals_to_json(struct units *us, uid_t viewer, bool all);

/* Calls @add with name, inode and type of each name of saves and waiting pointers in @dir. */
void units_list(struct units *us, const struct inode_id *dir,
		void (*add)(void *arg, const char *name, const struct inode_id *id, mode_t type),
		void *arg);

/* --- names that removals hide: journal_removal.c; none of these looks at the backing --- */

/*
 * True if @name in @dir was removed, even if the backing still has it. Cheap when nothing was
 * removed. Call this before looking at the backing: a name that leaves the backing between the two
 * calls is otherwise seen.
 */
bool removals_hide(struct units *us, const struct inode_id *dir, const char *name);

/* Changes when a name is hidden no more: for callers that look at the backing first (listings). */
unsigned removals_unhidden(const struct units *us);

/* Moves the walk @w over @dir to the next entry that programs see. False: at the end, or w->err. */
bool removals_next_seen(struct units *us, const struct inode_id *dir, struct dirwalk *w);

#endif
