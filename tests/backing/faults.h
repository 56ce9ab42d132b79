/* SPDX-License-Identifier: MIT */
/*
 * A backing that fails, is full, takes part of what it is given, hangs or is slow, as it is told
 * from one moment to the next, and passes on the rest.
 *
 *	struct faults *f = faults_attach(&backing);
 *
 *	faults_add(f, &(struct fault){.calls = CALL_WRITE, .skip = 2, .times = 1, .err = EIO});
 *	...						the third write from here on fails
 *	faults_freeze(f, CALL_SYNC);
 *	... start a thread that syncs ...
 *	faults_wait_frozen(f, 1);			now it hangs
 *	faults_thaw(f);
 *	faults_detach(f);
 *
 * To fail each call of a program in turn: run it once, take nr = faults_count(f, CALL_ANY), then
 * run it anew with .skip = 0, 1, ... nr - 1.
 *
 * - Attach and detach while nobody uses the backing; all else at any time, from any thread. A
 *   recorder (record.h) is attached before, so that it sees what really happens.
 * - One layer may sit on another; the backing of another "node" has a layer of its own.
 * - In this order a call is counted, waits while it is frozen, fails, waits while it is slow, and
 *   finds the disk full.
 * - What does not go through the backing's functions is not touched: mmap, kernel passthrough.
 */
#ifndef TESTS_BACKING_FAULTS_H
#define TESTS_BACKING_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/backing/backing.h"

/* Calls of struct backing_ops, to be combined. */
enum {
	CALL_PIN = 1 << 0,    /* open with O_PATH */
	CALL_CREATE = 1 << 1, /* open with O_CREAT */
	CALL_OPEN = 1 << 2,   /* any other, and reopen */
	CALL_MKDIR = 1 << 3,
	CALL_MKNOD = 1 << 4,
	CALL_SYMLINK = 1 << 5,
	CALL_LINK = 1 << 6,
	CALL_UNLINK = 1 << 7,
	CALL_RENAME = 1 << 8,
	CALL_STAT = 1 << 9,
	CALL_STATFS = 1 << 10,
	CALL_READLINK = 1 << 11,
	CALL_CHMOD = 1 << 12,
	CALL_CHOWN = 1 << 13,
	CALL_UTIMENS = 1 << 14,
	CALL_TRUNCATE = 1 << 15, /* and ftruncate */
	CALL_GETXATTR = 1 << 16,
	CALL_LISTXATTR = 1 << 17,
	CALL_SETXATTR = 1 << 18,
	CALL_REMOVEXATTR = 1 << 19,
	CALL_READ = 1 << 20,
	CALL_WRITE = 1 << 21,
	CALL_FALLOCATE = 1 << 22,
	CALL_SYNC = 1 << 23,	 /* fsync and fdatasync of a file */
	CALL_SYNC_DIR = 1 << 24, /* of a directory */
	CALL_SYNC_FS = 1 << 25,
	CALL_WRITE_BACK = 1 << 26,
	CALL_SEEK = 1 << 27,
	CALL_COPY_RANGE = 1 << 28,
	CALL_GETDENTS = 1 << 29,
	CALL_ANY = (1 << 30) - 1,
	CALL_ANY_SYNC = CALL_SYNC | CALL_SYNC_DIR | CALL_SYNC_FS,
	CALL_LOOKS = CALL_PIN | CALL_OPEN | CALL_STAT | CALL_STATFS | CALL_READLINK |
		     CALL_GETXATTR | CALL_LISTXATTR | CALL_READ | CALL_SEEK | CALL_GETDENTS,
	CALL_CHANGES = CALL_ANY & ~(CALL_LOOKS | CALL_ANY_SYNC | CALL_WRITE_BACK),
};

struct fault {
	unsigned calls; /* CALL_*: which it hits */
	/* of a directory entry: only calls by that name; NULL: all. Kept, not copied */
	const char *name;
	unsigned skip;	/* so many pass first */
	unsigned times; /* so many fail after that; 0: all */
	int err;	/* EIO, ... */
	bool done;	/* what was asked for is done; only the answer is the error */
	bool nothing;	/* no error: a read, write or copy does nothing, and says so */
};

struct faults;

struct faults *faults_attach(struct backing *b);
/* Nobody may be in a call, frozen ones included. */
void faults_detach(struct faults *f);
/* As it was when attached, but for the count; the frozen go on. */
void faults_clear(struct faults *f);

/* Adds one; those added first are asked first, all that match count. Returns its number. */
int faults_add(struct faults *f, const struct fault *fault);
/* How many calls the fault has failed. */
unsigned faults_hits(struct faults *f, int number);

/* Room for @bytes more, then short writes, then @err (ENOSPC, EDQUOT); @bytes < 0: no limit. */
void faults_disk(struct faults *f, int64_t bytes, int err);
/* A read, write or copy does at most @bytes at once; 0: no limit. */
void faults_short(struct faults *f, unsigned calls, size_t bytes);

/*
 * From here on faults, frost and slowness are only for calls on descriptors of this inode of the
 * backing, whatever its name; 0: for all.
 */
void faults_only(struct faults *f, ino_t ino);

/* These calls wait until they are let go; others that are frozen already stay so. */
void faults_freeze(struct faults *f, unsigned calls);

/* The same, but so many at a time at most; the others pass. */
void faults_freeze_first(struct faults *f, unsigned calls, unsigned most);
void faults_thaw(struct faults *f);
/* Returns once (at least) @nr calls wait. */
void faults_wait_frozen(struct faults *f, unsigned nr);
unsigned faults_frozen(struct faults *f);

/*
 * Each of these calls takes @call_ns, beside others, and then @byte_ns for each byte of a read,
 * write or copy, one after the other as on one wire. A later call of this ends the waiting.
 */
void faults_slow(struct faults *f, unsigned calls, uint64_t call_ns, uint64_t byte_ns);

/* How many of these calls there were, since it was attached. */
uint64_t faults_count(struct faults *f, unsigned calls);
/* Returns once there were @nr. */
void faults_wait_count(struct faults *f, unsigned calls, uint64_t nr);

#endif
