/* SPDX-License-Identifier: MIT */
/*
 * What power cuts leave of a sequence, of which the backing was recorded: at every instant, once
 * recovered, each unit is as it was at one moment, whole; and what was committed is there, or what
 * came after it.
 */
#ifndef TESTS_MODEL_CUTS_H
#define TESTS_MODEL_CUTS_H

#include "tests/model/reference.h"

void cuts_begin(void);
void cuts_end(void);

/* As what unit @u may be found from now on. */
void cuts_may_be(unsigned u, const struct snap *s);
/* It is not predicted any more. */
void cuts_unknown(unsigned u);

/* An operation has ended: what is committed now is promised. */
void cuts_mark(void);

/*
 * After the mount: explores at most @states cuts. wrong() is said of what is not as promised. How
 * many were made.
 */
unsigned cuts_explore(unsigned states);

#endif
