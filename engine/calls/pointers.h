/* SPDX-License-Identifier: MIT */
/*
 * Pointers that are whole when they come: links, and files that get a pointer's name by a rename
 * (journal/held.h). The caller holds no lock.
 */
#ifndef ENGINE_CALLS_POINTERS_H
#define ENGINE_CALLS_POINTERS_H

#include "engine/save/generation.h"

/*
 * @c creates @at as a symbolic link to @target. 1: the link is held. 0: @target names no unit that
 * is still to be committed, and nothing was done. Or -errno.
 */
int held_link(struct units *us, const struct caller *c, const struct place *at, const char *target);

/*
 * @c renames @from in @from_dir, a file or link on the backing that says @names, to @at. Returns as
 * held_link does; *@id: its inode.
 */
int held_rename(struct units *us, const struct caller *c, int from_dir, const char *from,
		const struct place *at, const char *names, struct inode_id *id);

/* @c renames what is held as @from to @at. 0: it is held, or on the backing. -ENOENT: none is. */
int held_move(struct units *us, const struct caller *c, const struct inode_id *from_id,
	      const char *from, const struct place *at, struct inode_id *id);

/* A path descriptor of the newest pointer held as @name, or -ENOENT. Cheap when nothing is held. */
int held_pin(struct units *us, const struct inode_id *dir, const char *name);

/*
 * Drops the pending pointers of @name in @dir, since the name was removed or given to something
 * else. Waits for one that is being applied. True if the mount showed one.
 */
bool pointers_drop(struct units *us, const struct inode_id *dir, const char *name);

#endif
