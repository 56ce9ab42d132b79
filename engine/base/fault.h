/* SPDX-License-Identifier: MIT */
/*
 * Deliberate faults, with which the simulator (tests/sim) proves that it finds faults of their
 * kind.
 *
 * At most one fault is chosen at a time, and only by a program that is linked with the engine and
 * calls fault_choose(). No option, file or environment variable chooses one. In the daemon FAULT()
 * compares a variable that is always FAULT_NONE.
 */
#ifndef ENGINE_BASE_FAULT_H
#define ENGINE_BASE_FAULT_H

#include <stdbool.h>

/* Identifier, name for people, what goes wrong. */
#define FAULTS(X) \
	X(FILE_UNSYNCED, "file-unsynced", "a file counts as durable without its sync") \
	X(COMMIT_FILE_UNSYNCED, "commit-file-unsynced", "the commit file is not synced") \
	X(DIRECTORY_UNSYNCED, "directory-unsynced", \
	  "the names in the staging directory are not synced") \
	X(NAME_UNSYNCED, "name-unsynced", "the parent is not synced behind the rename") \
	X(PUBLISHED_FIRST, "published-first", "a name is given before the decision") \
	X(POINTER_EARLY, "pointer-early", "a pointer does not wait for its checkpoint") \
	X(REMOVAL_EARLY, "removal-early", "a removal does not wait for a newer checkpoint") \
	X(VOTE_TWICE, "vote-twice", "the vote of one child counts for all of them") \
	X(ABORT_IGNORED, "abort-ignored", "a decision to abort is taken for a commit") \
	X(DEATH_IGNORED, "death-ignored", "a dead writer is taken for one that ended well") \
	X(FENCE_IGNORED, "fence-ignored", "two incarnations of a job are taken for one") \
	X(RANK_FORGOTTEN, "rank-forgotten", "evidence of every rank lacks the last one") \
	X(TOLD_EARLY, "told-early", "people are told of a commit before it is one") \
	X(FLUSH_FORGOTTEN, "flush-forgotten", "a commit does not wait for files to be durable") \
	X(RECOVERY_FORGOTTEN, "recovery-forgotten", "a mount redoes nothing that was decided") \
	X(PENDING_UNTOLD, "pending-untold", "a daemon does not tell ls what is being saved") \
	X(SEQUENCE_FORGOTTEN, "sequence-forgotten", \
	  "a commit file does not count on from those beside it") \
	X(VERSION_IGNORED, "version-ignored", "nodes of two versions work together")

enum fault {
	FAULT_NONE,
#define FAULT_ENUM(id, name, what) FAULT_##id,
	FAULTS(FAULT_ENUM)
#undef FAULT_ENUM
};

extern enum fault fault_chosen;

#define FAULT(id) __builtin_expect(fault_chosen == FAULT_##id, 0)

/* Chooses the fault called @name. Returns false if there is none. */
bool fault_choose(const char *name);

/* The name of fault number @nr; *what is its meaning. NULL if @nr is too large. */
const char *fault_name(unsigned nr, const char **what);

#endif
