/* SPDX-License-Identifier: MIT */
/* What is hidden on a backing after a recovery, and what `ckptfs fsck --discard` does about it. */
#ifndef TESTS_MODEL_SWEEP_H
#define TESTS_MODEL_SWEEP_H

#include "engine/backing/backing.h"

/*
 * Removes what fsck knows as staging or trash. wrong() is said of other hidden names, which nobody
 * would ever remove, and of records that no generation needs any more.
 */
void sweep(struct backing *b);

#endif
