/* SPDX-License-Identifier: MIT */
/*
 * The generations that ended last, with time and outcome. `wait` and `why` ask for them after the
 * end, and trace.json shows them. Guarded by the units' lock.
 */
#ifndef ENGINE_SAVE_HISTORY_H
#define ENGINE_SAVE_HISTORY_H

#include <limits.h>

#include "engine/format/names.h"
#include "engine/save/generation.h"

#define HISTORY_KEPT 256

struct ended {
	char staging[STAGING_MAX]; /* its id; "": unused */
	struct inode_id id, dir_id;
	char name[NAME_MAX + 1];
	char *path, *reason;
	char *job; /* of its maker; NULL: a file of a checkpoint, or a pointer */
	enum generation_state state;
	uid_t uid;
	/* of a single-file unit: the process that began it and its rank; else 0, -1 */
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

/* Returns a new entry, which the caller fills in, and which takes over its strings. */
struct ended *history_add(struct history *h);
/* Adds an entry for @g. */
void history_note(struct history *h, const struct generation *g);
void history_finish(struct history *h);

/* Find the newest entry with this id, name or inode. NULL: none. */
const struct ended *history_find(const struct history *h, const char *staging);
const struct ended *history_find_name(const struct history *h, const struct inode_id *dir,
				      const char *name);
const struct ended *history_find_inode(const struct history *h, const struct inode_id *id);

#endif
