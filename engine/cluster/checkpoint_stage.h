/* SPDX-License-Identifier: MIT */
/* The staging directory of a checkpoint: this node makes it, or finds that of another node. */
#ifndef ENGINE_CLUSTER_CHECKPOINT_STAGE_H
#define ENGINE_CLUSTER_CHECKPOINT_STAGE_H

#include "engine/save/checkpoint.h"

struct statx;

/* Steps of the begin of a checkpoint. @was: the directory that has the name. */
int checkpoint_make(struct units *us, const struct caller *c, struct process *p,
		    const struct place *at, mode_t mode, const struct statx *was,
		    struct checkpoint **out);
int checkpoint_show(struct checkpoint *cp);
int checkpoint_show_locked(struct checkpoint *cp);

/*
 * Looks whether the name of @cp is still free, or shows what @cp replaces: before other nodes see
 * @cp, and when it is shown. 0, -EEXIST or another -errno.
 */
int checkpoint_check_free(struct checkpoint *cp);

/*
 * Makes this node's part of the generation @gen, which another node has begun; does not show it
 * yet. 0 and a reference. -ENOENT: the generation is not there (any more).
 */
int checkpoint_adopt(struct units *us, const struct caller *c, struct process *p,
		     const struct place *at, const char *gen, bool inherits, bool follows,
		     struct checkpoint **out);

/* Lock not held. Notes that @cp replaces what has its name on the backing. 0 or -errno. */
int checkpoint_note_replaced(struct checkpoint *cp);

#endif
