/* SPDX-License-Identifier: MIT */
/*
 * The name of a checkpoint on the backing: (O5) gives it that, by engine/redo/publish_dir.h. Lock
 * not held.
 */
#ifndef ENGINE_SAVE_PUBLISH_CHECKPOINT_H
#define ENGINE_SAVE_PUBLISH_CHECKPOINT_H

#include "engine/record/decision.h"
#include "engine/save/checkpoint.h"

/* As publish_dir_place, for @cp. */
int publish_checkpoint(struct checkpoint *cp);

/* The same, as another node has decided in @d. */
int publish_decided(struct checkpoint *cp, const struct decision *d);

/*
 * 1: on the backing, @cp has the name @name in its directory; 0: it has not. -errno:
 * that cannot be seen.
 */
int checkpoint_has_name(struct checkpoint *cp, const char *name);

/*
 * Gives @cp its name as an ordinary directory; 0 also if another node has just done
 * so. Or -errno.
 */
int checkpoint_name_ordinary(struct checkpoint *cp);

#endif
