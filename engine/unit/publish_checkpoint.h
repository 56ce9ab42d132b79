/* SPDX-License-Identifier: MIT */
/* (O5) Gives a checkpoint its name, by engine/redo/publish_dir.h. Lock not held. */
#ifndef ENGINE_UNIT_PUBLISH_CHECKPOINT_H
#define ENGINE_UNIT_PUBLISH_CHECKPOINT_H

#include "engine/record/decision.h"
#include "engine/unit/checkpoint.h"

/* As publish_dir_place, for @cp. */
int publish_checkpoint(struct checkpoint *cp);

/* The same, as another node has decided in @d. */
int publish_decided(struct checkpoint *cp, const struct decision *d);

#endif
