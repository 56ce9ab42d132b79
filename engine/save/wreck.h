/* SPDX-License-Identifier: MIT */
/*
 * Wrecks: the staging directories of failed checkpoints, hidden. People may want to look at a
 * wreck, or rescue files from it; but not at the expense of new checkpoints. So a wreck goes when
 * room is short and a later commit stands in its directory. A checkpoint that failed for want of
 * room goes at once: it is not whole, and itself takes up the room.
 *
 * Two kinds are always kept: those with a decision, which recovery needs; and whole ones in
 * conflict with what has their name, as their owner was told.
 *
 * A failed checkpoint stays known, since calls in its directory get its error. When only
 * units->wrecks refers to a wreck, its descriptors are closed, and what was known of its files is
 * forgotten; checkpoint_fd opens the directory again. A wreck is forgotten when its directory is
 * gone and no program can have that. Of those that no program can have, the last WRECKS_KEPT stay
 * known, and the others are left to fsck.
 *
 * Guarded by the units' lock.
 */
#ifndef ENGINE_SAVE_WRECK_H
#define ENGINE_SAVE_WRECK_H

#include "engine/save/checkpoint.h"

#define WRECKS_KEPT 1024

struct wrecks {
	struct list all;       /* checkpoint.link, the oldest first */
	struct table by_inode; /* checkpoint.by_inode */
	size_t sweep_at;       /* the number at which a sweep is due */
};

/* 0 or -ENOMEM. */
int wrecks_init(struct wrecks *ws);

/* Lock not held; no other thread has the wrecks. */
void wrecks_finish(struct units *us);

/* --- the list: wreck_list.c --- */

/* @cp, which is in units->checkpoints, has failed: moves it here. */
void wreck_add_locked(struct checkpoint *cp);

/* Takes @cp off. The caller gets the list's reference. */
void wreck_take_off_locked(struct checkpoint *cp);

/* Finds the wreck whose directory is @id, or NULL. */
struct checkpoint *wreck_find_locked(const struct units *us, const struct inode_id *id);

/* True if @cp has failed, and only units->wrecks refers to it. */
bool wreck_rests_locked(const struct checkpoint *cp);

/* Frees what @cp no longer needs; the caller closes its descriptors. */
void wreck_shrink_locked(struct checkpoint *cp, int *fd, int *dir);

/* @cp, which failed for want of room, is removed soon. */
void wreck_unwanted_locked(struct checkpoint *cp);

/* --- wreck.c --- */

/* Without the lock. If a sweep is due, forgets wrecks whose directories are gone. */
void wrecks_sweep(struct units *us);

/* @cp was committed: wrecks beside it may be removed when room is short. */
void wrecks_outlived_locked(struct units *us, const struct checkpoint *cp);

/* Without the lock. Removes unwanted wrecks; if room is wanted, outlived ones, too. True if any. */
bool wrecks_clear(struct units *us);

#endif
