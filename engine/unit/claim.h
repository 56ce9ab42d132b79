/* SPDX-License-Identifier: MIT */
/*
 * Which generation a name has, over the nodes: the last of its chain of records (namechain.h). One
 * more record says that it was renamed: a generation has one name. Of one user: what others record
 * is nobody else's.
 *
 * The chain goes with the records of its last generation, by the same node (accord_drive.c). What a
 * crash has left is found by who mounts (claim_recover).
 */
#ifndef ENGINE_UNIT_CLAIM_H
#define ENGINE_UNIT_CLAIM_H

#include "engine/coord/coord.h"
#include "engine/liveness/job.h"
#include "engine/unit/namechain.h"
#include "engine/unit/unit.h"

struct claim {
	struct namechain_end end;
	/* Of the last one, if it has the name, by claim_find and claim_look alone: */
	bool over;	 /* its records were cleared up */
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

/* What others must know of @cp, before anybody can find it. 0 or -errno. */
int claim_open(struct checkpoint *cp);

/* @cp has its name after @c, as was found. 1: so it is; 0: another was quicker. -errno: unknown. */
int claim_make(struct checkpoint *cp, const struct claim *c);

/* It had the name where @c was found before it got the one that it has. As claim_make. */
int claim_leave(struct checkpoint *cp, const struct claim *c);

/* 1: the chain that begins at @first has @cp; 0: it was removed. -errno: unknown. */
int claim_holds(struct checkpoint *cp, const char *first);

/*
 * Removes the chain that begins at @first, if it is closed, or ends with the generation @gen, which
 * is over, or decided and not waited for. 0: what there was to do is done; -EAGAIN: another thread,
 * or another node that lives, is at it, or this node goes on with it; -errno: unknown. Without
 * locks.
 */
int claim_clear(struct units *us, const struct caller *owner, const char *first, const char *gen);

/*
 * By the driver, now and then: goes on with what this node has closed, and could not remove.
 * Without locks.
 */
void claim_go_on(struct units *us);

/*
 * Before a generation is begun after @c, which is not open. 1: it may be; 0: @c is to be found
 * anew; or as claim_clear.
 */
int claim_make_way(struct units *us, const struct caller *owner, const struct claim *c);

/* At mount: the record @key is one that somebody has left, or none of a name. */
void claim_recover(struct units *us, const struct caller *owner, const char *key);

#endif
