/* SPDX-License-Identifier: MIT */
/* The lines of a plan that wait for something, and those that say what must hold. */
#ifndef TESTS_SIM_EXPECT_H
#define TESTS_SIM_EXPECT_H

#include <stdbool.h>
#include <stdint.h>

/* False: no such line. */
bool when_line(const char *line);
bool expect_line(const char *line);

/* True once no rank does anything, and no node that runs has anything pending. At most for @ns. */
bool await_settled(uint64_t ns);
bool await_idle(uint64_t ns);

/* The unmount of node @n is over. */
void note_unmounted(unsigned n);

#endif
