/* SPDX-License-Identifier: MIT */
/*
 * What must hold after each step, whatever happened (the names are those of the invariants in
 * tests/README.md):
 *
 *  I1 whole      a name on the backing shows one committed save, whole, or nothing
 *  I2 one        a generation has one decision
 *  I3 obeyed     what is published was decided to be committed
 *  I4 pointer    a pointer names only what is committed
 *  I5 kept       what is committed goes only when a newer one is committed, or a person removed it
 *  I6 ends       once faults stop and processes are gone everything ends; a save that nothing
 *                disturbed is committed
 *  I7 hidden     what has failed has no name
 *  I9 undisturbed a job gets no error for what befell another, or a former start of it
 *  I8 promised   what a wait has told to be committed is there
 *
 * And what readers are told: a rank that is started again resumes from a whole checkpoint
 * (verbs.c); `ckptfs ls` and `ckptfs latest` say what is so (readers.c: I10, I11). Nodes of two
 * versions: versions.h (I12).
 */
#ifndef TESTS_SIM_CHECK_H
#define TESTS_SIM_CHECK_H

#include <stdbool.h>

/* After each step. False: the run ends, since something is wrong. */
bool check_step(void);

/* A process was told to remove the unit. */
void check_may_go(const char *unit);

/* A fault has happened by which a save may fail that no rank has seen fail. */
void check_forgive(void);
bool check_forgives(void);
/* True if ranks have begun to save @unit, and nothing was committed there since. */
bool check_is_begun(const char *unit);

/* What was not durable may be gone: what a wait has promised is looked at in the end. */
void check_power_failed(void);

/* At the end, when nothing is mounted. */
void check_end(void);

/* Grows with each change that is found of a checkpoint on the backing; and with each power cut. */
unsigned check_changes(void);
unsigned check_losses(void);

/* A checkpoint that the backing shows, or has shown. */
struct standing {
	const char *name, *generation;
	bool committed;	  /* it is there now */
	bool may_go;	  /* a process was told to remove it */
	unsigned changed; /* when it got what it shows; check_changes */
	/* when the first save of it began that may be what it shows; 0: it is not known */
	unsigned begun;
};

/* A rank begins to save @unit. */
void check_begins(const char *unit);

/* The next one after @*at of these, which begins with 0. False: there are no more. */
bool check_next(unsigned *at, struct standing *s);
/* True if the backing has shown @generation under a name at any time after the change @since. */
bool check_was_shown(const char *generation, unsigned since);

/* True if the backing shows @unit, committed. */
bool check_committed(const char *unit);
/* What `latest` says on the backing; "": it is not there. */
const char *check_latest(void);

#endif
