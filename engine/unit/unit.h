/* SPDX-License-Identifier: MIT */
/*
 * Files that are being saved: each a unit by itself (K1 with one entry, K5), or one of a checkpoint
 * (checkpoint.h).
 *
 * A save of a single-file unit is a generation: a new inode, staged beside its target under a
 * hidden name, that gets the target's name by one rename once it is durable and digested. Until
 * then the name shows, in the mount, the generation; on the backing, what it was before. What had
 * the old inode open keeps it.
 *
 *        OPEN <-----> SEALED -----> PUBLISHING -----> NAMING -----> COMMITTED
 *         |     (a)    |      (b)      |        (e)     ^      (d)
 *         |            |               +---> DURABLE    |
 *         |            |                (d)             |
 *         |            +--------------> TAKEN ----------+
 *         +---> DURABLE       (c)                (e)
 *          (d)
 *
 *       PUBLISHING, TAKEN, NAMING -> SEALED   it is tried again, or fails in a moment (g)
 *       OPEN, SEALED        -> FAILED         an error, or a writer that died (f)
 *       OPEN, SEALED        -> DROPPED        a program removed or replaced it (h); umount
 *       PUBLISHING, NAMING  -> DROPPED        nothing was written, or a later one has the name (d)
 *
 *   (a) generation_settle_locked; generation_open and generation_expect_in reopen a part;
 *       give_up_abandoned seals what nobody opened
 *   (b) publisher_main    (c) following_take_locked    (d) publish_end    (e) publish_whole
 *   (f) generation_fail   (g) generation_let_go, from publish_end and following_release;
 *       following_take_locked    (h) generation_drop_one, generation_unlink; units_stop
 *
 * What holds in each:
 *   OPEN        a process may write it. Nothing of it need be on the backing
 *   SEALED      every process that wrote it has closed it, and the flusher has its bytes. A
 *               write opens it again
 *   PUBLISHING  a publisher digests and syncs it. A write waits; an error is kept until then
 *   TAKEN       of a pointer: as PUBLISHING, but by the commit of the checkpoint that it names
 *   NAMING      whole, digested and synced in staging, beside its name: after a crash all of
 *               it is there. A write waits
 *   DURABLE     a file of a checkpoint: whole and durable in the staging directory of that; a
 *               later write begins another generation of the same inode. Or it has become an
 *               ordinary file (ordinary.h), which has its name, and which a later write changes
 *   COMMITTED   has its name, durably; a later write changes a plain file, whose digest goes
 *   FAILED      `reason` says why; the name shows what it was before
 *   DROPPED     its name is another's, or nobody's; what has it open goes on with it
 *
 * While a program renames or removes it, or it becomes an ordinary file, it stays in its state
 * and is `busy` (BUSY_HELD): a write waits, an error is kept, and no publisher takes it.
 *
 * The view maps (directory, name) to the newest generation that is not yet committed.
 *
 * One mutex guards generations and view; it ranks before the cache's.
 */
#ifndef ENGINE_UNIT_UNIT_H
#define ENGINE_UNIT_UNIT_H

#include <jansson.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/list.h"
#include "engine/content/content.h"
#include "engine/coord/coord.h"
#include "engine/liveness/writer.h"
#include "engine/metrics/failures.h"
#include "engine/unit/live.h"
#include "engine/unit/place.h"
#include "engine/gen/state.h"
#include "engine/unit/busy.h"

#define STAGING_MAX 48

/* A name in a directory of the backing. */
struct target {
	int dir; /* descriptor of the directory; the generation's own */
	struct inode_id dir_id;
	char name[NAME_MAX + 1];
};

bool same_inode(const struct inode_id *a, const struct inode_id *b);
struct inode_id inode_id_of(const struct statx *stx);

struct units;
struct checkpoint;
struct nodes;
struct process;

/* What a pointer said when it was read last. */
struct pointer_said {
	uint64_t turn;		  /* a later read has a higher one */
	char names[NAME_MAX + 1]; /* a unit; "": nothing that could be one */
	char unit[STAGING_MAX];	  /* ... and was this one, pending or failed; "": neither */
	bool unknown; /* ... of which it could not be asked whether another node saves it */
};

struct generation {
	struct units *units;	   /* const */
	char staging[STAGING_MAX]; /* const: ".ckptfs-" and 32 hex digits of its random id */
	struct checkpoint
		*checkpoint; /* const: whose file it is, referenced; NULL: a unit by itself */
	struct caller owner; /* const: who began it */
	struct process
		*maker;	    /* const: the same of a checkpoint of one file, referenced; else NULL */
	struct inode_id id; /* const: of its inode */
	struct content *content; /* const, referenced */
	/* units lock */
	unsigned refs;
	struct list link; /* units->live.all; when it has failed, units->litter; else alone */
	struct table_node found_by[LIVE_KEYS]; /* live.h */
	struct list sealed;		       /* units->live.sealed */
	struct list beside;		       /* checkpoint->files */
	enum generation_state state;	       /* generation_set_state */
	unsigned busy;			       /* of enum busy */
	struct target target;
	char *rel;    /* of a checkpoint's: its path in that */
	int rank;     /* of a checkpoint's: of who began it; -1: unknown */
	bool pointer; /* const: pointer.h */
	char waits_for[STAGING_MAX],
		names[NAME_MAX + 1]; /* of a pointer: the checkpoint; "": none */
	struct pointer_said said;
	uint64_t reads;
	bool asks; /* of a pointer: it is not known yet what it waits for, as said.unknown tells */
	struct process *writer;	  /* ... and this is asked for; referenced, or NULL */
	bool visible;		  /* the newest of its name */
	bool replaces;		  /* something had the name when it was opened ... */
	struct inode_id replaced; /* ... namely this */
	bool inherited, changed;  /* began as a copy; was written since */
	bool abandoned;		  /* never opened */
	bool ordinary;		  /* gets its name as it is: ordinary.h */
	struct list expected;	  /* opens that will come; each is counted in nr_handles */
	bool overtaken;		  /* a newer one of its name was published */
	bool hurried; /* somebody waits for it: no grace for descriptors that are left */
	/* a program asked for durability: its next close waits for the publish */
	bool durable_calls;
	bool rankless;	      /* ... whose rank is not known */
	unsigned nr_handles;  /* open for writing */
	unsigned nr_changing; /* calls that change it right now: it is not published meanwhile */
	uint64_t failing_ns, again_ns, pause_ns; /* publishing fails since; is tried again when */
	bool flushed; /* a descriptor of it was closed by a process that went on, or ended well */
	struct list writers;
	uint64_t touched_ns;	  /* monotonic, as the next ones: the last change */
	uint64_t short_ns;	  /* there was no room for it; 0: never */
	struct shortage shortage; /* of its publish */
	uint64_t opened_ns, closed_ns, flushed_ns, ended_ns; /* 0: not yet */
	char *path;					     /* at its end, for people */
	uint64_t size;					     /* when it ended */
	int err;					     /* FAILED: -errno */
	char reason[MESSAGE_MAX];
};

/* All of it outlives the units. */
struct unit_options {
	struct contents *contents;
	struct failures *failures; /* gets what failed */
	struct failures *notices;  /* gets what is accepted and not protected */
	const struct rules *rules;
	const struct coord_ops *coord;
	void *coord_arg;
	const char *node;    /* label of this mount */
	struct nodes *nodes; /* NULL: it is alone */
	unsigned lease_s;
	unsigned retry_s, quiet_s, order_timeout_s, commit_timeout_s, open_max_s;
	bool delete_last; /* on_full */
	unsigned full_wait_s;
};

/* 0 or -errno with @e filled. */
int units_create(struct units **out, const struct unit_options *o, struct error *e);

/*
 * Before any call: publishes what was decided before a crash. What cannot be is told in
 * failures.json; what may be later is tried again.
 */
void units_recover(struct units *us);

/* Ends the threads; what is not published stays in staging. */
void units_stop(struct units *us);

/* After units_stop, and after the contents are gone. */
void units_destroy(struct units *us);

/* Path of a generation's target below the mount, for people: asked of whoever knows paths. */
void units_set_namer(struct units *us,
		     void (*name)(void *arg, const struct inode_id *dir, const char *name,
				  char *buf, size_t size),
		     void *arg);

/* True if a program may have the directory @id: asked of the same, without locks. */
void units_set_knower(struct units *us, bool (*knows)(void *arg, const struct inode_id *id));

/*
 * Begins a generation of @at, whose descriptor is kept as a duplicate, as @c.
 * @old: descriptor of the file that it is to replace, whose mode, owner, ACL and attributes it
 * takes over, and with @copy its bytes; -1: nothing has the name. Returns 0 and a reference, or
 * -errno.
 * @opener: the thread whose open is expected then, 0: none. -ESTALE: another was quicker, and has
 * one that is open; it expects that thread, too.
 */
int generation_begin(struct units *us, const struct caller *c, const struct place *at, mode_t mode,
		     int old, bool copy, pid_t opener, struct generation **out);

/*
 * The same of a file of a checkpoint, which is there under its name already, at @rel in it: @fd,
 * which is taken over, is open for reading and writing. @inherits: it has been there before. If it
 * is being written already, that generation.
 */
int generation_begin_in(struct checkpoint *cp, const struct caller *c, int rank,
			const struct inode_id *dir, const char *name, const char *rel, int fd,
			bool inherits, struct generation **out);
void generation_get(struct generation *g);
void generation_put(struct generation *g);

/* A hidden name that nothing has. 0 or -errno. */
int units_new_id(char staging[STAGING_MAX]);

/* The visible generation of a name, referenced, or NULL. */
struct generation *units_find(struct units *us, const struct inode_id *dir, const char *name);

/* That, or one which thread @pid has begun and is about to open. */
struct generation *units_find_for(struct units *us, const struct inode_id *dir, const char *name,
				  pid_t pid);

/* The same by its inode, whatever its state. */
struct generation *units_find_inode(struct units *us, const struct inode_id *id);

/* The names that units have in a directory: name, inode and type for each call of @add. */
void units_list(struct units *us, const struct inode_id *dir,
		void (*add)(void *arg, const char *name, const struct inode_id *id, mode_t type),
		void *arg);

/* --- who writes it --- */

/*
 * One more handle for writing, by thread @pid, if it is OPEN: then it stays so until that is
 * released or flushed. False: too late, it is closed already.
 */
bool generation_open(struct generation *g, pid_t pid);
void generation_released(struct generation *g);

/*
 * The same for an open that thread @pid will send in a moment, and which generation_open takes
 * over.
 */
bool generation_expect(struct generation *g, pid_t pid);

/*
 * The same of a file of a checkpoint, which may be closed already; @emptied: it was, for that open,
 * which is a change whatever follows.
 */
bool generation_expect_in(struct generation *g, pid_t pid, bool emptied);

/* What was to be written to it will not come, for the reason @why: fails it with @err. */
void generation_give_up(struct generation *g, int err, const char *why);

/* A program was killed when it had begun to change it: fails it. */
void generation_cut_off(struct generation *g);

/*
 * A process, known by @key, is about to change it; or an unknown one through the handle that @key
 * stands for. 0: go on, and say generation_changed when that is done. -EINTR. -EEXIST: it is
 * committed, what follows changes a plain file. Otherwise the error that it failed with.
 */
int generation_write(struct generation *g, uint64_t key);

/* The same for a change in nobody's name: a truncation. */
int generation_change(struct generation *g);

void generation_changed(struct generation *g);

bool generation_is_open(struct generation *g);
bool generation_is_durable(struct generation *g); /* was it asked to be? */

/* The process @key closed a descriptor of it, or exits. */
void generation_closed(struct generation *g, uint64_t key, struct writer_end end);

/*
 * The same, of some process that has the handle which @key stands for: what was written in nobody's
 * name may have been its.
 */
void generation_flushed(struct generation *g, uint64_t key, struct writer_end end);

/*
 * Makes durable, in staging, what was written to it; tries again for io_retry_s. 0, -EINTR, or the
 * error, which it fails with.
 */
int generation_sync(struct generation *g);

/*
 * A program asked for durability of what it writes to @g; @rankless: and got it, as nobody knows
 * its rank.
 */
void generation_ask_durable(struct generation *g, bool rankless);

/* Is it, or the checkpoint that it is of, still to be committed? */
bool generation_is_pending(struct generation *g);

/*
 * Waits until it is published or it is clear that it will not be. 0: committed, dropped or still
 * written by others; also a pointer to what is not committed yet. The error it failed with. -EINTR.
 */
int generation_wait(struct generation *g);

/* --- names --- */

/*
 * Takes the name away: neither it nor an older one of the name will be published. Waits if that is
 * happening right now; -EEXIST then.
 */
int generation_drop(struct generation *g);

/*
 * As a program removes or replaces the name: @remove (called once, may be refused) does that on the
 * backing, and meanwhile nothing is published under it. Older saves of the name are dropped first.
 * Returns what @remove refused it with, else 0; -EINTR: nothing was done; -EEXIST: it has ended
 * meanwhile, removing the name is the backing's.
 */
int generation_unlink(struct generation *g, int (*remove)(void *arg), void *arg);

/* The same for those that it has replaced, but not for itself: before its name goes elsewhere. */
int generation_drop_older(struct generation *g);

/*
 * Gives an unpublished generation another name: what has that, other generations included, is
 * replaced. @make_way (called once, while nothing is published under the old name; may refuse)
 * tells what it will replace. -EEXIST: it has ended meanwhile, a rename on the backing does it.
 * Else 0, what @make_way refused it with, or -errno.
 */
int generation_rename(struct generation *g, const struct place *at,
		      int (*make_way)(void *arg, bool *replaces, struct inode_id *replaced),
		      void *arg);

/* A file of a checkpoint has another name in it. */
void generation_moved_in(struct generation *g, const struct inode_id *dir, const char *name,
			 const char *rel);

/*
 * Waits until no generation that was closed is left to be published under that name. 0 or -EINTR.
 */
int units_settle_name(struct units *us, const struct inode_id *dir, const char *name);

/*
 * Waits until those in @dir that asked for durability and are closed are published. The first
 * error.
 */
int units_settle_dir(struct units *us, const struct inode_id *dir);

/*
 * Removes what is hidden in a directory (a descriptor) in which nothing else is. 0; -ENOTEMPTY:
 * there is something else, or somebody still saves to it.
 */
int units_clear_dir(struct units *us, struct backing *b, int dir);

/* --- the whole mount --- */

struct units_progress {
	unsigned open, closed; /* generations left: still written; waiting to be published */
	uint64_t dirty_bytes;
};

void units_progress(struct units *us, struct units_progress *p);

/* No call comes any more: what was closed is, also where the release of a handle did not arrive. */
void units_no_more_calls(struct units *us);

/* Of those not yet committed, oldest first: what units_describe says of each. */
json_t *units_to_json(struct units *us, uid_t viewer, bool all);

/*
 * {path, generation, state, uid, size, ...} of the generation @id (NULL: the newest of the name),
 * live or lately ended; NULL: nothing is known of one.
 */
json_t *units_describe(struct units *us, const struct inode_id *dir, const char *name,
		       const char *id);

/* The same of a file of a checkpoint, by its inode; NULL: nobody writes it. */
json_t *units_describe_inode(struct units *us, const struct inode_id *id);

/*
 * True if this node knows the file of that inode, of a checkpoint that is not committed, to be
 * durable.
 */
bool checkpoints_have_durable(struct units *us, const struct inode_id *id);

/* The state of a unit by its inode, if there is one; @reason why it failed. */
bool units_state_of(struct units *us, const struct inode_id *id, enum generation_state *state,
		    char reason[MESSAGE_MAX]);

/* The same of a checkpoint that is a directory, and which has not ended, or has failed. */
bool checkpoint_state_of(struct units *us, const struct inode_id *id, enum generation_state *state,
			 char reason[MESSAGE_MAX]);

/* {"committed": N, "failed": N} since the mount. */
json_t *units_counts(struct units *us);

/* The last generations as a Chrome trace. */
json_t *units_trace(struct units *us, uid_t viewer, bool all);

#endif
