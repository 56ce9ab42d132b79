/* SPDX-License-Identifier: MIT */
/* In place of engine/liveness: processes that are known by what they are told to be. */
#ifndef TESTS_MODEL_PEOPLE_H
#define TESTS_MODEL_PEOPLE_H

#include <stdbool.h>
#include <sys/types.h>

/* All are gone. */
void people_reset(void);

/* A process of job @job (0: a person's), incarnation @incarnation. Its id. */
pid_t people_start(unsigned job, unsigned incarnation, int rank, int world);

/* It is going to end, and closes its files. */
void people_ending(pid_t pid, bool well);

/* It has ended. */
void people_ended(pid_t pid);

/* References that a mount has not given back. */
unsigned people_held(void);

#endif
