/* SPDX-License-Identifier: MIT */
/* What has become of the questions that plans ask (readers.c). */
#ifndef TESTS_SIM_READERS_H
#define TESTS_SIM_READERS_H

#include <stdbool.h>

/* True if an answer has called a save in progress foreign, or committed. */
bool readers_told_early(void);

#endif
