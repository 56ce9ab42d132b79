/* SPDX-License-Identifier: MIT */
/*
 * Room on a full backing or at a quota (ckptfs-semantics(7), WHEN THE BACKING IS FULL): a call that
 * gets ENOSPC or EDQUOT asks here before it fails. Each request takes one step, the first of these
 * that frees anything:
 *
 *   1. empty trash
 *   2. remove failed checkpoints, if one beside them was committed since (wreck.h)
 *   3. apply a waiting removal, if a newer committed checkpoint stands beside it, and no pointer
 *      names it
 *   4. with on_full=delete_last, apply any waiting removal, even of the last committed one; but
 *      only for the user that removed it and that saves in the same directory
 *
 * Then, with on_full=wait:S, the daemon waits S seconds for others to make room. Then it is full.
 *
 * The trash thread takes the steps (trash_thread.c); asking does not block. Everything here is
 * called without locks, unless it says otherwise.
 */
#ifndef ENGINE_SAVE_ROOM_H
#define ENGINE_SAVE_ROOM_H

#include "engine/base/list.h"
#include "engine/base/wait.h"
#include "engine/save/generation.h"

struct checkpoint;

/* A request. */
struct room_want {
	struct list link;
	uint64_t ticket, emptied; /* room.emptied at that time */
	uid_t uid;
	struct inode_id dir; /* in which the user saves; all 0: unknown */
};

/* The state of all that, in struct units. Lock. */
struct room {
	struct list wanted;	/* struct room_want: the requests, in order */
	uint64_t asked, served; /* tickets given; served */
	uint64_t freed;		/* the last ticket for which something was freed */
	uint64_t emptied;	/* pieces of trash and unwanted wrecks removed so far */
	unsigned rounds;	/* of removals_hasten */
	uint64_t wait_ns;	/* const: on_full=wait:S */
	bool delete_last;	/* const */
	bool wrecks;		/* there may be unwanted wrecks: wreck.h */
};

/*
 * A write to @g, or the commit of @cp, found no room, again. True if the caller is to retry in a
 * while. @s: the state of these tries; zero before the first.
 */
bool room_for_file(struct generation *g, struct shortage *s);
bool room_for_checkpoint(struct checkpoint *cp, struct shortage *s);

/* True if there was no room for it a moment ago. */
bool room_is_awaited_locked(uint64_t short_ns);

/* At umount. */
void room_finish(struct units *us);

#endif
