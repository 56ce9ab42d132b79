/* SPDX-License-Identifier: MIT */
/*
 * Receives requests from the device. The data of an expected WRITE (the next one of a program that
 * saves a file from front to back) goes straight to its place in the cache, which spares a copy.
 * Everything else goes to the request's buffer. The lock guards the expectation, and is not held
 * while a thread reads.
 */
#ifndef FS_RECEIVE_H
#define FS_RECEIVE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/lock.h"
#include "engine/content/content.h"

struct receiver {
	int fd;		   /* const: the device, O_NONBLOCK */
	size_t write_max;  /* const */
	bool may_spin;	   /* const; false on a single CPU */
	atomic_int sleeps; /* so many waits sleep at once, since polling was in vain */
	struct lock lock;
	/* lock: the WRITE that is expected next */
	struct content *content; /* referenced; NULL: none */
	uint64_t nodeid, off;
	int luck; /* how well expectations were met lately; below 0 they are ignored */
};

/* @write_max: of data in one WRITE. */
void receiver_init(struct receiver *rc, size_t write_max);
void receiver_finish(struct receiver *rc);

/*
 * Waits for a request and reads it into @mem, which has room for the largest. The data of the
 * expected WRITE may be in @l; then @mem has only what precedes it. @look: polls for a while before
 * it sleeps. The length, or -errno: the end of the filesystem.
 */
ssize_t receive(struct receiver *rc, char *mem, size_t size, bool look, struct content_landing *l);

/* True if another request is there. */
bool receive_more(struct receiver *rc);

/* The next WRITE to @nodeid may be at @off, in its content @content. */
void receive_expect(struct receiver *rc, struct content *content, uint64_t nodeid, uint64_t off);

#endif
