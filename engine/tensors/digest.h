/* SPDX-License-Identifier: MIT */
/*
 * The digest of each tensor: by it, copies on several ranks and tensors that have not changed since
 * another checkpoint are found (AdaCheck). One thread.
 */
#ifndef ENGINE_TENSORS_DIGEST_H
#define ENGINE_TENSORS_DIGEST_H

#include "engine/tensors/index.h"
#include "engine/tensors/tree.h"

/*
 * Reads the bytes of all tensors that are complete and have no digest, and sets t->digest of each:
 * the XXH3-128 of its pieces, in the order of their places. Two tensors that are cut in the same
 * way, or along the first dimension only, have one digest if they have the same elements. @progress
 * may be NULL; it gets the bytes read so far. 0, or the -errno of a read.
 */
int index_digest(struct index *ix, struct tree *t, void (*progress)(void *arg, uint64_t bytes),
		 void *arg);

#endif
