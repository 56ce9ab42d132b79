/* SPDX-License-Identifier: MIT */
/*
 * What a crash left undone of checkpoints whose commit was decided: at mount, and by fsck. Nothing
 * that was not decided is touched. Every step may itself be interrupted, and is done again then.
 */
#ifndef ENGINE_UNIT_RECOVER_H
#define ENGINE_UNIT_RECOVER_H

#include "engine/unit/unit.h"

struct recovery {
	struct backing *backing;
	const struct coord_ops *coord;
	void *coord_arg;
	const struct rules *rules; /* which names are pointers */
	bool only_look;		   /* change nothing */
	uint64_t until_ns;	   /* monotonic: what may pass is tried again until then; 0: once */
	bool *waits; /* set if something is left that may be done later. May be NULL */
	bool alone;  /* no daemon saves here: what a crash left of records goes, too */
	/*
	 * Told of each: @err 0: it has its name now, or would get it; -EBUSY: that is another's;
	 * -EBADMSG: what is staged is not what was decided; else why it has to wait.
	 */
	void (*redone)(void *arg, const struct caller *owner, const char *unit, const char *staging,
		       int err);
	/*
	 * Told of what follows the commit of @unit: the pointer @path has its new content, or the
	 * checkpoint @path is @removed. Paths are below the backing; @err as above.
	 */
	void (*followed)(void *arg, const struct caller *owner, const char *path, bool removed,
			 const char *unit, int err);
	/* Told of each of which nothing is decided yet: 0 or -errno. May be NULL. */
	int (*undecided)(void *arg, const struct caller *owner, const char *gen);
	/* What had the name, or was removed, awaits removal as the trash of @id in @dir. */
	void (*trashed)(void *arg, const struct caller *owner, int dir, const char *id);
	void *arg;
};

/* May this pass by itself, so that another look is worth it? */
bool recover_may_pass(int err);

/*
 * The directory that @path is in, from the top of the backing on, one name at a time; @name: its
 * last component. Or -errno.
 */
int recover_walk(struct backing *b, const char *path, const char **name);

/* 0, or the first -errno of what could not be looked at; all the rest is done. */
int recover_decided(const struct recovery *r);

/*
 * Where no node has a lease: removes what is recorded of names (namechain.h) whose generations are
 * over. As above.
 */
int recover_names(const struct recovery *r);

#endif
