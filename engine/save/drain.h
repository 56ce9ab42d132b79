/* SPDX-License-Identifier: MIT */
/*
 * Drains: a caller waits until unfinished saves are committed, and wants that soon. While a drain
 * waits, writers that exited with 0 need no silence (`quiet` counts as passed), and descriptors
 * left open get no grace period. Both hold only for the saves that the drain covers.
 *
 * The units' lock guards units->drains.
 */
#ifndef ENGINE_SAVE_DRAIN_H
#define ENGINE_SAVE_DRAIN_H

#include "engine/base/list.h"
#include "engine/save/generation.h"

struct process;

struct drain {
	const char *job; /* the job to wait for (job_is); NULL: all jobs */
	uid_t uid;	 /* the user that asks ... */
	bool all_users;	 /* ... and may ask for other users, too */
	/*
	 * 0: wait only for saves whose end was seen. Else (monotonic): also wait for the end of
	 * saves begun until then. So a job that goes on saving does not keep the drain waiting
	 * forever.
	 */
	uint64_t since_ns;
	struct list link; /* units->drains; private */
};

/* True if @d, or any drain that waits, covers what @p of @uid saves. */
bool drain_covers_locked(const struct drain *d, const struct process *p, uid_t uid);
bool drains_cover_locked(const struct units *us, const struct process *p, uid_t uid);

/* True if @d waits for the commit of this unit. */
bool drain_lists_file_locked(const struct drain *d, const struct generation *g);
bool drain_lists_checkpoint_locked(const struct drain *d, const struct checkpoint *cp);

#endif
