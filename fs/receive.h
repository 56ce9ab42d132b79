/* SPDX-License-Identifier: MIT */
/*
 * Receives requests from the device. The data of a WRITE that was expected (the next one of a
 * program that saves a file from front to back) is received where it will stay, in the cache, which
 * spares a copy of it; everything else, into the request's buffer.
 */
#ifndef FS_RECEIVE_H
#define FS_RECEIVE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/lock.h"
#include "engine/content/content.h"

struct receiver {
	int fd;	       /* const: the device, O_NONBLOCK */
	bool may_spin; /* const; not on a single CPU */
	struct lock lock;
	/* lock: the WRITE that is expected next */
	struct content *content; /* referenced; NULL: none */
	uint64_t nodeid, off;
	int luck; /* how well expectations were met lately; below 0 nothing is made of them */
};

void receiver_init(struct receiver *rc);
void receiver_finish(struct receiver *rc);

/*
 * Waits for a request and reads it into @mem, which has room for the largest. If it is the WRITE
 * that was expected, @l may have its data, and @mem only what is before that. @look: first look for
 * one for a while without sleeping. Returns its length, or -errno: the end of the filesystem.
 */
ssize_t receive(struct receiver *rc, char *mem, size_t size, bool look, struct content_landing *l);

/* Is there another one? */
bool receive_more(struct receiver *rc);

/* The next WRITE may be one of @off in @content, the content of @nodeid. */
void receive_expect(struct receiver *rc, struct content *content, uint64_t nodeid, uint64_t off);

#endif
