/* SPDX-License-Identifier: MIT */
/* (O5) Gives a committed directory its name: readers see all of what had it before, or none. */
#ifndef ENGINE_REDO_PUBLISH_DIR_H
#define ENGINE_REDO_PUBLISH_DIR_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/backing/backing.h"

struct placement {
	struct backing *backing;
	const struct caller *owner;
	int dir;		/* of both names */
	const char *staging;	/* its id is the generation in its commit file */
	bool ordinary;		/* it has no commit file, and is recognised by that */
	const char *name;	/* the name to give */
	bool replaces;		/* something had the name at the begin, namely ... */
	const char *generation; /* ... this committed checkpoint; "" for */
	uint64_t ino, btime_ns; /* ... this inode */
	bool owned;		/* believe what lies there only if it belongs to @owner */
	bool only_look;		/* change nothing */
	/* True if what has the name is ours to replace, though it is not that. NULL: never. */
	bool (*is_ours)(void *arg, const struct statx *stx);
	void *arg;
};

/*
 * Renames the staging directory to its name, moves what had the name to trash, and syncs the
 * parent. Idempotent: 0 also if any node did that before; several may do it at once. -EBUSY:
 * something else has the name, nothing is replaced. -ENOENT: the directory is nowhere. -EBADMSG:
 * what is staged is not what was decided. -EAGAIN: others interfered too often. 1: @p->only_look,
 * and there is something to do. *@trashed: something lies in trash, with the id of the
 * staging name.
 */
int publish_dir_place(const struct placement *p, bool *trashed);

/* Removes from the staging directory @fd the files by which nodes agreed on its commit. */
void publish_dir_tidy(struct backing *b, int fd);

#endif
