/* SPDX-License-Identifier: MIT */
/* (O5) A committed directory gets its name: of what had the name before, all or nothing is seen. */
#ifndef ENGINE_UNIT_REPLACE_H
#define ENGINE_UNIT_REPLACE_H

#include "engine/unit/checkpoint.h"

struct placement {
	struct backing *backing;
	const struct caller *owner;
	int dir; /* of both names */
	const char *staging, *name;
	bool replaces;		/* something had the name when it was begun ... */
	uint64_t ino, btime_ns; /* ... namely this */
	/* Is what has the name now no other's, though it is not that? NULL: it is another's. */
	bool (*is_ours)(void *arg, const struct statx *stx);
	void *arg;
};

/*
 * Renames the staging directory to its name, what had the name to trash, and syncs their directory.
 * Idempotent: 0 also if that was done before. -EBUSY: the name is another's now, nothing is replaced.
 * *@trashed: something went to trash, TRASH_PREFIX and the id of the staging name.
 */
int replace_place(const struct placement *p, bool *trashed);

/* The same for @cp. */
int replace_target(struct checkpoint *cp);

#endif
