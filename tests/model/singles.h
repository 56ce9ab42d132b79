/* SPDX-License-Identifier: MIT */
/*
 * The single files run/x.pt and run/x.pt.tmp: what each was whenever nobody had it open. After a
 * power cut each is one of that, whole, and none older than what was promised: that it was closed,
 * and that the mount had settled.
 */
#ifndef TESTS_MODEL_SINGLES_H
#define TESTS_MODEL_SINGLES_H

#include "engine/backing/backing.h"

void singles_begin(void);

/* After each operation. */
void singles_note(void);

/* One of them was renamed or removed: neither is promised until it is saved anew. */
void singles_unsure(void);

/* What they are now is promised from @mark on. */
void singles_mark(unsigned mark);

/* What a power cut after @mark has left. wrong() is said of what may not be. */
void singles_look_cut(struct backing *b, unsigned mark);

#endif
