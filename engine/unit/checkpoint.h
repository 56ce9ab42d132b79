/* SPDX-License-Identifier: MIT */
/*
 * Units that are a directory tree (K1 with many entries): a checkpoint of many files.
 *
 * It is written into a staging directory, a hidden sibling of its target, in which its files and
 * directories have their own names already. In the mount its name shows that directory (K5), before
 * and after it is published, by one rename: so nothing of the publish can be seen there. Each
 * regular file that is written in it is a generation of its own (unit.h), which is durable and
 * digested, by its xattr, before the checkpoint is.
 *
 *        OPEN -----> SEALED -----> COMMITTING -----> NAMING -----> COMMITTED
 *              (a)          (b)               (c)             (e)
 *
 *       COMMITTING          -> SEALED     it is tried again, or fails in a moment (d)
 *       NAMING              -> SEALED     it fails in a moment: no commit is decided, nor will be,
 *                                         or the name is another's (d)
 *       OPEN, SEALED        -> FAILED     an error, a death, a time-out, an abort of others (f)
 *       OPEN, SEALED        -> COMMITTED  the node that saw its end has given it its name (g)
 *       OPEN, SEALED        -> DROPPED    another node found that it is ordinary (g)
 *       OPEN                -> DROPPED    it was removed, is ordinary, or has nothing in it (h)
 *       NAMING              -> DROPPED    nothing of a unit is left in it: it is ordinary (e)
 *
 *   (a) seal (evidence.c): checkpoint_look_for_end_locked, checkpoint_ends_with_writers_locked,
 *       checkpoint_seal_locked       (b) committer_main       (c) commit (commit.c)
 *   (d) checkpoint_give_back, from work_on (commit.c)  (e) work_on (commit.c)
 *   (f) checkpoint_fail, checkpoint_fail_open          (g) accord_conclude
 *   (h) checkpoint_remove, make_ordinary, checkpoint_forget, checkpoint_give_up;
 *       accord_never_shown
 *
 * What holds in each:
 *   OPEN        may be changed. Without a rule it is provisional: its first file decides what
 *               it is
 *   SEALED      its end was seen, and its files are being flushed. A change waits for the
 *               commit, and then is one of the committed checkpoint
 *   COMMITTING  no file of it is open or dirty, and all nodes have voted. A committer lists
 *               and syncs it. An error is kept: it counts only if this commit does not end well
 *   NAMING      its files, directories and commit file are synced: after a crash all of it is
 *               there. The decision is being recorded, or is, and the name given by one rename.
 *               Errors do not change that: it is tried again, at last by the next mount
 *   COMMITTED   a directory of the backing, with a commit file
 *   FAILED      the reason is known; hidden, kept in staging. Changes get its error
 *   DROPPED     its staging directory is gone, or an ordinary directory
 *
 * While a program renames or removes it, or it becomes ordinary, it stays OPEN and is `busy`
 * (BUSY_HELD): a change waits, an error is kept, and no end is seen.
 *
 * One that is changed after that is another, which inherits what is not changed, and replaces it.
 * What ends that, change.h tells.
 *
 * Guarded by the units' lock.
 */
#ifndef ENGINE_UNIT_CHECKPOINT_H
#define ENGINE_UNIT_CHECKPOINT_H

#include <errno.h>

#include "engine/base/table.h"
#include "engine/format/commit.h"
#include "engine/gen/tally.h"
#include "engine/liveness/epoch.h"
#include "engine/liveness/job.h"
#include "engine/rule/rule.h"
#include "engine/unit/filed.h"
#include "engine/unit/unit.h"

/* A process that writes to a checkpoint. */
struct participant {
	struct list link;
	struct process *process; /* referenced */
	bool watched;		 /* that; false: its end will not be seen */
	bool copies;		 /* by the way in which it makes files */
	bool ended;
	struct writer_end end;
};

/* An operation on a name that may be evidence of the end. */
struct event {
	struct list link;
	struct table_node node; /* checkpoint->events_by_path */
	enum evidence_kind kind;
	char *path; /* relative to the checkpoint; beside it: "../NAME" */
	int rank;   /* of who wrote that file; -1: unknown */
};

struct following;
struct rival;
struct accord;

struct checkpoint {
	struct units *units;	   /* const */
	char staging[STAGING_MAX]; /* const: ".ckptfs-" and 32 hex digits of its random id */
	struct caller owner;	   /* const */
	struct inode_id id;	   /* const: of its directory */
	int fd; /* const: that directory; holds a lock on it (remains.c). FAILED: checkpoint_fd */
	/* who began it, or first made it a unit, referenced; const once it has a rule */
	struct process *maker;
	/* units lock */
	unsigned refs;
	struct list link;	     /* units->checkpoints; FAILED: units->wrecks */
	struct table_node by_inode;  /* FAILED: the same; else alone */
	char *below;		     /* FAILED: the path of target.dir in the backing */
	enum generation_state state; /* checkpoint_set_state */
	unsigned busy;		     /* of enum busy */
	struct target target;
	bool visible;			      /* the name shows it */
	bool replaces;			      /* something had the name when it was begun ... */
	struct inode_id replaced;	      /* ... namely this, */
	char replaced_generation[COMMIT_HEX]; /* const: which is this committed one; "": is none */
	const struct rule *rule; /* NULL: provisional, or a change to a committed one */
	bool inherits;		 /* const: it began with what the name had */
	bool follows;		 /* const: and that was a committed one */
	/* const: if all that goes, it is none any more, not even its job's last */
	bool may_be_ordinary;
	bool ordinary;	      /* of who commits it: so it is */
	bool anew;	      /* that is being saved once more (change.h) */
	bool removing;	      /* the last that happened to a name in it, here, was a removal */
	unsigned nr_changing; /* calls that change it right now */
	struct list events, participants;
	struct table events_by_path; /* no buckets until there is one */
	struct tally tally;
	struct inode_id *shared; /* const once shown: files that it inherited, sorted */
	size_t nr_shared, shared_room;
	/* generation.beside: what is being written in it; what is OPEN comes first */
	struct list files;
	bool has_tensors; /* one of these has */
	size_t nr_told;	  /* tensors that other nodes have told of: not kept beyond SHARDS_MAX */
	struct filed_files filed; /* its files that are durable */
	struct rival *rivals;	  /* rivals.h */
	size_t nr_rivals, rivals_room;
	bool asked,
		has_sibling, /* evidence: somebody asked for the commit; the job's next was begun */
		goes_on;     /* namely by the process that alone wrote to this */
	int done;	     /* SEALED: the alternative of the rule that held */
	uint64_t changed_ns; /* monotonic, as the next ones: the last change */
	uint64_t left_ns;    /* the last end of one of its writers */
	uint64_t short_ns;   /* there was no room for it; 0: never */
	struct shortage shortage;	  /* of its commit */
	bool taken;			  /* a committer works on it */
	char *unit;			  /* NAMING: its path below the backing, for the decision */
	bool decided;			  /* recovery may have been told to publish it */
	bool recorded;			  /* NAMING: and has been */
	bool stuck;			  /* NAMING: people know that it does not go on */
	bool unwanted, outlived, cleared; /* FAILED: wreck.h */
	uint64_t opened_ns, closed_ns, flushed_ns,
		ended_ns;			 /* closed: its end was seen, or fixed by a death */
	uint64_t failing_ns, again_ns, pause_ns; /* publishing fails since; is tried again when */
	uint64_t size;				 /* when it ended */
	char *path;				 /* at its end, for people */
	int err;				 /* FAILED: -errno */
	char reason[MESSAGE_MAX];
	struct following *following; /* of the thread that commits it: following.h */
	struct accord *accord; /* const once shown; NULL: it is this node's alone (accord.h) */
};

/*
 * Begins a checkpoint of @at, as @c, who is @p: makes its staging directory
 * with @mode and shows it. 0 and a reference, or -errno: -EEXIST: the name is taken.
 */
int checkpoint_begin(struct units *us, const struct caller *c, struct process *p,
		     const struct place *at, mode_t mode, struct checkpoint **out);

/*
 * This node's part of the one that another node has begun, whose generation is @gen: not shown yet.
 * 0 and a reference. -ENOENT: it is not there (any more).
 */
int checkpoint_adopt(struct units *us, const struct caller *c, struct process *p,
		     const struct place *at, const char *gen, bool inherits, bool follows,
		     struct checkpoint **out);

/*
 * The same of the directory that has the name, with everything in it; @committed: it has a commit
 * file. -EEXIST: that was begun by somebody else. The caller has entered it (checkpoint_leave):
 * however long that took, it has not ended before the caller's change.
 */
int checkpoint_inherit(struct units *us, const struct caller *c, struct process *p,
		       const struct place *at, bool committed, struct checkpoint **out);

/*
 * The same of a committed one, for a committer: room is not waited for, and who is told of what
 * failed before are programs. Of it something was removed, last at @removed_ns; @may_be_ordinary:
 * all of it may be.
 */
int checkpoint_inherit_now(struct units *us, const struct caller *c, struct process *p,
			   const struct place *at, uint64_t removed_ns, bool may_be_ordinary,
			   struct checkpoint **out);

/*
 * Thread @c->pid will open the file at the path @rel in it, for writing: if that is the same as one
 * of what it inherited from, it becomes a copy of that, or @empty; and the checkpoint has not ended
 * before that open.
 * @rank: of who that is. Between enter and leave. 0, also if there is no such file, or -errno.
 */
int checkpoint_expect(struct checkpoint *cp, const struct caller *c, int rank, const char *rel,
		      bool empty);

/* Is the file of inode @id also one of what it inherited from? */
bool checkpoint_shares(const struct checkpoint *cp, const struct inode_id *id);
void checkpoint_get(struct checkpoint *cp);
void checkpoint_put(struct checkpoint *cp); /* NULL is no harm */

/*
 * The descriptor of its directory, also if it has failed: then it is opened again if need be. It is
 * good as long as the caller's reference. Or -errno; -ESTALE: the directory is gone.
 */
int checkpoint_fd(struct checkpoint *cp);

/* The one that a name shows, referenced, or NULL. */
struct checkpoint *checkpoints_find(struct units *us, const struct inode_id *dir, const char *name);

/*
 * That whose staging directory is inode @id, referenced, or NULL; also one that has failed. Cheap
 * when there is none at all. May be called with locks that rank before the units'.
 */
struct checkpoint *checkpoints_find_inode(struct units *us, const struct inode_id *id);

/*
 * Has this directory been replaced under its name, or is about to be? Who has it as working
 * directory, or by a descriptor, goes on in what the name stands for now. Cheap, and as the one
 * above.
 */
bool checkpoints_replaced(struct units *us, const struct inode_id *id);
bool checkpoints_any_replaced(struct units *us);

/*
 * How many of this mount have got their names so far; counted before calls in them find a directory
 * of the backing.
 */
unsigned checkpoints_published(struct units *us);

/*
 * Before a change in it by @p (NULL: of nobody in particular). 0: go on, and say checkpoint_leave
 * when that is done. -EEXIST: it is a directory of the backing like any other by now. -EBUSY: a
 * live job has it, and @p is of another. -ESTALE: nobody of its job is left, and @p, of another,
 * has superseded it; or it has failed, and that is nothing to the job of @p: the name leads
 * elsewhere now. -EINTR; or the error that it, or another one of the job of @p, failed with.
 */
int checkpoint_enter(struct checkpoint *cp, struct process *p);
void checkpoint_leave(struct checkpoint *cp);

/*
 * The same for a change to a file of it by who has that open, or mapped, since its file was
 * written; whose call it is need not be known. -ESTALE: it is committed by now, and stays as it is.
 */
int checkpoint_enter_open(struct checkpoint *cp);

/*
 * @p is going to write to it: its end is watched until that of the checkpoint was seen. 0 or
 * -errno.
 */
int checkpoint_join(struct checkpoint *cp, struct process *p);

/*
 * @p, which has joined it, makes files as cp, tar and rsync do, where nothing may have their names
 * (O_EXCL). Of who has no rank this tells that it copies: silence is no end then as long as it
 * lives, for it may have stopped.
 */
void checkpoint_copied_by(struct checkpoint *cp, const struct process *p);

/*
 * Before the first file, at @rel, is made in it by @p: what is it? Whose file shows it to be a
 * unit, has it. Between enter and leave. 0: its rule is known. -EEXIST: an ordinary directory,
 * which now has its name on the backing. Else -errno.
 */
int checkpoint_claim(struct checkpoint *cp, const char *rel, struct process *p);

/*
 * Before a directory whose name suggests a unit is made in it: then it is none itself, if neither
 * its name nor a file has said so. Returns as checkpoint_claim does.
 */
int checkpoint_yield(struct checkpoint *cp);

/*
 * A program has done @kind to @path, relative to it, here. Of no effect after a death here
 * (accord_is_cut).
 */
void checkpoint_event_locked(struct checkpoint *cp, enum evidence_kind kind, const char *path,
			     int rank);

/* The same, on another node. */
void checkpoint_hear_event_locked(struct checkpoint *cp, enum evidence_kind kind, const char *path,
				  int rank);

/* The same, after the call, for who does not hold the lock. */
void checkpoint_note(struct checkpoint *cp, enum evidence_kind kind, const char *path, int rank);

/* The file at @path in it has lost that name: that it was closed is no evidence any more. */
void checkpoint_vanished(struct checkpoint *cp, const char *path);
void checkpoint_vanishes(struct checkpoint *cp, const char *path); /* lock held */

/* A name beside them was renamed or removed: that may be evidence for those in @dir. */
void checkpoints_note_beside(struct units *us, const struct inode_id *dir, enum evidence_kind kind,
			     const char *name);

/* The pointer file @name, in @dir, was closed, and names @target beside it. */
void checkpoints_note_pointed(struct units *us, const struct inode_id *dir, const char *target,
			      const char *name);

/*
 * Fails it: it is hidden, its files' cache is freed. Unless its job wanted that (-ECANCELED), or is
 * gone (-ESTALE), those of it who wrote to it are told at their next call. Without locks. No effect
 * once it is committed.
 */
void checkpoint_fail(struct checkpoint *cp, int err, const char *reason);

/*
 * The error @err of the backing, for checkpoint_fail: of a stale handle, too, the job must learn.
 */
static inline int failure_of_backing(int err)
{
	return err == -ESTALE ? -EIO : err;
}

/* The same, but only if it is still OPEN, and no thread has it. */
void checkpoint_fail_open(struct checkpoint *cp, int err, const char *reason);

/* @c was told that its call failed, by an error of the file @g of a checkpoint: that is enough. */
void checkpoint_told(struct generation *g, const struct caller *c);

/* @c removes its name, which is empty or not wanted any more: staging goes. 0, -EEXIST as above. */
int checkpoint_remove(struct checkpoint *cp, const struct caller *c);

/*
 * A program gives it another name, which is free, or an empty directory's. -EEXIST: it is published
 * by now. Else 0 or -errno.
 */
int checkpoint_rename(struct checkpoint *cp, const struct place *at);

/*
 * The process of thread @tid, who calls; referenced. NULL without memory. Where other nodes could
 * save, one that is slow to read is waited for, for some seconds.
 */
struct process *units_process(struct units *us, const struct caller *c);

/*
 * The mount at @mountpoint ends: those whose end was not seen fail, those in which nothing is go.
 * How many failed.
 */
unsigned checkpoints_leave_open(struct units *us, const char *mountpoint);

/* Not committed yet, and not failed? */
bool checkpoint_is_pending(struct checkpoint *cp);

/* Somebody asks for its commit. 0; -EPROTO: it has no files. */
int checkpoint_ask(struct checkpoint *cp);

/* What is missing for its end to be seen, for people. */
void checkpoint_missing(struct checkpoint *cp, char *buf, size_t size);

/* --- for engine/unit --- */

/* Is every file of it closed; durable? */
bool checkpoint_is_closed_locked(struct checkpoint *cp);

/* The same, of what this node writes. */
bool checkpoint_is_closed_here_locked(struct checkpoint *cp);
bool checkpoint_is_flushed_locked(struct checkpoint *cp);

/* Does nobody know what it is, and is there nothing in it but directories? */
bool checkpoint_is_nothing_locked(const struct checkpoint *cp);

/*
 * Is it what has the name @name in its directory, on the backing? 1, 0, or -errno: that cannot be
 * seen. Lock not held.
 */
int checkpoint_has_name(struct checkpoint *cp, const char *name);

/*
 * Gives it its name as an ordinary directory, also if another node has just done so. 0 or -errno.
 * Lock not held.
 */
int checkpoint_name_ordinary(struct checkpoint *cp);

/* The path of its target, for people and for its commit file. Lock not held. */
void checkpoint_path(struct checkpoint *cp, char *buf, size_t size);

/* Its name shows what it was before. The list's reference stays where it has @failed. */
void checkpoint_end_locked(struct checkpoint *cp, enum generation_state state);

/* Its end was seen elsewhere; and as which rule's unit. */
void checkpoint_seal_locked(struct checkpoint *cp);
void checkpoint_takes_rule_locked(struct checkpoint *cp, const struct rule *rule);

void *committer_main(void *units);

#endif
