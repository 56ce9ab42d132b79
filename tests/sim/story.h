/* SPDX-License-Identifier: MIT */
/*
 * What happens in a simulation, as lines for people, each with its time. Nothing is printed unless
 * it was asked for, so that millions of schedules cost no text.
 */
#ifndef TESTS_SIM_STORY_H
#define TESTS_SIM_STORY_H

#include <stdbool.h>
#include <stdio.h>

/* To @out from here on; NULL: nowhere. */
void story_to(FILE *out);
void story(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A daemon of @node tells people @text; that is kept. */
void story_of_daemon(unsigned node, const char *text);
/* True if a daemon of @node has told people something that @text is a part of. */
bool daemon_has_told(unsigned node, const char *text);

/* An invariant does not hold. The first is kept, the run ends. */
void wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/*
 * What happened is one of the defects that tests/README.md lists. The schedule ends here, and the
 * process with this status.
 */
#define STORY_LISTED 3
void listed(const char *why) __attribute__((noreturn));
/* NULL: all of them hold. */
const char *what_is_wrong(void);

#endif
