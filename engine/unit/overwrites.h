/* SPDX-License-Identifier: MIT */
/*
 * One path of a checkpoint that several nodes write: each writes a file of its own, and the last
 * one that was begun has the name. This module remembers which file took the name from which, so
 * that people are told if the other one had another content.
 */
#ifndef ENGINE_UNIT_OVERWRITES_H
#define ENGINE_UNIT_OVERWRITES_H

#include "engine/unit/checkpoint.h"

struct overwrite {
	struct inode_id own, old; /* @own has taken the name of @old, which is another node's */
};

/* Lock not held. Without memory it is not remembered. */
void overwrites_add(struct checkpoint *cp, const struct inode_id *own, const struct inode_id *old);

/* Lock not held. Copies what is remembered, for the caller to free. 0 or -ENOMEM. */
int overwrites_take(struct checkpoint *cp, struct overwrite **out, size_t *nr);

/* Sorts such a copy; and finds the file from which @own took the name, or NULL. */
void overwrites_sort(struct overwrite *overwrites, size_t nr);
const struct inode_id *overwrites_find(const struct overwrite *overwrites, size_t nr,
				       const struct inode_id *own);

#endif
