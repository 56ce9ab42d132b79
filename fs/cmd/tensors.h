/* SPDX-License-Identifier: MIT */
/* Shared by the files of `ckptfs tensors`: tensors.c lists, tensors_compare.c compares. */
#ifndef FS_CMD_TENSORS_H
#define FS_CMD_TENSORS_H

#include "engine/tensors/read.h"

/*
 * Prints which tensors of @ix are there more than once, and which are as in @old (NULL: not asked).
 * Both have digests. 0 or -ENOMEM.
 */
int tensors_compare(const struct index *ix, const struct index *old, bool json);

#endif
