/* SPDX-License-Identifier: MIT */
/*
 * All saves of one mount: struct units, and what the rooms of saves share (engine/README.md). Its
 * one lock guards the saves, too. Functions that end in _locked need that lock; the others say so
 * where they do.
 */
#ifndef ENGINE_SAVE_UNITS_H
#define ENGINE_SAVE_UNITS_H

#include "engine/base/wait.h"
#include "engine/base/worker.h"
#include "engine/coord/coord.h"
#include "engine/liveness/casualty.h"
#include "engine/metrics/failures.h"
#include "engine/save/above.h"
#include "engine/save/checkpoint_inside.h"
#include "engine/save/history.h"
#include "engine/save/replaced_dirs.h"
#include "engine/save/room.h"
#include "engine/save/wreck.h"

#define PUBLISHERS 4
#define COMMITTERS 2
#define FRESH_KEPT 256

/* A process that wrote to a generation. */
struct writer {
	struct list link;
	uint64_t key; /* 0: gone, and ended well; another process may get its key */
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
	struct nodes *nodes;	       /* const; NULL: the mount is alone */
	uint64_t forget_ns;	       /* const: after this time all nodes have seen a decision */
	int accord_wake;	       /* const: an eventfd that wakes the accord thread */
	atomic_bool coord_fails;       /* at the last look; for lookups that have no process yet */
	/*
	 * Hashes of names that this client of the backing looked up freshly (accord_join.c). A
	 * cache, as `above`: a miss costs a look at the backing or at records, or a sync, and
	 * changes nothing else.
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
	bool (*knows)(void *arg, const struct inode_id *id); /* const once mounted, as is */
	void *knows_arg;
	struct lock lock;
	/* lock */
	struct waitq changed; /* for threads that wait for a generation */
	struct waitq work;    /* for the publishers: a generation may be ready, or is litter */
	struct list litter;   /* failed: their staging files are to be removed; referenced */
	struct live live;
	uint64_t looked_ns;	 /* the last search for generations that no program will open */
	struct list checkpoints; /* checkpoints that have not ended, oldest first */
	struct wrecks wrecks;	 /* checkpoints that failed */
	struct list accords;	 /* accord.h */
	unsigned renames;	 /* renames of accords by this node */
	struct {
		bool busy; /* one thread clears */
		/* The chain that this node has closed, and has yet to remove; or "". */
		struct caller owner;
		char first[COORD_GEN_MAX];
	} clearing;	   /* claim.c */
	struct known left; /* jobs: what former incarnations left, since when (accord_join.c) */
	bool accords_over; /* the accord thread has ended */
	struct history history;
	uint64_t nr_committed, nr_failed;
	struct waitq commits, trashed; /* for the committers; for the trash thread */
	struct list trash;
	bool recovered;	     /* recovery has looked once at what was decided before the mount */
	uint64_t recover_ns; /* when recovery looks again; CLOCK_NEVER: nothing is left */
	struct room room;
	unsigned busy; /* BUSY_INHERIT */
	struct casualties casualties;
	struct list held; /* journal_held.h */
	atomic_uint nr_held;
	struct list removals;
	struct table removed; /* the names that waiting removals hide */
	atomic_uint nr_removals;
	atomic_uint unhidden; /* removals_unhidden */
	struct known savers;  /* processes: the directories in which they have saved */
	struct replaced_dirs replaced_dirs;
	atomic_uint nr_published;	   /* checkpoints that got their names */
	struct inode_id above[ABOVE_KEPT]; /* their names are durable; slot n % ABOVE_KEPT */
	unsigned nr_above;
	struct {
		enum { COMMITTED_IGNORED, COMMITTED_TAKEN, COMMITTED_STOPPED } use;
		struct list list;
		unsigned nr;
		struct waitq added;
	} committed;		    /* committed.c */
	struct list drains;	    /* drains that wait right now: drain.h */
	bool no_more_calls;	    /* unmounted */
	atomic_uint nr_checkpoints; /* in `checkpoints` and `wrecks` */
	unsigned nr_threads;
	struct worker threads[PUBLISHERS + COMMITTERS + 2];
};

/* Does every change of its state. @who: the function that asks. */
void checkpoint_set_state_by_locked(struct checkpoint *cp, enum generation_state state,
				    const char *who);
#define checkpoint_set_state(cp, state) checkpoint_set_state_by_locked(cp, state, __func__)

/* True if one thread holds @cp, for its commit or for a change to its name. */
static inline bool checkpoint_is_held_locked(const struct checkpoint *cp)
{
	return cp->busy & BUSY_HELD || state_is_ending(cp->state);
}

/* True if @cp is in @state, OPEN or SEALED, and no thread holds it. */
static inline bool checkpoint_rests_in_locked(const struct checkpoint *cp,
					      enum generation_state state)
{
	return cp->state == state && !(cp->busy & BUSY_HELD);
}

/* True if @cp is OPEN or SEALED, and no thread holds it: @cp may be ended. */
static inline bool checkpoint_rests_locked(const struct checkpoint *cp)
{
	return cp->state <= GENERATION_SEALED && !(cp->busy & BUSY_HELD);
}

/* As casualty_tell. The first call that would go on gets the error, and says why. */
int units_tell_casualty_locked(struct units *us, struct process *p);

/*
 * The same, before @p begins another checkpoint. If one of its job is about to fail for a
 * death, waits for that first, with the lock dropped. Also -EINTR.
 */
int checkpoints_tell_casualty_locked(struct units *us, struct process *p);

/* What is known of the files of @cp (filed.h, overwrites.h), lock not held. */
void checkpoint_add_filed(struct checkpoint *cp, const struct filed *f);
int checkpoint_take_filed(struct checkpoint *cp, struct filed **out, size_t *nr);
void checkpoint_add_overwrite(struct checkpoint *cp, const struct inode_id *own,
			      const struct inode_id *old);
int checkpoint_take_overwrites(struct checkpoint *cp, struct overwrites *out);

/*
 * Lock not held. True if tensors were written by handle to the file @id when it last became
 * durable. *@tensors: where they are; referenced, or NULL.
 */
bool checkpoint_by_handle(struct checkpoint *cp, const struct inode_id *id,
			  struct tensor_map **tensors);

/* Look for the end of @cp (checkpoint_seal.c). */
void checkpoint_look_for_end_locked(struct checkpoint *cp);
bool checkpoint_ends_with_writers_locked(struct checkpoint *cp);

/* True if the files that the end of @cp asks for still exist, after a removal on another node. */
bool checkpoint_stands_locked(struct checkpoint *cp);

/* True if the last change to a name in @cp, here or on another node, was a removal. */
bool checkpoint_is_losing_locked(const struct checkpoint *cp);

/* True if a program seems to be removing @cp, file by file. */
bool checkpoint_is_being_removed_locked(struct checkpoint *cp);

/* True if @cp had its end before a writer died, by what all nodes told. Seals an OPEN @cp. */
bool checkpoint_verdict_locked(struct checkpoint *cp);

/* The job's previous checkpoint in this directory has a successor now: that is evidence for it. */
void checkpoint_tell_sibling_locked(struct checkpoint *cp);

/* The counts for its rule and name as they are now; without a rule they are empty. */
struct tally *checkpoint_tally_locked(struct checkpoint *cp);

/* Lock not held. No other thread has @cp. */
void checkpoint_forget_evidence(struct checkpoint *cp);

/*
 * What is known of the end of @cp: whether a piece of its rule's evidence holds; whether a closed
 * file that fits @ev is there, of that rank (-1: of any); and the largest world that a writer knows
 * (0: unknown).
 */
bool checkpoint_holds_locked(void *checkpoint, const struct evidence *ev);
bool checkpoint_has_file_of_locked(struct checkpoint *cp, const struct evidence *ev, int rank);
int checkpoint_world_locked(struct checkpoint *cp);

/* True if a program that copies writes it. */
bool checkpoint_is_being_copied_locked(struct checkpoint *cp);

/* True if the end of a writer cannot be seen: it is in another pid namespace, say. */
bool checkpoint_has_unseen_writer_locked(const struct checkpoint *cp);

/*
 * True if it changes some of a committed one: its last close is its end. If nothing is left of that
 * one it is no such change, unless it may be an ordinary directory.
 */
bool checkpoint_is_follow_up_locked(const struct checkpoint *cp);

void units_wait_for_commits_locked(struct units *us);

/* Lock not held. @cp, at @path, is committed. No effect before the first committed_take. */
void committed_add(struct checkpoint *cp, const char *path);

/* Releases what no thread has taken. */
void committed_finish(struct units *us);

/* Notes that the file of inode @id is also in the directory that @cp inherits. 0 or -ENOMEM. */
int checkpoint_note_shared(struct checkpoint *cp, const struct inode_id *id);

/* All are noted: checkpoint_shares finds them. */
void checkpoint_sort_shared(struct checkpoint *cp);

/* Lists the files that @cp, which another node began, has inherited. 0 or -errno. */
int checkpoint_knows_inherited(struct checkpoint *cp);

void generation_end_locked(struct generation *g, enum generation_state state);

/* Does every change of the state of a generation in units->live. @who: the function that asks. */
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

/* Lock not held. When its last bytes were written, by the wall clock. */
uint64_t generation_written_ns(struct generation *g);

/* Makes @g the newest generation, and the one that its name shows. */
void generation_show_locked(struct generation *g);

struct generation *units_find_staging(struct units *us, const char *staging);

/* Waits a moment for a change. -EINTR if the call was interrupted. */
int units_wait(struct units *us);
/* Lock not held: waits for @ns, whatever changes. 0 or -EINTR. */
int units_pause(struct units *us, uint64_t ns);

/* Waits a moment for something to publish, for which passing time may be enough. */
void units_wait_for_work_locked(struct units *us);

/* The path of @name in the directory @dir, for people; "" for @name: of @dir. Lock not held. */
void units_path(struct units *us, int dir, const char *name, char *buf, size_t size);

/* The path of a target, for people. Lock not held. */
void target_path(struct units *us, const struct target *t, char *buf, size_t size);
void generation_path(struct generation *g, char *buf, size_t size);

/* The checkpoint that a name shows, not referenced, or NULL. */
struct checkpoint *checkpoints_find_locked(struct units *us, const struct inode_id *dir,
					   const char *name);

/* Frees all of a list that no other thread knows any more. */
void checkpoint_free_participants(struct list *participants);

/* The participant of @cp that is @p, or NULL. */
struct participant *checkpoint_participant_of_locked(struct checkpoint *cp,
						     const struct process *p);

/* The visible generation of a name, not referenced, or NULL. */
struct generation *units_find_locked(struct units *us, const struct inode_id *dir,
				     const char *name);

/* The generation of that inode, referenced, or NULL. */
struct generation *units_find_inode_locked(struct units *us, const struct inode_id *id);

/* The open by thread @pid that @g expects, or NULL. */
struct opener *generation_opener_of_locked(struct generation *g, pid_t pid);

#endif
