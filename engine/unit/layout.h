/* SPDX-License-Identifier: MIT */
/*
 * Own layouts: one job saves several single files into one directory, and no rule says that they
 * are one checkpoint. Each is whole, but after a crash one may be newer than another. This is
 * allowed, and said once for each directory.
 *
 * Files of one series (step-1.pt, step-2.pt) are checkpoints of their own, and so are best.pt and
 * last.pt.
 */
#ifndef ENGINE_UNIT_LAYOUT_H
#define ENGINE_UNIT_LAYOUT_H

#include "engine/unit/unit.h"

/* After @g, a single file, was committed. Call it without the units lock. */
void layout_notice(struct generation *g);

#endif
