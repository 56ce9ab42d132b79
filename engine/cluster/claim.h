/* SPDX-License-Identifier: MIT */
/*
 * Cluster-wide owner of a name: the generation that the last record of the name's chain gives
 * (namechain.h). After a rename one more record says so, since a generation has one name. Each user
 * has separate chains, in which records of other users do not count. Functions here take the units'
 * lock only to let one thread clear up at a time. No function here ends what has a name
 * (accord_join.c).
 *
 * A chain goes with the records of its last generation, by the same node (accord_clear.c). What a
 * crash has left goes at the next mount (claim_recover).
 */
#ifndef ENGINE_CLUSTER_CLAIM_H
#define ENGINE_CLUSTER_CLAIM_H

#include "engine/record/namechain.h"
#include "engine/record/open_record.h"
#include "engine/save/generation.h"

struct claim {
	struct namechain_end end;
	/* Of the last generation, if it has the name; only by claim_find and claim_look: */
	bool over;		      /* its records were cleared up */
	bool open;		      /* begun, not decided, not over */
	bool settled;		      /* decided just now: it gets its name */
	bool superseded;	      /* decided just now: it makes way for a new one */
	bool failed;		      /* decided just now: it has failed ... */
	char decider[COORD_NODE_MAX]; /* ... by this node */
	struct open_record opened;
};

/* The last generation of the name @name in @dir that user @uid recorded. 0 or -errno. */
int claim_find(struct units *us, uid_t uid, const struct inode_id *dir, const char *name,
	       struct claim *c);

/* The same, but only the end of the chain. 0 or -errno. */
int claim_follow(struct units *us, uid_t uid, const struct inode_id *dir, const char *name,
		 struct claim *c);

/* The same of the generation @gen. */
int claim_look(struct units *us, uid_t uid, const char *gen, struct claim *c);

/* Records what other nodes must know of @cp, before any can find it. 0 or -errno. */
int claim_open(struct checkpoint *cp);

/* Gives @cp its name, after @c as found. 1: done; 0: another node was quicker. -errno: unknown. */
int claim_make(struct checkpoint *cp, const struct claim *c);

/* Records that @cp, which had the name where @c was found, has another one. As claim_make. */
int claim_leave(struct checkpoint *cp, const struct claim *c);

/* 1: the chain that begins at @first has @cp; 0: that record was removed. -errno: unknown. */
int claim_holds(struct checkpoint *cp, const char *first);

/*
 * Removes the chain that begins at @first if it is closed, or if it ends with the generation @gen,
 * which is over, or decided and not waited for. 0: what there was to do is done; -EAGAIN: another
 * thread, or a live node, is doing so, or this node goes on later; -errno: unknown. Without locks.
 */
int claim_clear(struct units *us, const struct caller *owner, const char *first, const char *gen);

/*
 * For the driver, now and then: goes on with a chain that this node has closed and could not
 * remove. Without locks.
 */
void claim_go_on(struct units *us);

/*
 * Before a generation is begun after @c, which is not open. 1: go on; 0: find @c anew; or as
 * claim_clear.
 */
int claim_make_way(struct units *us, const struct caller *owner, const struct claim *c);

/* At mount: clears the record @key if it was left behind, or is none of a name. */
void claim_recover(struct units *us, const struct caller *owner, const char *key);

#endif
