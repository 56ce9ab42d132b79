/* SPDX-License-Identifier: MIT */
/*
 * In place of libc, for the code of `ckptfs ls` and `latest` (fs/catalog.c and what it calls): the
 * system calls of a program that reads. PROGRAM_MOUNT is the mount of its node, and PROGRAM_BACKING
 * the backing, as a host without a mount has it.
 *
 * The calls on names and files are linked to program.c (-Wl,--wrap, see the Makefile). They go to
 * libc where no program runs, or the path or descriptor is none of a program. The calls that would
 * ask the daemon or /proc are answered, too.
 */
#ifndef TESTS_SIM_PROGRAM_H
#define TESTS_SIM_PROGRAM_H

#include "tests/sim/calls.h"

#define PROGRAM_MOUNT	"/ckpt"
#define PROGRAM_BACKING "/backing"

/* From here on the current task is a program that @p has started. */
void program_begin(struct proc *p);
void program_end(void);
/* How many calls of this task's last program have failed, but for those that found nothing. */
unsigned program_errors(void);

#endif
