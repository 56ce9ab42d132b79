/* SPDX-License-Identifier: MIT */
/*
 * The parts of what a name shows, for engine/unit and for engine/names, which puts them together.
 * Each takes the units' lock. None looks at the backing.
 */
#ifndef ENGINE_UNIT_SEEN_H
#define ENGINE_UNIT_SEEN_H

#include "engine/backing/dirwalk.h"
#include "engine/unit/unit.h"

/*
 * The visible generation of a name, referenced, or NULL. A pointer that thread @pid (0: no thread)
 * is about to open is preferred.
 */
struct generation *units_find(struct units *us, const struct inode_id *dir, const char *name,
			      pid_t pid);

/* The checkpoint that a name shows, referenced, or NULL. */
struct checkpoint *checkpoints_find(struct units *us, const struct inode_id *dir, const char *name);

/* Calls @add with name, inode and type for each name that units have in @dir. */
void units_list(struct units *us, const struct inode_id *dir,
		void (*add)(void *arg, const char *name, const struct inode_id *id, mode_t type),
		void *arg);

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
