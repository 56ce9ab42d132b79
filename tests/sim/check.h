/* SPDX-License-Identifier: MIT */
/*
 * What must hold after each step, whatever happened (the names are those of the invariants in tests/README.md):
 *
 *  I1 whole      a name on the backing shows one committed save, whole, or nothing
 *  I2 one        a generation has one decision
 *  I3 obeyed     what is published was decided to be committed
 *  I4 pointer    a pointer names only what is committed
 *  I5 kept       what is committed goes only when a newer one is committed, or a person removed it
 *  I6 ends       once faults stop and processes are gone everything ends; a save that nothing disturbed is committed
 *  I7 hidden     what has failed has no name
 *  I9 undisturbed a job gets no error for what befell another, or a former start of it
 *  I8 promised   what a wait has told to be committed is there
 *
 * And what readers do: a rank that is started again resumes from a whole checkpoint (ranks.c).
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

/* What was not durable may be gone: what a wait has promised is looked at in the end. */
void check_power_failed(void);

/* At the end, when nothing is mounted. */
void check_end(void);

/* True if the backing shows @unit, committed. */
bool check_committed(const char *unit);
/* What `latest` says on the backing; "": it is not there. */
const char *check_latest(void);

#endif
