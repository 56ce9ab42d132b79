/* SPDX-License-Identifier: MIT */
/*
 * Recovery: finishes what a crash left of checkpoints whose commit was decided; at mount, and by
 * fsck. What was not decided is not touched. Every step may be interrupted, and is then done again.
 *
 * Assumes that other nodes may do the same at once. Takes no lock; functions of struct recovery are
 * called without one.
 */
#ifndef ENGINE_REDO_RECOVER_H
#define ENGINE_REDO_RECOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/backing/backing.h"
#include "engine/coord/coord.h"
#include "engine/rule/rule.h"

struct recovery {
	struct backing *backing;
	const struct coord_ops *coord;
	void *coord_arg;
	const struct rules *rules; /* which names are pointers */
	bool only_look;		   /* change nothing */
	uint64_t until_ns; /* monotonic: transient errors are retried until then; 0: not at all */
	bool *waits;	   /* set if something is left that may succeed later. May be NULL */
	bool alone;	   /* no daemon saves here: also remove incomplete records */
	/*
	 * Called for each decided checkpoint. @err 0: it has its name, or would get it. -EBUSY:
	 * another has the name. -EBADMSG: what is staged is not what was decided. Else: why it
	 * waits.
	 */
	void (*redone)(void *arg, const struct caller *owner, const char *unit, const char *staging,
		       int err);
	/*
	 * Called for what follows the commit of @unit: the pointer @path has its new content, or
	 * the checkpoint @path is @removed. Paths are below the backing; @err as above.
	 */
	void (*followed)(void *arg, const struct caller *owner, const char *path, bool removed,
			 const char *unit, int err);
	/* Called for each undecided generation. 0 or -errno. May be NULL. */
	int (*undecided)(void *arg, const struct caller *owner, const char *gen);
	/* What had the name, or was removed, lies in the trash of @id in @dir. */
	void (*trashed)(void *arg, const struct caller *owner, int dir, const char *id);
	void *arg;
};

/* True if the error may pass by itself, so that another try is worthwhile. */
bool recover_may_pass(int err);

/* Does what is decided and possible. 0, or the first -errno of what could not be looked at. */
int recover_decided(const struct recovery *r);

/* If no node has a lease: removes records of names (namechain.h) whose generations are over. */
int recover_names(const struct recovery *r);

#endif
