/* SPDX-License-Identifier: MIT */
/*
 * The last generations that ended, with when and how: for `wait` and `why`, which ask after the
 * end, and for trace.json. Guarded by the units' lock.
 */
#ifndef ENGINE_UNIT_HISTORY_H
#define ENGINE_UNIT_HISTORY_H

#include "engine/unit/unit.h"

#define HISTORY_KEPT 256

struct ended {
	char staging[STAGING_MAX]; /* its id; "": unused */
	struct inode_id id, dir_id;
	char name[NAME_MAX + 1];
	char *path, *reason;
	char *job; /* of who began it; NULL: it is but a part of a checkpoint, or a pointer */
	enum generation_state state;
	uid_t uid;
	/* of a file that is a checkpoint by itself: who began it, with its rank; else 0, -1 */
	pid_t tgid;
	int rank;
	int err;
	uint64_t size;
	uint64_t opened_ns, closed_ns, flushed_ns, ended_ns; /* monotonic; 0: did not happen */
};

struct history {
	struct ended ring[HISTORY_KEPT]; /* slot n % HISTORY_KEPT */
	uint64_t nr;
};

/* A new one, to be filled in; it takes over its strings. */
struct ended *history_add(struct history *h);
/* That of @g. */
void history_note(struct history *h, const struct generation *g);
void history_finish(struct history *h);

/* The newest with this id; or of this name; or this inode. NULL: none. */
const struct ended *history_find(const struct history *h, const char *staging);
const struct ended *history_find_name(const struct history *h, const struct inode_id *dir,
				      const char *name);
const struct ended *history_find_inode(const struct history *h, const struct inode_id *id);

#endif
