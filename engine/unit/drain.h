/* SPDX-License-Identifier: MIT */
/*
 * Drains: somebody waits until what is being saved is committed, and wants that soon. While one
 * waits, no silence is asked of who has ended well (`quiet` counts as passed), and no grace is
 * given to descriptors that are left: of what it covers, and of nothing else.
 */
#ifndef ENGINE_UNIT_DRAIN_H
#define ENGINE_UNIT_DRAIN_H

#include <jansson.h>

#include "engine/unit/unit.h"

struct drain {
	const char *job; /* whose (job_is); NULL: everybody's */
	uid_t uid;	 /* of who asks ... */
	bool all_users;	 /* ... and may do so for others, too */
	/*
	 * 0: only what has come to its end is waited for. Else (monotonic) also for that end, of
	 * what was begun until then; a job that goes on saving is not waited for without end.
	 */
	uint64_t since_ns;
	struct list link; /* units->drains; private */
};

/* Everything that is closed. 0, -ETIMEDOUT at the deadline, -EINTR. */
int units_drain(struct units *us, uint64_t deadline_ns);

/* The same of what @d says. */
int units_drain_of(struct units *us, struct drain *d, uint64_t deadline_ns);

#define DRAIN_NAMED_MAX 100

/*
 * How far @d, of which since_ns is set, has come:
 * 	{"nr_left": N, "left": [what units_describe says of each, DRAIN_NAMED_MAX at most], "bytes", "dirty_bytes": of
 * 	 those, "committed": N, "failed": [the same of each that has failed]}
 * committed and failed: since since_ns. With a job also those that failed before and beside which
 * nothing was committed later; unless that was asked for, or another job began them anew.
 */
json_t *units_drain_to_json(struct units *us, const struct drain *d);

/* --- for engine/unit --- */

struct process;

/* Is what @p of @uid does covered by @d; by any that waits? */
bool drain_covers_locked(const struct drain *d, const struct process *p, uid_t uid);
bool drains_cover_locked(const struct units *us, const struct process *p, uid_t uid);

/* Is it a unit that @d waits for until it is committed? */
bool drain_lists_file_locked(const struct drain *d, const struct generation *g);
bool drain_lists_checkpoint_locked(const struct drain *d, const struct checkpoint *cp);

#endif
