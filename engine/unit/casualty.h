/* SPDX-License-Identifier: MIT */
/*
 * Jobs that have lost a process while it wrote to a checkpoint (DESIGN 2, "After a failure"): those of it
 * that go on must not begin another one with what they have left, unless they know. So each gets the
 * error once, at its next call that would begin or change one. Processes that were started later are of a
 * new incarnation.
 *
 * All with the units' lock held.
 */
#ifndef ENGINE_UNIT_CASUALTY_H
#define ENGINE_UNIT_CASUALTY_H

#include "engine/unit/unit.h"

#define CASUALTIES_KEPT 32
#define TOLD_KEPT	64

struct process;

struct casualty {
	struct process *job;		 /* one of its processes, referenced; NULL: unused */
	uint64_t ticks;			 /* since the boot, as process->start */
	struct process *told[TOLD_KEPT]; /* referenced; slot n % TOLD_KEPT */
	unsigned nr_told;
};

struct casualties {
	struct casualty ring[CASUALTIES_KEPT]; /* slot n % CASUALTIES_KEPT */
	unsigned nr;
};

/* The job of @p has lost a process. */
void casualty_add(struct casualties *cs, struct process *p);

/* Has @p to be told of one? Then it is, by this. */
bool casualty_tell(struct casualties *cs, struct process *p);

/* Without the lock. */
void casualties_finish(struct casualties *cs);

#endif
