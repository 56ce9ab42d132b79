/* SPDX-License-Identifier: MIT */
/*
 * A seed becomes a plan: jobs that save, rotate, point, die and are started again, on nodes to
 * which things happen.
 */
#ifndef TESTS_SIM_GEN_H
#define TESTS_SIM_GEN_H

#include "tests/sim/play.h"

void generate(struct plan *p, unsigned long long seed);

#endif
