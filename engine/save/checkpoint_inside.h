/* SPDX-License-Identifier: MIT */
/* What a checkpoint is made of, for the rooms of saves alone. Others ask checkpoint.h. */
#ifndef ENGINE_SAVE_CHECKPOINT_INSIDE_H
#define ENGINE_SAVE_CHECKPOINT_INSIDE_H

#include <errno.h>

#include "engine/base/table.h"
#include "engine/content/filed.h"
#include "engine/content/overwrites.h"
#include "engine/format/commit.h"
#include "engine/gen/tally.h"
#include "engine/liveness/epoch.h"
#include "engine/liveness/job.h"
#include "engine/save/checkpoint.h"
#include "engine/save/generation_inside.h"

/* A process that writes to a checkpoint. */
struct participant {
	struct list link;
	struct process *process; /* referenced */
	bool watched;		 /* false: its end will not be seen */
	bool copies;		 /* it makes files as a copying program does */
	bool ended;
	struct writer_end end;
};

/* An operation on a name that may be evidence of the end. */
struct event {
	struct list link;
	struct table_node node; /* checkpoint->events_by_path */
	enum evidence_kind kind;
	char *path; /* relative to the checkpoint; beside it: "../NAME" */
	int rank;   /* of the writer of that file; -1: unknown */
};

struct following;
struct left;
struct accord;

struct checkpoint {
	struct units *units;	   /* const */
	char staging[STAGING_MAX]; /* const: ".ckptfs-" and 32 hex digits of its random id */
	struct caller owner;	   /* const */
	struct inode_id id;	   /* const: of its directory */
	int fd; /* const: its directory, with a lock on it (clear_dir.c). FAILED: checkpoint_fd */
	/* the process that began it, or made it a unit; referenced; const once it has a rule */
	struct process *maker;
	/* units lock */
	unsigned refs;
	struct list link;	     /* units->checkpoints; FAILED: units->wrecks */
	struct table_node by_inode;  /* FAILED: the same; else alone */
	char *below;		     /* FAILED: the path of target.dir in the backing */
	enum generation_state state; /* checkpoint_set_state */
	unsigned busy;		     /* of enum busy */
	struct target target;
	bool visible;			      /* its name shows it */
	bool replaces;			      /* something had the name when it was begun ... */
	struct inode_id replaced;	      /* ... namely this, */
	char replaced_generation[COMMIT_HEX]; /* which is this committed one; "": is none */
	const struct rule *rule; /* NULL: provisional, or a change to a committed one */
	bool inherits;		 /* const: it began with what the name had, */
	bool follows;		 /* const: which was committed */
	/* const: without any files it becomes ordinary, even as its job's last */
	bool may_be_ordinary;
	bool ordinary;	      /* set by its committer: it becomes ordinary */
	bool anew;	      /* a change that saves all of it once more (change.c) */
	bool removing;	      /* the last operation on a name in it, here, was a removal */
	unsigned nr_changing; /* number of calls that change it right now */
	struct list events, participants;
	struct table events_by_path; /* no buckets until there is one */
	struct tally tally;
	struct inode_id *shared; /* const once shown: files that it inherited, sorted */
	size_t nr_shared, shared_room;
	/* generation.beside: its files that are being written; those that are OPEN come first */
	struct list files;
	bool has_tensors;	      /* one of its files has */
	struct filed_files filed;     /* its durable files */
	struct overwrites overwrites; /* of files of its own, and other nodes' */
	/* evidence: asked for by a person; the job's next one was begun, by the only writer */
	bool asked, has_sibling, goes_on;
	int done;		  /* SEALED: the alternative of the rule that held */
	uint64_t changed_ns;	  /* last change; monotonic, as the next ones */
	uint64_t left_ns;	  /* last end of one of its writers */
	uint64_t short_ns;	  /* when there was no room for it; 0: never */
	struct shortage shortage; /* of its commit */
	bool taken;		  /* a committer works on it */
	char *unit;		  /* NAMING: its path below the backing, for the decision */
	bool decided;		  /* a commit record may stand */
	bool recorded;		  /* NAMING: and does */
	bool stuck;		  /* NAMING: people know that its commit is refused so far */
	bool unwanted, outlived, cleared;		     /* FAILED: wreck.h */
	uint64_t opened_ns, closed_ns, flushed_ns, ended_ns; /* closed: end seen, or by a death */
	uint64_t failing_ns, again_ns, pause_ns;	     /* failing since; next try */
	uint64_t size;					     /* at its end */
	char *path;					     /* at its end, for people */
	int err;					     /* FAILED: -errno */
	char reason[MESSAGE_MAX];
	struct left *left; /* what waits for its commit on other nodes; NULL: nothing known */
	struct following *following; /* of the thread that commits it (journal_following.h) */
	struct accord *accord;	     /* const once shown; NULL: this node's alone (accord.h) */
};

/* As checkpoint_note, for callers that hold the lock. */
void checkpoint_event_locked(struct checkpoint *cp, enum evidence_kind kind, const char *path,
			     int rank);

/* The same for a program on another node. */
void checkpoint_hear_event_locked(struct checkpoint *cp, enum evidence_kind kind, const char *path,
				  int rank);

/* As checkpoint_vanished, for callers that hold the lock. */
void checkpoint_vanishes(struct checkpoint *cp, const char *path);

/*
 * The error @err of the backing, for checkpoint_fail: the job has to learn of a stale handle, too.
 */
static inline int failure_of_backing(int err)
{
	return err == -ESTALE ? -EIO : err;
}

/* True if every file of @cp is closed, on all nodes. */
bool checkpoint_is_closed_locked(struct checkpoint *cp);

/* True if every file that this node writes is closed; is durable. */
bool checkpoint_is_closed_here_locked(struct checkpoint *cp);
bool checkpoint_is_flushed_locked(struct checkpoint *cp);

/* True if nothing tells what @cp is, and only directories are in it. */
bool checkpoint_is_nothing_locked(const struct checkpoint *cp);

/* Lock not held. The path of its target, for people and for its commit file. */
void checkpoint_path(struct checkpoint *cp, char *buf, size_t size);

/*
 * Ends @cp in @state: its name does not show it any more. If it has failed, the list's reference
 * stays.
 */
void checkpoint_end_locked(struct checkpoint *cp, enum generation_state state);

/* The end of @cp was seen elsewhere. @cp is a unit of @rule. */
void checkpoint_seal_locked(struct checkpoint *cp);
void checkpoint_takes_rule_locked(struct checkpoint *cp, const struct rule *rule);

#endif
