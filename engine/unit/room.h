/* SPDX-License-Identifier: MIT */
/*
 * Room on a backing that is full, or where a quota is (DESIGN 4, "Short of space"): whoever gets
 * ENOSPC or EDQUOT asks here before anybody is told. Each time that somebody asks one step is
 * taken, the first of these that frees anything:
 *
 *   1. trash is emptied
 *   2. checkpoints that have failed go, if one beside them was committed since (wreck.h)
 *   3. a removal that waits for the next commit is applied, if a newer committed checkpoint stands
 *      beside it, and no pointer names it
 *   4. with on_full=delete_last, any that waits: also of the last that is committed. But only for
 *      who has removed it, and saves in the same directory: that job wanted it so
 *
 * Then, with on_full=wait:S, there is hope for S seconds that others make room. Then it is full.
 *
 * The thread that empties trash takes the steps; to ask waits for nothing. Everything here is
 * called without locks, if it says nothing else.
 */
#ifndef ENGINE_UNIT_ROOM_H
#define ENGINE_UNIT_ROOM_H

#include "engine/base/list.h"
#include "engine/base/wait.h"
#include "engine/unit/unit.h"

struct checkpoint;

/* What units have of it. Lock. */
struct room {
	struct list wanted;	/* who has asked, in order */
	uint64_t asked, served; /* tickets given; looked after */
	uint64_t freed;		/* the last for which there was something to free */
	uint64_t emptied;	/* pieces of trash, and what was not wanted, so far */
	unsigned rounds;	/* of removals_hasten */
	uint64_t wait_ns;	/* const: on_full=wait:S */
	bool delete_last;	/* const */
	bool wrecks;		/* there may be some that nobody wants: wreck.h */
};

/* Are these errors about room? */
bool room_is_short(int err);

/*
 * A write to @g, or the commit of @cp, found no room, again. Is it worth another try in a while?
 * @s: of these tries; zero before the first.
 */
bool room_for_file(struct generation *g, struct shortage *s);
bool room_for_checkpoint(struct checkpoint *cp, struct shortage *s);

/*
 * A call that can wait a moment found no room: one of @c in the directory @dir, which may be one in
 * a checkpoint; or both are NULL, and it is a write to @g, or to an ordinary file (NULL). 0: it is
 * worth another try. -EINTR. -ENOSPC: it is not.
 */
int room_await(struct units *us, const struct caller *c, const struct inode_id *dir,
	       struct generation *g, struct shortage *s);

/*
 * Evaluates @expr, 0 or more or -errno, of @c in @dir, as often as there was no room and may be
 * some now.
 */
#define WITH_ROOM(us, c, dir, expr) \
	({ \
		struct shortage shortage_ = {0}; \
		int ret_; \
		do \
			ret_ = (expr); \
		while (room_is_short(ret_) && (us) && !room_await(us, c, dir, NULL, &shortage_)); \
		ret_; \
	})

/* Was no room for it a moment ago? */
bool room_is_awaited_locked(uint64_t short_ns);

struct unit_place;

/*
 * Is a newer committed one beside @u? It may be removed as well, but stays as long as none is
 * newer. Without the lock.
 */
bool unit_has_newer(struct units *us, const struct caller *owner, const struct unit_place *u);

/* --- for the thread that empties trash. Lock held, dropped meanwhile --- */

bool room_is_wanted(struct units *us);
void room_work(struct units *us);

/* The end. */
void room_finish(struct units *us);

#endif
