/* SPDX-License-Identifier: MIT */
/*
 * Jobs of which a checkpoint has failed: by the death of a process, for want of room, ... Those of
 * its processes that go on must not begin another checkpoint with what they have left, unless they
 * know. So each process gets the error once, at its next call that would begin or change one.
 * Processes that were started later are of a new incarnation.
 *
 * A job has one casualty, the newest. A casualty is kept as long as a process of the job that is
 * known here lives. Of jobs without such a process the last CASUALTIES_KEPT stay, for processes
 * that are not known yet.
 *
 * The owner of a struct casualties guards it.
 */
#ifndef ENGINE_LIVENESS_CASUALTY_H
#define ENGINE_LIVENESS_CASUALTY_H

#include "engine/base/list.h"
#include "engine/liveness/known.h"

#define CASUALTIES_KEPT 64

struct process;

struct casualty {
	struct list link;	 /* casualties->all, the newest last */
	struct process *process; /* whose job it is of, referenced ... */
	bool alone;		 /* ... or of this process only */
	char *path;		 /* of the checkpoint; NULL: no memory */
	int err;
	uint64_t at_ns; /* of the cause, which ended the epoch */
	uint64_t nr;	/* the first of all has 1 */
};

struct casualties {
	struct list all;
	size_t nr_kept;
	uint64_t nr;	    /* of the newest */
	struct known heard; /* of each process: the last that it heard of */
};

/* 0 or -ENOMEM. */
int casualties_init(struct casualties *cs);

/*
 * The checkpoint @path, that @p wrote to, has failed with @err, for a cause at @at_ns (monotonic).
 * The casualty is for the processes of its job that were started before. If the job is not known (a
 * session is more than one), or @p was started later, it is for @p alone.
 */
void casualty_add(struct casualties *cs, struct process *p, const char *path, int err,
		  uint64_t at_ns);

/*
 * The error of the first casualty that @p has to hear of, and has not; @p then has heard of all.
 * The path of the checkpoint is in @path, or "". 0: there is none.
 */
int casualty_tell(struct casualties *cs, struct process *p, char *path, size_t size);

/* True if @p lives, as far as is known, and has to hear of a casualty. */
bool casualty_is_owed(const struct casualties *cs, struct process *p);

/* No other thread uses @cs any more. */
void casualties_finish(struct casualties *cs);

#endif
