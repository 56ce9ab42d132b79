/* SPDX-License-Identifier: MIT */
/* Whether the pieces of a tensor are in bounds, disjoint and complete. Pure. */
#ifndef ENGINE_TENSORS_COVER_H
#define ENGINE_TENSORS_COVER_H

#include "engine/tensors/index.h"

/*
 * Sets t->hole to what is wrong, in words that last as long as @ix; NULL: nothing. A copy of a
 * piece that is there already counts as none. 0 or -ENOMEM.
 */
int cover_check(struct index *ix, struct index_tensor *t);

/*
 * The pieces of @t in the order of their places, each place once; then NULL. For free(). NULL: no
 * memory.
 */
struct index_piece **cover_order(const struct index_tensor *t);

#endif
