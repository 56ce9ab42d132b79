/* SPDX-License-Identifier: MIT */
/*
 * Jobs of which a checkpoint has failed (DESIGN 2, "After a failure"): by the death of a process, for want
 * of room, ... Those of it that go on must not begin another one with what they have left, unless they
 * know. So each gets the error once, at its next call that would begin or change one. Processes that were
 * started later are of a new incarnation.
 *
 * All with the units' lock held.
 */
#ifndef ENGINE_UNIT_CASUALTY_H
#define ENGINE_UNIT_CASUALTY_H

#include "engine/unit/unit.h"

#define CASUALTIES_KEPT 64
#define TOLD_KEPT	64

struct process;

struct casualty {
	struct process *job; /* one of its processes, referenced; NULL: unused */
	char *path;	     /* of the checkpoint; NULL: no memory */
	int err;
	uint64_t ticks;			 /* since the boot, as process->start */
	struct process *told[TOLD_KEPT]; /* referenced; slot n % TOLD_KEPT */
	unsigned nr_told;
};

struct casualties {
	struct casualty ring[CASUALTIES_KEPT]; /* slot n % CASUALTIES_KEPT */
	unsigned nr;
};

/*
 * The checkpoint @path, that @p wrote to, has failed with @err, for what was at @at_ns (monotonic). Those of its job that were
 * started before are to be told; where the job is not known (a session is more than one) @p alone.
 */
void casualty_add(struct casualties *cs, struct process *p, const char *path, int err,
		  uint64_t at_ns);

/* Was @p started before that? */
bool casualty_concerns(uint64_t at_ns, const struct process *p);

/* Has @p to be told of one? Then it is, by this: the error, and whose it is in *@c. Else 0. */
int casualty_tell(struct casualties *cs, struct process *p, const struct casualty **c);

/* Without the lock. */
void casualties_finish(struct casualties *cs);

#endif
