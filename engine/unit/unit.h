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
#ifndef ENGINE_UNIT_UNIT_H
#define ENGINE_UNIT_UNIT_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/list.h"
#include "engine/base/message.h"
#include "engine/base/wait.h"
#include "engine/content/content.h"
#include "engine/gen/state.h"
#include "engine/liveness/writer.h"
#include "engine/unit/place.h"

struct checkpoint;
struct coord_ops;
struct failures;
struct generation;
struct nodes;
struct process;
struct rules;
struct units;

/* --- begin and end of the mount: unit.c, recover_mount.c --- */

/* All of these outlive the units. */
struct unit_options {
	struct contents *contents;
	struct failures *failures; /* gets failed saves */
	struct failures *notices;  /* gets what is accepted and not protected */
	const struct rules *rules;
	const struct coord_ops *coord;
	void *coord_arg;
	const char *node;    /* label of this mount */
	struct nodes *nodes; /* NULL: this mount is alone */
	unsigned lease_s;
	unsigned retry_s, quiet_s, order_timeout_s, commit_timeout_s, open_max_s;
	bool delete_last; /* on_full */
	unsigned full_wait_s;
};

/* 0 or -errno with @e filled. */
int units_create(struct units **out, const struct unit_options *o, struct error *e);

/*
 * Before any other call: publishes what was decided before a crash. What cannot be published is
 * listed in failures.json; what may succeed later is tried again.
 */
void units_recover(struct units *us);

/* After the last call: what was closed counts as closed even if a handle's release was lost. */
void units_no_more_calls(struct units *us);

/* Ends the threads. Generations that are not published stay in staging. */
void units_stop(struct units *us);

/* After units_stop, and after the contents are gone. */
void units_destroy(struct units *us);

/* Sets the function that gives the path of @name in @dir below the mount, for people. */
void units_set_namer(struct units *us,
		     void (*name)(void *arg, const struct inode_id *dir, const char *name,
				  char *buf, size_t size),
		     void *arg);

/* Sets the function that says whether a program may have the directory @id, without locks. */
void units_set_knower(struct units *us, bool (*knows)(void *arg, const struct inode_id *id));

/* --- a save: generation_begin.c, generation_find.c --- */

/*
 * Begins a generation of @at, as @c. The generation keeps a duplicate of the descriptor.
 * @old: descriptor of the file that it replaces; it takes over the mode, owner, ACL and attributes,
 * and with @copy the bytes. -1: nothing has the name.
 * @opener: the thread that will open it next; 0: none.
 * Returns 0 and a reference, or -errno. -ESTALE: another thread was quicker and has an open
 * generation of the name, which now expects @opener.
 */
int generation_begin(struct units *us, const struct caller *c, const struct place *at, mode_t mode,
		     int old, bool copy, pid_t opener, struct generation **out);

/*
 * Begins a generation of a file of the checkpoint @cp that has its name in staging already, at the
 * path @rel. Takes over @fd, open for reading and writing. @inherits: the file was there before. If
 * the file has a generation already, *@out is that one.
 */
int generation_begin_in(struct checkpoint *cp, const struct caller *c, int rank,
			const struct inode_id *dir, const char *name, const char *rel, int fd,
			bool inherits, struct generation **out);

/* Const; valid as long as the caller's reference. The checkpoint: NULL for a unit by itself. */
const struct inode_id *generation_id(const struct generation *g);
const struct caller *generation_owner(const struct generation *g);
const char *generation_staging(const struct generation *g);
struct content *generation_content(const struct generation *g);
struct checkpoint *generation_checkpoint(const struct generation *g);

void generation_get(struct generation *g);
void generation_put(struct generation *g);

/* Finds a generation by its inode, in any state. */
struct generation *units_find_inode(struct units *us, const struct inode_id *id);

/* --- writers: generation_writers.c --- */

/*
 * Adds a handle for writing, by thread @pid, to a generation that is OPEN, which stays so until the
 * handle is released or flushed. False: too late, the generation is not OPEN any more.
 */
bool generation_open(struct generation *g, pid_t pid);
void generation_released(struct generation *g);

/* Announces an open that thread @pid will send in a moment, and that generation_open takes over. */
bool generation_expect(struct generation *g, pid_t pid);

/* Fails @g: a program was killed when it had begun to change it. */
void generation_cut_off(struct generation *g);

/*
 * Before a change to @g by the process that @key stands for; or, if the process is unknown, by the
 * handle that @key stands for. 0: go on, and call generation_changed afterwards. -EINTR. -EEXIST:
 * @g is committed, and the change goes to a plain file. Else the error that @g failed with.
 */
int generation_write(struct generation *g, uint64_t key);

/* As generation_write, for a change that no process is charged with: a truncation. */
int generation_change(struct generation *g);

void generation_changed(struct generation *g);

bool generation_is_open(struct generation *g);

/* The process @key closed a descriptor of @g, or exits. */
void generation_closed(struct generation *g, uint64_t key, struct writer_end end);

/* The same for some process that closes the handle @key, and may have made unattributed changes. */
void generation_flushed(struct generation *g, uint64_t key, struct writer_end end);

/* --- waits: generation_wait.c; generation_sync: publish.c --- */

/* Makes what was written durable in staging; retries for io_retry_s. 0, -EINTR, or its error. */
int generation_sync(struct generation *g);

/* A program asked for durability of its writes to @g. @rankless: because its rank is not known. */
void generation_ask_durable(struct generation *g, bool rankless);

/* True if a program has asked for that. */
bool generation_asked_durable(struct generation *g);

/* True if @g, or the checkpoint that it belongs to, is still to be committed. */
bool generation_is_pending(struct generation *g);

/*
 * Waits until @g is published, or will certainly not be. 0: committed, dropped or still being
 * written; also a pointer to a unit that is not committed yet. Else the error that @g failed with,
 * or -EINTR.
 */
int generation_wait(struct generation *g);

/* Waits until every closed generation of the name @name in @dir is published. 0 or -EINTR. */
int units_settle_name(struct units *us, const struct inode_id *dir, const char *name);

/* Waits until all closed generations in @dir that must be durable are published. First error. */
int units_settle_dir(struct units *us, const struct inode_id *dir);

/* --- names: generation_name.c --- */

/*
 * For a program that removes or replaces the name: calls @remove once, which does that on the
 * backing and may refuse. Meanwhile nothing is published under the name. Older generations of the
 * name are dropped first.
 * 0; the error with which @remove refused; -EINTR: nothing was done; -EEXIST: @g has ended
 * meanwhile, and the caller removes the name on the backing.
 */
int generation_unlink(struct generation *g, int (*remove)(void *arg), void *arg);

/* Drops the older generations of the name of @g, but not @g: before its name changes. */
int generation_drop_older(struct generation *g);

/*
 * Renames an unpublished generation. Whatever has the new name is replaced, other generations
 * included. Calls @make_way once, which says what will be replaced, and may refuse; meanwhile
 * nothing is published under the old name. 0; the error with which @make_way refused; -EEXIST: @g
 * has ended meanwhile, and the caller renames on the backing; or -errno.
 */
int generation_rename(struct generation *g, const struct place *at,
		      int (*make_way)(void *arg, bool *replaces, struct inode_id *replaced),
		      void *arg);

/* A file of a checkpoint was renamed inside the checkpoint. */
void generation_moved_in(struct generation *g, const struct inode_id *dir, const char *name,
			 const char *rel);

/*
 * Removes the hidden entries of the directory @name in @dir, which has no others (clear_dir.c). 0;
 * -ENOTEMPTY: there is another entry, or a process still saves to it.
 */
int units_clear_dir(struct units *us, struct backing *b, int dir, const char *name);

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

/* --- what people and programs are told: report.c, unit.c --- */

struct units_progress {
	unsigned open, closed; /* generations: still written; waiting to be published */
	uint64_t dirty_bytes;
};

void units_progress(struct units *us, struct units_progress *p);

/* An array of what units_describe returns for each unit that is not committed, oldest first. */
json_t *units_to_json(struct units *us, uid_t viewer, bool all);

/*
 * {path, generation, state, uid, size, ...} of the generation @id (NULL: the newest of the name),
 * live or lately ended. NULL: this node knows of none.
 */
json_t *units_describe(struct units *us, const struct inode_id *dir, const char *name,
		       const char *id);

/* As units_describe, for a file of a checkpoint, by its inode. NULL: not being written. */
json_t *units_describe_inode(struct units *us, const struct inode_id *id);

/* True if this node knows that inode as a durable file of an uncommitted checkpoint. */
bool checkpoints_have_durable(struct units *us, const struct inode_id *id);

/* True if a unit has that inode. Sets its state, and @reason, if it failed. */
bool units_state_of(struct units *us, const struct inode_id *id, enum generation_state *state,
		    char reason[MESSAGE_MAX]);

/* As units_state_of, for a checkpoint directory that has not ended, or has failed. */
bool checkpoint_state_of(struct units *us, const struct inode_id *id, enum generation_state *state,
			 char reason[MESSAGE_MAX]);

/* {"committed": N, "failed": N} since the mount. */
json_t *units_counts(struct units *us);

/* The last generations, as a Chrome trace. */
json_t *units_trace(struct units *us, uid_t viewer, bool all);

/* --- drains: drain.c, report.c --- */

struct drain {
	const char *job; /* the job to wait for (job_is); NULL: all jobs */
	uid_t uid;	 /* the user that asks ... */
	bool all_users;	 /* ... and may ask for other users, too */
	/*
	 * 0: wait only for saves whose end was seen. Else (monotonic): also wait for the end of
	 * saves begun until then. So a job that goes on saving does not keep the drain waiting
	 * forever.
	 */
	uint64_t since_ns;
	struct list link; /* units->drains; private */
};

/* Waits for everything that is closed. 0, -ETIMEDOUT at the deadline, -EINTR. */
int units_drain(struct units *us, uint64_t deadline_ns);

/* As units_drain, for what @d covers. */
int units_drain_of(struct units *us, struct drain *d, uint64_t deadline_ns);

#define DRAIN_NAMED_MAX 100

/*
 * The progress of @d, which has since_ns set:
 * 	{"nr_left": N, "left": [what units_describe returns for each, DRAIN_NAMED_MAX at most],
 * 	 "bytes": of those, "dirty_bytes": of those, "committed": N,
 * 	 "failed": [the same for each that has failed]}
 * committed and failed count since since_ns. With a job, failed also has older failures, unless
 * a later commit stands beside them, the job asked for them, or another job replaced them.
 */
json_t *units_drain_to_json(struct units *us, const struct drain *d);

#endif
