/* SPDX-License-Identifier: MIT */
/*
 * Which generation a name has, over the nodes: that of the last of its records, each of which leads to the next. Each is written once,
 * so that of several that begin at once one is first, and who comes later finds it. One more says that it was renamed: a
 * generation has one name. Of one user: what others record is nobody else's.
 *
 * The records of names stay when their generations are over: what they lead to is over then, and who saves next adds to
 * the end. A node that was held up may do so, too, with what it remembers: so while one may live none of them goes (fsck).
 */
#ifndef ENGINE_UNIT_CLAIM_H
#define ENGINE_UNIT_CLAIM_H

#include "engine/coord/coord.h"
#include "engine/liveness/job.h"
#include "engine/unit/unit.h"

struct claim {
	unsigned nr;		  /* of the next record */
	char last[COORD_GEN_MAX]; /* whose name it was last; "": there was none yet */
	/* Of that one: */
	bool renamed; /* it has another name */
	/* ... that has the name, and claim_find alone: */
	bool open;	 /* it was begun, is not decided, and is not over */
	bool settled;	 /* it was decided, just now, that it gets its name */
	bool superseded; /* it was decided, just now, that it makes way for a new one */
	bool failed;	 /* it was decided, just now, that it has failed ... */
	char decider[COORD_NODE_MAX]; /* ... by this node */
	char node[COORD_NODE_MAX];    /* who began it: the root */
	char label[NAME_MAX + 1];     /* ... for people */
	char job[JOB_KEY_MAX];
	gid_t gid;
	bool inherits, follows; /* as of its checkpoint */
};

/* The last one of the name @name in @dir that user @uid recorded. 0 or -errno. */
int claim_find(struct units *us, uid_t uid, const struct inode_id *dir, const char *name,
	       struct claim *c);

/* The same, but only whose name it is. 0 or -errno. */
int claim_follow(struct units *us, uid_t uid, const struct inode_id *dir, const char *name,
		 struct claim *c);

/* Of the generation @gen. */
int claim_look(struct units *us, uid_t uid, const char *gen, struct claim *c);

/* Is @key that of a name, and what that leads to over and cleared up? For who knows that no node lives: its name begins anew. */
bool claim_is_old(const struct coord_ops *coord, void *coord_arg, uid_t uid, const char *key);

/* What others must know of @cp, before anybody can find it. 0 or -errno. */
int claim_open(struct checkpoint *cp);

/* @cp has its name after @c, as was found. 1: so it is; 0: another was quicker. -errno: unknown. */
int claim_make(struct checkpoint *cp, const struct claim *c);

/* It had the name @name in @dir, where @c was found, before it got the one that it has. As claim_make. */
int claim_leave(struct checkpoint *cp, const struct inode_id *dir, const char *name,
		const struct claim *c);

#endif
