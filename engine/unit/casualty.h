/* SPDX-License-Identifier: MIT */
/*
 * Jobs of which a checkpoint has failed (DESIGN 2, "After a failure"): by the death of a process,
 * for want of room, ... Those of its processes that go on must not begin another checkpoint with
 * what they have left, unless they know. So each gets the error once, at its next call that would
 * begin or change one. Processes that were started later are of a new incarnation.
 *
 * A job has one casualty, the newest. It is kept as long as a process of the job that is known here
 * lives; of jobs without one the last CASUALTIES_KEPT, for processes that are not known yet.
 *
 * All with the units' lock held.
 */
#ifndef ENGINE_UNIT_CASUALTY_H
#define ENGINE_UNIT_CASUALTY_H

#include "engine/unit/known.h"
#include "engine/unit/unit.h"

#define CASUALTIES_KEPT 64

struct process;

struct casualty {
	struct list link;	 /* casualties->all, the newest last */
	struct process *process; /* of whose job it is, referenced ... */
	bool alone;		 /* ... or of this process only */
	char *path;		 /* of the checkpoint; NULL: no memory */
	int err;
	uint64_t at_ns; /* of the cause: when the epoch ended */
	uint64_t nr;	/* the first that there was has 1 */
};

struct casualties {
	struct list all;
	size_t nr_kept;
	uint64_t nr;	    /* of the newest */
	struct known heard; /* of each process: up to which */
};

/* 0 or -ENOMEM. */
int casualties_init(struct casualties *cs);

/*
 * The checkpoint @path, that @p wrote to, has failed with @err, for what was at @at_ns
 * (monotonic). It is for the processes of its job that were started before. Where the job is not
 * known (a session is more than one), and where @p was started later, it is for @p alone.
 */
void casualty_add(struct casualties *cs, struct process *p, const char *path, int err,
		  uint64_t at_ns);

/*
 * The error of the first casualty that @p has to hear of, and has not; by this it has heard of
 * all. The path of the checkpoint is in @path, or "". 0: there is none.
 */
int casualty_tell(struct casualties *cs, struct process *p, char *path, size_t size);

/* True if @p lives, as far as is known, and has to hear of one. */
bool casualty_is_owed(const struct casualties *cs, struct process *p);

/* Without the lock. */
void casualties_finish(struct casualties *cs);

#endif
