/* SPDX-License-Identifier: MIT */
/*
 * Generations: files that are being saved. Each is a unit by itself, or a file of a checkpoint
 * (checkpoint.h).
 *
 * A save of a single-file unit is a generation: a new inode, staged beside its target under a
 * hidden name. Once the inode is durable and digested, one rename gives it the target's name.
 * Until then the name shows the generation in the mount, and the previous file on the backing.
 * Programs that have the old inode open keep it.
 *
 *        OPEN <-----> SEALED -----> PUBLISHING -----> NAMING -----> COMMITTED
 *         |     (a)    |      (b)      |        (e)     ^      (d)
 *         |            |               +---> DURABLE    |
 *         |            |                (d)             |
 *         |            +--------------> TAKEN ----------+
 *         +---> DURABLE       (c)                (e)
 *          (d)
 *
 *       PUBLISHING, TAKEN, NAMING -> SEALED   the publish is retried, or the save fails next (g)
 *       OPEN, SEALED        -> FAILED         an error, or a writer that died (f)
 *       OPEN, SEALED        -> DROPPED        a program removed or replaced it (h); umount
 *       PUBLISHING, NAMING  -> DROPPED        nothing was written, or a later one has the name (d)
 *
 *   (a) generation_settle_locked; generation_open and generation_expect_in reopen a file of a
 *       checkpoint; give_up_abandoned seals a generation that no program opened
 *   (b) publisher_main    (c) following_take_locked    (d) publish_end    (e) publish_whole
 *   (f) generation_fail   (g) generation_let_go, from publish_end and following_release;
 *       following_take_locked    (h) generation_drop_one, generation_unlink; units_stop
 *
 * What holds in each:
 *   OPEN        a process may write the file. Nothing of it need be on the backing
 *   SEALED      every process that wrote the file has closed it, and the flusher has its bytes.
 *               A write opens it again
 *   PUBLISHING  a publisher digests and syncs the file. A write waits; an error is kept until then
 *   TAKEN       of a pointer: as PUBLISHING, but by the commit of the checkpoint that it names
 *   NAMING      whole, digested and synced in staging, beside its name: after a crash all of
 *               the file is there. A write waits
 *   DURABLE     a file of a checkpoint: whole and durable in the checkpoint's staging directory; a
 *               later write begins another generation of the same inode. Or the file has become
 *               ordinary (ordinary.h): it has its name, and a later write changes it in place
 *   COMMITTED   has its name, durably; a later write changes a plain file, and removes its digest
 *   FAILED      `reason` says why; the name shows the previous file
 *   DROPPED     the name belongs to another file, or to none; programs that have this one open
 *               keep it
 *
 * While a program renames or removes a generation, or the file becomes ordinary, the generation
 * stays in its state and is `busy` (BUSY_HELD): a write waits, an error is kept, and no publisher
 * takes it.
 *
 * The view maps (directory, name) to the newest generation that is not yet committed.
 *
 * One mutex guards generations and view; it ranks before the cache's.
 */
#ifndef ENGINE_SAVE_GENERATION_H
#define ENGINE_SAVE_GENERATION_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/content/content.h"
#include "engine/gen/state.h"
#include "engine/save/place.h"

struct checkpoint;
struct generation;
struct units;

/* Const; valid as long as the caller's reference. The checkpoint: NULL for a unit by itself. */
const struct inode_id *generation_id(const struct generation *g);
const struct caller *generation_owner(const struct generation *g);
const char *generation_staging(const struct generation *g);
struct content *generation_content(const struct generation *g);
struct checkpoint *generation_checkpoint(const struct generation *g);

void generation_get(struct generation *g);
void generation_put(struct generation *g);

/*
 * The visible generation of a name, referenced, or NULL. A pointer that thread @pid (0: no thread)
 * is about to open is preferred.
 */
struct generation *units_find(struct units *us, const struct inode_id *dir, const char *name,
			      pid_t pid);

/* Finds a generation by its inode, in any state. */
struct generation *units_find_inode(struct units *us, const struct inode_id *id);

/* --- room on a full backing: room.c --- */

/* True if @err says that room is short. */
bool room_is_short(int err);

/*
 * For a call that may wait a moment, and found no room: of @c in the directory @dir, which may lie
 * in a checkpoint; or, both NULL, a write to @g, or to an ordinary file (@g NULL). 0: retry.
 * -EINTR. -ENOSPC: give up.
 */
int room_await(struct units *us, const struct caller *c, const struct inode_id *dir,
	       struct generation *g, struct shortage *s);

/* Evaluates @expr (0 or more, or -errno), of @c in @dir, until there is room, or no hope for it. */
#define WITH_ROOM(us, c, dir, expr) \
	({ \
		struct shortage shortage_ = {0}; \
		int ret_; \
		do \
			ret_ = (expr); \
		while (room_is_short(ret_) && (us) && !room_await(us, c, dir, NULL, &shortage_)); \
		ret_; \
	})

#endif
