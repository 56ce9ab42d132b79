/* SPDX-License-Identifier: MIT */
/* Between the calls of a faulty backing (faults_ops.c) and what happens to them (faults.c). */
#ifndef TESTS_BACKING_FAULTS_INSIDE_H
#define TESTS_BACKING_FAULTS_INSIDE_H

#include <fcntl.h>
#include <pthread.h>

#include "tests/backing/faults.h"

struct rule {
	struct fault fault;
	unsigned nr, hits; /* calls that it matched, and failed */
};

struct faults {
	struct backing *backing;
	const struct backing_ops *next;
	void *next_arg;
	pthread_mutex_t lock; /* of all below */
	pthread_cond_t changed;
	struct rule *rules;
	size_t nr_rules, max_rules;
	ino_t only; /* 0: any */
	unsigned frozen_calls, most_frozen, nr_frozen;
	uint64_t thaws;
	unsigned short_calls;
	size_t short_bytes;
	int64_t room; /* on the disk; < 0: no limit */
	int full_err;
	unsigned slow_calls;
	uint64_t call_ns, byte_ns;
	uint64_t wire_free;    /* when the last byte that was given to the wire will have passed */
	uint64_t slow_setting; /* how often slowness was set */
	uint64_t count[30];    /* for each CALL_* */
};

struct verdict {
	int err;   /* 0 or -errno */
	bool done; /* the call is made nevertheless */
	bool nothing;
};

extern const struct backing_ops faults_ops;

/* What the backing below says of @fd. 0 or -errno. */
static inline int faults_stat(struct faults *f, int fd, struct statx *stx)
{
	return f->next->stat(f->next_arg, fd, "", AT_EMPTY_PATH, stx);
}

/*
 * Waits, and says whether the call fails. @fd: of the inode that it is about, or -1. @name2: a
 * second name of it; both may be NULL.
 */
struct verdict faults_enter(struct faults *f, unsigned call, int fd, const char *name,
			    const char *name2, size_t bytes);

/* How much of @size a call may do. */
size_t faults_limit(struct faults *f, unsigned call, size_t size);

/*
 * Takes from the disk what @size bytes at @off (@append: at the end) add to the file, and lessens
 * @size to what there is room for, unless it must be the @whole. Returns what it took, or -errno.
 */
ssize_t faults_reserve(struct faults *f, int fd, size_t *size, off_t off, bool append, bool whole);
void faults_give_back(struct faults *f, int64_t bytes);
void faults_show_room(struct faults *f, struct statvfs *sv);

#endif
