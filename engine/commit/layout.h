/* SPDX-License-Identifier: MIT */
/*
 * Own layouts: one job saves several single files into one directory, and no rule says that they
 * are one checkpoint. Each file is whole, but after a crash one may be newer than another. ckptfs
 * allows this, and says so once for each directory.
 *
 * Files of one series (step-1.pt, step-2.pt) are separate checkpoints, and so are best.pt and
 * last.pt.
 */
#ifndef ENGINE_COMMIT_LAYOUT_H
#define ENGINE_COMMIT_LAYOUT_H

#include "engine/save/generation.h"

/* Call after the commit of @g, a single file, without the units lock. */
void layout_notice(struct generation *g);

#endif
