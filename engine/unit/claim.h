/* SPDX-License-Identifier: MIT */
/*
 * Which generation a name has, over the nodes: the first that is recorded for the name, then the one that is recorded to
 * follow it, and so on to the last. Each is a write-once record, so that of several that begin at once one is first, and
 * who comes later finds it. Of one user: what others record is nobody else's.
 *
 * The records of names stay when their generations are over: what they lead to is over then, and who saves next adds to
 * the end.
 */
#ifndef ENGINE_UNIT_CLAIM_H
#define ENGINE_UNIT_CLAIM_H

#include "engine/liveness/job.h"
#include "engine/unit/unit.h"

struct claim {
	char last
		[COORD_GEN_MAX]; /* after which the next is to be recorded; "": there was none yet */
	/* Of that one: */
	bool open;		   /* it was begun, is not decided, and is not over */
	bool settled;		   /* it was decided, just now, that it gets its name */
	char node[COORD_NODE_MAX]; /* who began it: the root */
	char label[NAME_MAX + 1];  /* ... for people */
	char job[JOB_KEY_MAX];
	gid_t gid;
	bool inherits, follows; /* as of its checkpoint */
};

/* The last one of the name @name in @dir that user @uid recorded. 0 or -errno. */
int claim_find(struct units *us, uid_t uid, const struct inode_id *dir, const char *name,
	       struct claim *c);

/* What others must know of @cp, before anybody can find it. 0 or -errno. */
int claim_open(struct checkpoint *cp);

/* @cp follows @c, as was found. 1: so it is; 0: another was quicker. -errno: unknown. */
int claim_make(struct checkpoint *cp, const struct claim *c);

#endif
