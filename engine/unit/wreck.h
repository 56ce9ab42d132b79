/* SPDX-License-Identifier: MIT */
/*
 * What is left of checkpoints that have failed: their staging directories, hidden. They are kept,
 * since somebody may want to look, or to save what is there; but not at the expense of new ones.
 * One that a commit in its directory has outlived goes when there is no room. One that failed for
 * want of room goes at once: it is not whole, and is itself what there is no room for.
 *
 * Kept in any case: what was decided, which recovery needs; and what is whole, but in conflict with
 * what has its name, of which its owner was told.
 *
 * A failed checkpoint stays known, since calls in its directory get its error. When nobody refers
 * to it, it has no descriptors, and what was known of its files is forgotten; its directory is
 * opened again if somebody needs it. It goes when its staging directory is gone and no program
 * can have that; and of those that no program can have only the last WRECKS_KEPT stay, the others
 * are left to fsck.
 */
#ifndef ENGINE_UNIT_WRECK_H
#define ENGINE_UNIT_WRECK_H

#include "engine/unit/checkpoint.h"

#define WRECKS_KEPT 1024

struct wrecks {
	struct list all;       /* checkpoint.link, the oldest first */
	struct table by_inode; /* checkpoint.by_inode */
	size_t sweep_at;       /* so many: a sweep is due */
};

/* 0 or -ENOMEM. */
int wrecks_init(struct wrecks *ws);

/* Lock not held; nobody else has them. */
void wrecks_finish(struct units *us);

/* @cp, which is in units->checkpoints, has failed. */
void wreck_add_locked(struct checkpoint *cp);

/* The one whose directory that is, or NULL. */
struct checkpoint *wreck_find_locked(const struct units *us, const struct inode_id *id);

/* True if @cp has failed, and only units->wrecks refers to it. */
bool wreck_rests_locked(const struct checkpoint *cp);

/* What it needs no more goes; its descriptors are the caller's to close. */
void wreck_shrink_locked(struct checkpoint *cp, int *fd, int *dir);

/* Without the lock. If that is due, forgets those of which nothing is left. */
void wrecks_sweep(struct units *us);

/* @cp was committed, and outlives those that have failed beside it. */
void wrecks_outlived_locked(struct units *us, const struct checkpoint *cp);

/* @cp has failed, for want of room: it is removed soon. */
void wreck_unwanted_locked(struct checkpoint *cp);

/*
 * Without the lock. Removes those that nobody wants; if somebody wants room, those that were
 * outlived, too.
 */
bool wrecks_clear(struct units *us);

#endif
