/* SPDX-License-Identifier: MIT */
/*
 * Units that are a directory tree: a checkpoint of many files, which commit as a whole.
 *
 * A checkpoint is written into a staging directory, a hidden sibling of its target, in which its
 * files and directories have their own names already. In the mount its name shows that directory,
 * before and after the publish, which is one rename: so programs see nothing of the publish. Each
 * regular file that is written in it is a generation of its own (generation.h). That is durable and
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
 *   (a) seal_locked (checkpoint_seal.c): checkpoint_look_for_end_locked,
 *       checkpoint_ends_with_writers_locked, checkpoint_seal_locked
 *   (b) committer_main                                 (c) commit (commit.c)
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
 * A change to a committed checkpoint is another one, which inherits what is not changed, and
 * replaces it; change.c tells what ends that one.
 *
 * Guarded by the units' lock.
 */
#ifndef ENGINE_SAVE_CHECKPOINT_H
#define ENGINE_SAVE_CHECKPOINT_H

#include "engine/rule/rule.h"
#include "engine/save/generation.h"

struct checkpoint;
struct process;

/* True if @cp shares the file of inode @id with what it inherited from. */
bool checkpoint_shares(const struct checkpoint *cp, const struct inode_id *id);

/* Const; valid as long as the caller's reference. */
const struct inode_id *checkpoint_id(const struct checkpoint *cp);
const struct caller *checkpoint_owner(const struct checkpoint *cp);
/* True if it began with what the name had; if that was committed. */
bool checkpoint_inherits(const struct checkpoint *cp);
bool checkpoint_is_change(const struct checkpoint *cp);

void checkpoint_get(struct checkpoint *cp);
void checkpoint_put(struct checkpoint *cp); /* NULL is no harm */

/*
 * The descriptor of its directory, valid as long as the caller's reference. The directory of a
 * failed one is opened again if need be. Or -errno; -ESTALE: the directory is gone.
 */
int checkpoint_fd(struct checkpoint *cp);

/*
 * The checkpoint whose staging directory is inode @id, referenced, or NULL; also one that has
 * failed. Cheap when there is none at all. May be called with locks that rank before the units'.
 */
struct checkpoint *checkpoints_find_inode(struct units *us, const struct inode_id *id);

/* The checkpoint that a name shows, referenced, or NULL. */
struct checkpoint *checkpoints_find(struct units *us, const struct inode_id *dir, const char *name);

/*
 * True if this directory was replaced under its name, or is about to be. A process that has it as
 * working directory, or by a descriptor, goes on in what the name stands for now. Cheap, and as the
 * one above.
 */
bool checkpoints_replaced(struct units *us, const struct inode_id *id);
bool checkpoints_any_replaced(struct units *us);

/*
 * How many checkpoints of this mount have got their names so far. One counts before calls in it
 * find a directory of the backing.
 */
unsigned checkpoints_published(struct units *us);

/*
 * @p writes the file @rel of @cp from nothing. Call this between enter and leave, while the file
 * counts as open, or is. No effect if @cp changes no committed checkpoint. 0, or -errno: the kind
 * is unknown. (change.c)
 */
int change_from_nothing(struct checkpoint *cp, struct process *p, const char *rel);

/*
 * A program here has done @kind to @path, relative to @cp. No effect after a death here
 * (accord_is_cut).
 */
void checkpoint_note(struct checkpoint *cp, enum evidence_kind kind, const char *path, int rank);

/* The file at @path in @cp has lost that name: its close is no evidence any more. */
void checkpoint_vanished(struct checkpoint *cp, const char *path);

/* A name in @dir was renamed or removed: that may be evidence for the checkpoints beside it. */
void checkpoints_note_beside(struct units *us, const struct inode_id *dir, enum evidence_kind kind,
			     const char *name);

/* The pointer file @name in @dir was closed, and names @target beside it. */
void checkpoints_note_pointed(struct units *us, const struct inode_id *dir, const char *target,
			      const char *name);

/* @c has got an error of the file @g of a checkpoint: it need not be told again. */
void checkpoint_told(struct generation *g, const struct caller *c);

/*
 * The process of @c, referenced. NULL without memory. Where other nodes could save, waits some
 * seconds for a process that is slow to read.
 */
struct process *units_process(struct units *us, const struct caller *c);

/* True if @cp is not committed yet, and has neither failed nor been dropped. */
bool checkpoint_is_pending(struct checkpoint *cp);

/* A person asks for the commit of @cp. 0; -EPROTO: it has no files. */
int checkpoint_ask(struct checkpoint *cp);

/* Ends what checkpoint_enter (calls/directory.h) has begun. */
void checkpoint_leave(struct checkpoint *cp);

/* --- whether processes on other nodes may save it, too: accord.c --- */

/* True if other nodes could save what this mount sees. */
bool accord_has_others(const struct units *us);

/* True if another node has been seen. The answer may be wrong for a moment after a node mounts. */
bool accord_may_meet_others(const struct units *us);

/* True if a process on another node may write to what @p begins. */
bool accord_is_for(const struct units *us, const struct process *p);

/*
 * Lock not held. @owner's handle, as backing_owner, for what the job of @p saves: a shared one if
 * that job runs on several nodes. @p NULL: the job may.
 */
struct backing accord_backing(const struct units *us, const struct process *p,
			      const struct caller *owner);

/* --- what was committed just now, for one thread that reads it: committed.c --- */

struct committed {
	struct list link;
	int fd;		     /* of its directory */
	struct caller owner; /* whose files they are */
	char *path;	     /* relative to the backing, when it was committed */
};

/*
 * Waits for the next one. The caller releases it with committed_free. -ECANCELED: committed_stop
 * was called, or the units have ended; then none comes any more.
 */
int committed_take(struct units *us, struct committed **out);
void committed_free(struct committed *c); /* accepts NULL */

/* Ends all calls of committed_take. The units outlive the thread that makes them. */
void committed_stop(struct units *us);

#endif
