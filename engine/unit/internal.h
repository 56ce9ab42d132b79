/* SPDX-License-Identifier: MIT */
/* What the files of this directory share. */
#ifndef ENGINE_UNIT_INTERNAL_H
#define ENGINE_UNIT_INTERNAL_H

#include "engine/base/wait.h"
#include "engine/base/worker.h"
#include "engine/coord/coord.h"
#include "engine/unit/above.h"
#include "engine/unit/casualty.h"
#include "engine/unit/checkpoint.h"
#include "engine/unit/history.h"
#include "engine/unit/replaced.h"
#include "engine/unit/room.h"
#include "engine/unit/wreck.h"
#include "engine/unit/unit.h"

#define PUBLISHERS 4
#define COMMITTERS 2
#define FRESH_KEPT 256

/* A process that wrote to a generation. */
struct writer {
	struct list link;
	uint64_t key; /* 0: is gone, and ended well; others may get the key that it had */
	bool closed;
};

/* An open that was answered with ESTALE: the kernel sends it again, for this generation. */
struct opener {
	struct list link;
	pid_t pid;
	uint64_t since_ns;
};

struct units {
	struct contents *contents;     /* const */
	const struct rules *rules;     /* const */
	const struct coord_ops *coord; /* const */
	void *coord_arg;	       /* const */
	struct jobs *jobs;	       /* const */
	const char *node;	       /* const: label of this mount */
	struct nodes *nodes;	       /* const; NULL: nobody else knows of it */
	uint64_t forget_ns;	       /* const: after which all nodes have seen a decision */
	int accord_wake;	       /* const: an eventfd, for the driver */
	atomic_bool
		coord_fails; /* at the last look, for those who look before they know who asks */
	/*
	 * Names that lead to what has them (accord_join.c). A cache, as is above:
	 * what is not in it costs a look at the backing, or at records, or a sync, and changes
	 * nothing else.
	 */
	_Atomic uint64_t fresh[FRESH_KEPT];
	struct failures *failures; /* const */
	struct failures *notices;  /* const */
	uint64_t quiet_ns;	   /* const */
	uint64_t retry_ns;	   /* const */
	uint64_t order_ns;	   /* const */
	uint64_t commit_ns;	   /* const: commit_timeout_s */
	uint64_t open_ns;	   /* const: open_max_s */
	atomic_bool ending;
	void (*name)(void *arg, const struct inode_id *dir, const char *name, char *buf,
		     size_t size);
	bool (*knows)(void *arg, const struct inode_id *id);
	void *name_arg; /* const once mounted, as are name and knows */
	struct lock lock;
	/* lock */
	struct waitq changed; /* for who waits for a generation */
	struct waitq work;    /* for the publishers: one may be ready, or is litter */
	struct list litter;   /* failed: their staging files are to be removed; each referenced */
	struct live live;
	uint64_t looked_ns;	 /* for generations that nobody will open */
	struct list checkpoints; /* those that have not ended, oldest first */
	struct wrecks wrecks;	 /* those that failed */
	struct list accords;	 /* accord.h */
	unsigned renames;	 /* of all of them, by this node */
	struct {
		bool busy; /* one thread is at it */
		/* The chain that this node has closed, and has yet to remove; or "". */
		struct caller owner;
		char first[COORD_GEN_MAX];
	} clearing;	   /* claim.c */
	struct known left; /* of jobs: what their former starts left, since when (accord_join.c) */
	bool accords_over; /* their driver has ended */
	struct history history;
	uint64_t nr_committed, nr_failed;
	struct waitq commits, trashed; /* for the committers; for the trash thread */
	struct list trash;
	bool recovered;	     /* what was decided before the mount was looked at once */
	uint64_t recover_ns; /* and when, for what waits; CLOCK_NEVER: nothing does */
	struct room room;
	unsigned busy; /* BUSY_INHERIT */
	struct casualties casualties;
	struct list held; /* held.h */
	atomic_uint nr_held;
	struct list removals;
	struct table removed; /* the names that are hidden for that */
	atomic_uint nr_removals;
	atomic_uint unhidden; /* removals_unhidden */
	struct known savers;  /* of processes: in which directories they have saved checkpoints */
	struct replaced replaced;
	atomic_uint nr_published;	   /* checkpoints */
	struct inode_id above[ABOVE_KEPT]; /* whose names are durable; slot n % ABOVE_KEPT */
	unsigned nr_above;
	struct list drains;	    /* of those who wait right now: drain.h */
	bool no_more_calls;	    /* unmounted */
	atomic_uint nr_checkpoints; /* those, and those that failed */
	unsigned nr_threads;
	struct worker threads[PUBLISHERS + COMMITTERS + 2];
};

/* Files of @cp: they are published at once, whoever still has a descriptor. */
void generations_hurry_locked(struct checkpoint *cp);

/* Those of a checkpoint that has failed. Without locks. */
void generations_fail(struct checkpoint *cp, int err, const char *reason);

/* Every change of its state; @who: the function that asks. */
void checkpoint_set_state_by_locked(struct checkpoint *cp, enum generation_state state,
				    const char *who);
#define checkpoint_set_state(cp, state) checkpoint_set_state_by_locked(cp, state, __func__)

/* True if one thread has it, for its commit or for a change to its name. */
static inline bool checkpoint_is_held_locked(const struct checkpoint *cp)
{
	return cp->busy & BUSY_HELD || state_is_ending(cp->state);
}

/* True if it is OPEN or SEALED, as @state says, and no thread has it. */
static inline bool checkpoint_rests_in_locked(const struct checkpoint *cp,
					      enum generation_state state)
{
	return cp->state == state && !(cp->busy & BUSY_HELD);
}

/* True if it is OPEN or SEALED, and no thread has it: it may be ended. */
static inline bool checkpoint_rests_locked(const struct checkpoint *cp)
{
	return cp->state <= GENERATION_SEALED && !(cp->busy & BUSY_HELD);
}

/* Lock not held. Its commit was not done: it is SEALED again. True if it fails, as it was to. */
bool checkpoint_give_back(struct checkpoint *cp);

/*
 * Drops the lock while it waits: casualty_tell, before @p begins another checkpoint. If one of its
 * job fails for a death it is told first. -EINTR, too.
 */
int checkpoints_tell_casualty_locked(struct units *us, struct process *p);

/*
 * Does the file @fd, which @stx is of, have a digest as its xattr that is of this size and time?
 * *@hex.
 */
bool checkpoint_recorded(struct backing *b, int fd, const struct statx *stx, char hex[DIGEST_HEX]);

/* The end of @cp (evidence.c). */
void checkpoint_look_for_end_locked(struct checkpoint *cp);
bool checkpoint_ends_with_writers_locked(struct checkpoint *cp);

/*
 * Is what its end asks for in files still there? It was SEALED when another node told of a removal.
 */
bool checkpoint_stands_locked(struct checkpoint *cp);

/* Is the last that happened to a name in it, here or on another node, a removal? */
bool checkpoint_is_losing_locked(const struct checkpoint *cp);

/* Is a program removing it, file by file, as far as is known? */
bool checkpoint_is_being_removed_locked(struct checkpoint *cp);

/*
 * A writer has died, and all nodes have told what they had to: has it ended by that? Then, if it is
 * OPEN, it is SEALED.
 */
bool checkpoint_verdict_locked(struct checkpoint *cp);
void checkpoint_forget_evidence(struct checkpoint *cp); /* lock not held: of one that nobody has */

/*
 * What is known of its end: does a piece of its rule's evidence hold; is a file that fits there,
 * closed, and that rank's (-1: of any); the largest world that one of its writers knows, 0: none
 * does.
 */
bool checkpoint_holds_locked(void *checkpoint, const struct evidence *ev);
bool checkpoint_has_file_of_locked(struct checkpoint *cp, const struct evidence *ev, int rank);
int checkpoint_world_locked(struct checkpoint *cp);
void units_wait_for_commits_locked(struct units *us);

/* For jobs_create. */
void checkpoints_process_ended(void *units, const struct process *p, struct writer_end end);

/*
 * Directories in @dir of which nothing tells yet what they are, are none of their own from here on:
 * they get their names. 0 or -errno.
 */
int checkpoints_yield_in(struct units *us, const struct inode_id *dir);

/* Steps of its beginning. @was: the directory that has the name. */
int checkpoint_make(struct units *us, const struct caller *c, struct process *p,
		    const struct place *at, mode_t mode, const struct statx *was,
		    struct checkpoint **out);
int checkpoint_show(struct checkpoint *cp);
int checkpoint_show_locked(struct checkpoint *cp);

/*
 * Lock not held. @cp could not be shown, for @err: it is over. Other nodes may have found its
 * claim, and joined. Then it has failed for its job, whose ranks count what they wrote there as
 * saved. Returns the error for the caller, who is told by that.
 */
int checkpoint_give_up(struct checkpoint *cp, int err);

/*
 * Has its name got something since checkpoint_make looked, such as what another one has committed,
 * or an ordinary file? Looked at before it gets the name from other nodes, and when it is shown. 0,
 * -EEXIST or another -errno.
 */
int checkpoint_check_free(struct checkpoint *cp);

/*
 * For one that another node began with what the name has: which of its files are those of that. 0
 * or -errno.
 */
int checkpoint_knows_inherited(struct checkpoint *cp);

/* Mode, owner, ACL and attributes of @old, which @was is of, for @fd; with @copy its bytes, too. */
int units_take_over(struct backing *b, int old, int fd, const struct statx *was, bool copy);

void generation_end_locked(struct generation *g, enum generation_state state);
bool generation_is_closed_locked(const struct generation *g);

/* Is it, or will it soon be, given its name? A pointer may wait for what a program does later. */
bool generation_is_going_locked(const struct generation *g);

/* Every change of the state of one in units->live; @who: the function that asks. */
void generation_set_state_by_locked(struct generation *g, enum generation_state state,
				    const char *who);
#define generation_set_state(g, state) generation_set_state_by_locked(g, state, __func__)

/* As checkpoint_is_held_locked and so on. */
static inline bool generation_is_held_locked(const struct generation *g)
{
	return g->busy & BUSY_HELD || state_is_ending(g->state);
}

static inline bool generation_rests_in(const struct generation *g, enum generation_state state)
{
	return g->state == state && !(g->busy & BUSY_HELD);
}

static inline bool generation_rests(const struct generation *g)
{
	return g->state <= GENERATION_SEALED && !(g->busy & BUSY_HELD);
}

/* From here on @g is what its name shows, and the newest of all. */
void generation_show_locked(struct generation *g);

/* OPEN or SEALED, as to who has it. */
void generation_settle_locked(struct generation *g);

/* Expects @o no longer. */
void generation_miss_locked(struct generation *g, struct opener *o);

/* It alone, not what it has replaced; as generation_drop. */
int generation_drop_one(struct generation *g);

/*
 * Steps of a publish (publish.c) for the thread that has @g, in PUBLISHING or TAKEN, or to make
 * it ordinary; without the lock. Whole: it is durable in staging, and NAMING, unless it is a part
 * or ordinary. Name: it has its name; *@named also if that could not be synced, and not if another
 * node's pointer, which was written later, has it. End: what comes of it, @state if @err is 0.
 * 0, or -errno with @e filled.
 */
int publish_whole(struct generation *g, struct error *e);
int publish_name(struct generation *g, bool *named, struct error *e);
uint64_t publish_written_ns(struct generation *g); /* by the wall clock */
void publish_end(struct generation *g, enum generation_state state, int err, bool named,
		 const char *reason);

struct generation *units_find_staging(struct units *us, const char *staging);

/* Waits a moment for a change. -EINTR if the call was given up. */
int units_wait(struct units *us);
/* Lock not held: waits for @ns, whatever changes. 0; -EINTR. */
int units_pause(struct units *us, uint64_t ns);

/* Waits a moment for something to publish, for which time alone may be the reason, too. */
void units_wait_for_work_locked(struct units *us);

/*
 * Ends it as failed, with @reason for people. Takes the lock. A thread that has it is not
 * disturbed: it fails when that thread lets go of it unpublished.
 */
void generation_fail(struct generation *g, int err, const char *reason);

/*
 * Lock not held. The caller had it, for its end (@with 0: it is SEALED again) or busy @with it.
 * True if it fails, as it was to.
 */
bool generation_let_go(struct generation *g, enum busy with);

/* Removes its staging file from @dir. As the daemon, too, if its maker's rights are not enough. */
void generation_unstage(struct generation *g, int dir);

/* Renames its staging file to @name in @dir. 0 also if it has that name already. */
int generation_move(struct generation *g, int from, int dir, const char *name);

/*
 * The path of @name (NULL: of the inode itself) in the directory @dir, for people: the one place
 * that asks whoever knows paths. Lock not held.
 */
void units_path(const struct units *us, const struct inode_id *dir, const char *name, char *buf,
		size_t size);

/* The path of its target, for people. Lock not held. */
void generation_path(struct generation *g, char *buf, size_t size);

void *publisher_main(void *units);

#endif
