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
 *   publishers do that for written pointers, the committers for all else (journal_work_locked).
 * - The program gives the name to something else, or removes it: the pointer is dropped
 *   (pointers_drop), the removal is applied (removal_make_way).
 *
 * Each mount has a journal of its own, in memory. What a crash finds in no record is lost: the
 * pointer says what it said, and the removed checkpoint is there. A node leaves its pointers to the
 * node that commits in its place (accord_pointers.c).
 *
 * Callers hold the units' lock, unless a function says otherwise.
 */
#ifndef ENGINE_UNIT_JOURNAL_H
#define ENGINE_UNIT_JOURNAL_H

#include "engine/unit/unit.h"

/* For the committers. Drops the lock meanwhile. Does one thing that is due. False: nothing is. */
bool journal_work_locked(struct units *us);

/* A pending pointer: written, or held. All but the first two points into that. */
struct pending {
	struct generation *written; /* NULL: held */
	struct held *held;	    /* NULL: written */
	const struct target *target;
	const char *staging, *waits_for, *names;
	uint64_t since_ns;
};

/* The pending pointer after @p, which is zero at first; none that is overtaken. False: no more. */
bool pending_next_locked(struct units *us, struct pending *p);

void pending_get_locked(struct pending *p);

/* Lock not held. */
void pending_put(struct pending *p);

/* True if a pointer in this mount waits for @unit. */
bool pointers_wait_for_locked(struct units *us, const char *unit);

/*
 * True if a pointer in this mount is on its way to name @name beside it, in the directory @dir. One
 * that waits for the commit of another save of that name does not count.
 */
bool pointers_will_name_locked(struct units *us, const struct inode_id *dir, const char *name);

#endif
