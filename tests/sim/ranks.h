/* SPDX-License-Identifier: MIT */
/*
 * Jobs and their ranks: processes on the nodes, each of which does what it is told, one thing after
 * the other. An error that a rank gets ends it, as an exception ends a script; so does a barrier
 * that a dead rank does not reach.
 */
#ifndef TESTS_SIM_RANKS_H
#define TESTS_SIM_RANKS_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/save.h"

#define JOBS_MAX 12

/* A save of a unit that all ranks have finished, in the eyes of the framework. */
struct finished {
	char unit[32];
	struct made_by by; /* but for the rank */
};

struct job_options {
	const struct shape *shape;
	unsigned world;
	const unsigned *nodes; /* rank r is on nodes[r] */
	char next_of;	/* it is the next start of this job, though that may live; 0: of none */
	bool uncounted; /* nothing tells its starts apart (MASTER_ADDR and MASTER_PORT) */
};

/* Job @name ('A' ...) is started at once. */
void job_create(char name, const struct job_options *o);
/* A process of @node that no launcher has started; it is rank 0 of @name. */
void person_create(char name, unsigned node);
bool job_is_there(char name);
unsigned job_world(char name);
/*
 * All its processes are killed, and started again, with a higher restart count where they have one.
 */
void job_restart(char name, bool at_once);

/* A new process of the same start takes the place of one that has ended. False: that lives. */
bool rank_return(char job, int rank, unsigned node);

/*
 * Adds @what ("saves step-1", ...) to what rank @rank, or all ranks (-1), do. False: there is no
 * such thing to do.
 */
bool rank_told(char job, int rank, const char *what);
void rank_kill(char job, int rank);
/* True if it does nothing, or is gone. */
bool rank_is_idle(char job, int rank);
bool rank_is_gone(char job, int rank);
/* The last error that a call of it has returned, 0 or -errno. */
int rank_error(char job, int rank);
/* True if a call of it has returned EIO since it was started. */
bool rank_was_told(char job, int rank);
/* All ranks on @node are gone without a trace. */
void ranks_lost(unsigned node);

/* A node is slow, stopped or cut off, or the service is away, for so long from now on. */
void ranks_disturbed(unsigned seconds);
/*
 * True if a death since then may not be known yet to a rank that was started again:
 * tests/README.md.
 */
bool ranks_hear_late(void);
/*
 * True if a rank of a job that saves such units is told that a save has failed, or has yet to be,
 * and nothing but its age tells its start of the job from the former one, since that is younger
 * than the records of failures: tests/README.md.
 */
bool ranks_may_be_of_former(const char *unit);
bool ranks_all_idle(void);
/* True if a rank on @node is inside of something that it was told. */
bool ranks_busy_on(unsigned node);
/* True if one has a file open between two of these. */
bool ranks_have_open_on(unsigned node);
/* Each that lives exits well, once it is done. */
void ranks_exit_all(void);

/*
 * Saves that must be committed in the end: no rank of the job has died, and no node was lost, since
 * it began.
 */
unsigned ranks_finished(const struct finished **all);
/* Waits that have promised something: the unit was committed then. */
unsigned ranks_promised(const struct finished **all);

#endif
