/* SPDX-License-Identifier: MIT */
/*
 * What happens in a simulation, as lines for people, each with its time. Nothing is kept or printed unless it was asked
 * for, so that millions of schedules cost no text.
 */
#ifndef TESTS_SIM_STORY_H
#define TESTS_SIM_STORY_H

#include <stdbool.h>
#include <stdio.h>

/* To @out from here on; NULL: nowhere. */
void story_to(FILE *out);
void story(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* An invariant does not hold. The first is kept, the run ends. */
void wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* NULL: all of them hold. */
const char *what_is_wrong(void);

#endif
