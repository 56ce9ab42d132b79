/* SPDX-License-Identifier: MIT */
/*
 * A recording backing: everything that is changed or synced through a struct backing goes into a
 * log, with all that is needed to do it again. What crashes can leave of it: crash.h.
 *
 *	struct record *r = record_start(&backing);	what is there now counts as durable
 *	... the program under test ...
 *	record_mark(r, 1);				"I was told that it is saved"
 *	... more ...
 *	record_stop(r);
 *	crash_explore(r, ...);
 *	record_free(r);
 *
 * - Start before the engine chooses how it flushes: io_uring is used only over the real calls.
 * - Start and stop while nobody uses the backing. In between any threads may; changes and syncs
 *   are made one at a time, so that the log is in the order in which they happened.
 * - A sync covers what had returned when it was called, nothing that ran beside it.
 * - Faults (faults.h) are attached after the recorder: what fails or waits there is not recorded.
 * - Not seen: what does not go through the backing's functions (mmap, kernel passthrough, a
 *   descriptor used directly, another mount). The first call on an inode that the log does not
 *   know makes the log unusable, and record_problem says why.
 * - Inode numbers and birth times are replayed in memory only (memory.h).
 */
#ifndef TESTS_BACKING_RECORD_H
#define TESTS_BACKING_RECORD_H

#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "engine/backing/backing.h"

enum record_kind {
	/* Changes to names. */
	RECORD_MAKE,   /* @inode, new, as @dir/@name; @data: a symlink's target */
	RECORD_LINK,   /* @inode as @dir/@name too */
	RECORD_REMOVE, /* @dir/@name, which was @inode */
	RECORD_RENAME, /* @inode from @dir/@name to @new_dir/@new_name; @flags of renameat2 */
	/* Changes to @inode. */
	RECORD_WRITE,	     /* @len bytes of @data (NULL: zeros) at @off */
	RECORD_TRUNCATE,     /* from @len bytes to @off */
	RECORD_CHMOD,	     /* this and the next two: see @attr */
	RECORD_CHOWN,	     /* */
	RECORD_UTIMENS,	     /* */
	RECORD_SET_XATTR,    /* @name = @len bytes of @data */
	RECORD_REMOVE_XATTR, /* @name */
	/* No change. */
	/* @inode, those of its ops that are in [@from, @to) of the log; @sync: of what */
	RECORD_SYNC,
	RECORD_MARK, /* @mark */
};

struct record_attr {
	mode_t mode;
	uid_t uid;
	gid_t gid;
	dev_t rdev;
	struct timespec atime, mtime;
};

struct record_op {
	enum record_kind kind;
	int inode; /* index in inodes; SYNC of all: -1 */
	int dir, new_dir;
	char *name, *new_name;
	int other; /* RENAME: the inode that had the new name, or -1 */
	unsigned flags;
	off_t off;
	size_t len;
	void *data;
	struct record_attr attr; /* of @inode when it was done */
	size_t from, to;
	enum backing_sync sync;
	int mark;
};

struct record_inode {
	dev_t dev;
	ino_t ino;
	struct timespec btime;
	mode_t type;   /* S_IFMT */
	char *path;    /* where it was made, for messages */
	off_t size;    /* now */
	size_t blocks; /* of 4 KiB, that were ever written */
};

struct record {
	struct record_op *ops;
	size_t nr_ops, nr_initial;   /* the first nr_initial make the tree that was there */
	struct record_inode *inodes; /* [0]: the top directory */
	size_t nr_inodes;
	struct record_attr top;
	/* private */
	struct backing *backings[8]; /* that record */
	size_t nr_backings;
	const struct backing_ops *next;
	void *next_arg;
	pthread_mutex_t lock; /* of all the above */
	size_t max_ops, max_inodes;
	char problem[300];
};

/* Never fails; trouble in reading what is there is a problem of the log. */
struct record *record_start(struct backing *b);
/* Records @b as well, which is open on the same directory: another node's view of it. */
void record_attach(struct record *r, struct backing *b);
/* Forgets the log: what is there now counts as durable. */
void record_restart(struct record *r);
void record_stop(struct record *r);
void record_free(struct record *r);

/* Something was promised: checks of crashes from here on are told @mark (0 before the first). */
void record_mark(struct record *r, int mark);

/* NULL, or why the log cannot be replayed. */
const char *record_problem(struct record *r);

/* "write a/b [0, 4096)" */
void record_describe(const struct record *r, const struct record_op *op, char *buf, size_t size);
/* The log, a line for each op, without the initial ones. */
void record_print(const struct record *r, FILE *out);

#endif
