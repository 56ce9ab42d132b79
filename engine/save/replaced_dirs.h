/* SPDX-License-Identifier: MIT */
/*
 * Directories that a checkpoint replaces, or has replaced, under their name. A program that has
 * such a directory as its working directory, or a descriptor of it, continues in the directory that
 * has the name now. An entry stays while a program may have the directory (units_set_knower). A
 * sweep asks for that when the number of entries has doubled since the last one. A sweep keeps
 * newer entries: a program may just be looking one up.
 *
 * Guarded by the units' lock, except for the sweep.
 */
#ifndef ENGINE_SAVE_REPLACED_DIRS_H
#define ENGINE_SAVE_REPLACED_DIRS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "engine/base/table.h"
#include "engine/content/content.h"

struct units;

struct replaced_dirs {
	struct table entries;
	atomic_uint nr;	 /* also read without the lock */
	size_t sweep_at; /* the number of entries at which a sweep is due */
};

/* 0 or -ENOMEM. */
int replaced_dirs_init(struct replaced_dirs *r);
void replaced_dirs_finish(struct replaced_dirs *r);

/* Without memory the entry is missing, and programs in the directory get ESTALE. */
void replaced_dirs_add(struct replaced_dirs *r, const struct inode_id *id);
bool replaced_dirs_has(const struct replaced_dirs *r, const struct inode_id *id);

/* Without the lock. If a sweep is due, removes entries of directories that no program has. */
void replaced_dirs_sweep(struct units *us);

#endif
