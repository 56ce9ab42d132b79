/* SPDX-License-Identifier: MIT */
/*
 * One path of a checkpoint that several nodes write: each writes a file of its own, and the last
 * one that was begun has the name. Which took the name from which is known here, so that people are
 * told if what is not kept was another content.
 */
#ifndef ENGINE_UNIT_RIVALS_H
#define ENGINE_UNIT_RIVALS_H

#include "engine/unit/checkpoint.h"

struct rival {
	struct inode_id own,
		old; /* the former has taken the name of the latter, which is another node's */
};

/* Without memory it is not known. Lock not held. */
void rivals_add(struct checkpoint *cp, const struct inode_id *own, const struct inode_id *old);

/* What took its name from whom, for the caller to free. 0 or -ENOMEM. Lock not held. */
int rivals_take(struct checkpoint *cp, struct rival **out, size_t *nr);

/* Sorts what was taken; and the one from which @own took the name, or NULL. */
void rivals_sort(struct rival *rivals, size_t nr);
const struct inode_id *rivals_find(const struct rival *rivals, size_t nr,
				   const struct inode_id *own);

#endif
