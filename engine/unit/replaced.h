/* SPDX-License-Identifier: MIT */
/*
 * Directories that a checkpoint replaces under their name, or has. A program that has such a
 * directory as its working directory, or by a descriptor, goes on in what the name stands for
 * now. So an entry lives as long as somebody knows the directory; knowers are asked when there
 * are twice as many entries as the last time. One that was added since the last time stays: it
 * may just be looked up.
 *
 * Guarded by the units' lock, but for the sweep.
 */
#ifndef ENGINE_UNIT_REPLACED_H
#define ENGINE_UNIT_REPLACED_H

#include <stdatomic.h>
#include <stdbool.h>

#include "engine/base/table.h"
#include "engine/content/content.h"

struct units;

struct replaced {
	struct table entries;
	atomic_uint nr;	 /* also read without the lock */
	size_t sweep_at; /* so many: a sweep is due */
};

/* 0 or -ENOMEM. */
int replaced_init(struct replaced *r);
void replaced_finish(struct replaced *r);

/* Without memory programs in it get ESTALE. */
void replaced_add(struct replaced *r, const struct inode_id *id);
bool replaced_has(const struct replaced *r, const struct inode_id *id);

/* Without the lock. If that is due, forgets what nobody knows. */
void replaced_sweep(struct units *us);

#endif
