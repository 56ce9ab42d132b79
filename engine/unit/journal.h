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
 *   (pointers_drop), the removal is applied (removal_make_way).
 *
 * Each mount has a journal of its own, in memory. What a crash finds in no record is lost: the
 * pointer says what it said, and the removed checkpoint is there. A node leaves its pointers to the
 * node that commits in its place (accord_pointers.c).
 *
 * Callers of these functions hold no lock. journal_pending.h and the headers above have the rest,
 * for this directory.
 */
#ifndef ENGINE_UNIT_JOURNAL_H
#define ENGINE_UNIT_JOURNAL_H

#include "engine/unit/unit.h"

/* --- pointers: journal_held.c, journal_written.c --- */

/*
 * @c creates @at as a symbolic link to @target. 1: the link is held. 0: @target names no unit that
 * is still to be committed, and nothing was done. Or -errno.
 */
int held_link(struct units *us, const struct caller *c, const struct place *at, const char *target);

/*
 * @c renames @from in @from_dir, a file or link on the backing that says @names, to @at. Returns as
 * held_link does; *@id: its inode.
 */
int held_rename(struct units *us, const struct caller *c, int from_dir, const char *from,
		const struct place *at, const char *names, struct inode_id *id);

/* @c renames what is held as @from to @at. 0: it is held, or on the backing. -ENOENT: none is. */
int held_move(struct units *us, const struct caller *c, const struct inode_id *from_id,
	      const char *from, const struct place *at, struct inode_id *id);

/* A path descriptor of the newest pointer held as @name, or -ENOENT. Cheap when nothing is held. */
int held_pin(struct units *us, const struct inode_id *dir, const char *name);

/*
 * Drops the pending pointers of @name in @dir, since the name was removed or given to something
 * else. Waits for one that is being applied. True if the mount showed one.
 */
bool pointers_drop(struct units *us, const struct inode_id *dir, const char *name);

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

#endif
