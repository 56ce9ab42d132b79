/* SPDX-License-Identifier: MIT */
/*
 * Held pointers (journal_written.h), which are whole when they come: files that get a pointer's
 * name by a rename, and symbolic links, created or renamed. A pointer that names a unit still to be
 * committed is held beside it under a staging name. The pointer gets its own name when the unit is
 * committed, never if that fails. Until then the name shows what was applied last; if nothing has
 * the name, the mount shows the held pointer.
 *
 * Guarded by the units' lock.
 */
#ifndef ENGINE_JOURNAL_HELD_H
#define ENGINE_JOURNAL_HELD_H

#include "engine/save/generation_inside.h"

struct held {
	struct units *units;	   /* const */
	struct caller owner;	   /* const */
	char staging[STAGING_MAX]; /* const */
	struct inode_id id;	   /* const */
	mode_t type;		   /* const; S_IFMT bits */
	int pin;		   /* const */
	char names[NAME_MAX + 1];  /* const: the name of the unit, whose staging name is ... */
	struct process *writer;	   /* for the thread that is busy with it; referenced, or NULL */
	/* units lock */
	char waits_for[STAGING_MAX];
	bool asks; /* its target is not resolved yet */
	unsigned refs;
	struct list link; /* units->held, oldest first; else alone */
	struct target target;
	unsigned busy;	/* of enum busy; BUSY_APPLY also while a commit is to apply it */
	bool overtaken; /* a later one was applied, or its name removed */
	uint64_t since_ns, failing_ns, again_ns;
	uint64_t since_wall_ns; /* since_ns by the wall clock, which other nodes share */
};

#endif
