/* SPDX-License-Identifier: MIT */
/*
 * Clients of a network filesystem at its worst, over one real directory: a backing for each.
 *
 * A client believes what it knows for up to `stale_ns`: which names there are not and which inodes
 * they are of, what is in a directory, attributes. What it writes others see when it was synced,
 * the first half before the second. Opening a file asks for what is in it; opening a directory asks
 * which names are there only with `asks`, as NFS does, and never what a listing says. Hard links
 * may be missing, renames with flags are. Answers get lost: the call was made, or was not, and the
 * error is one that its repetition by the network would get.
 *
 * Time is virtual, and passes with each call. A client is used by one thread at a time.
 */
#ifndef TESTS_BACKING_DISTANT_H
#define TESTS_BACKING_DISTANT_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/backing/backing.h"

struct distant_server {
	const char *path;
	uint64_t stale_ns;
	bool links, asks;
	bool fuse;     /* as backing.h has it */
	unsigned lost; /* of a thousand calls */
	unsigned seed; /* of the clients to come */
	_Atomic uint64_t now_ns;
	pthread_mutex_t lock; /* while what is in a file is read or changed */
};

struct distant; /* begins with its struct backing */

void distant_server_init(struct distant_server *s, const char *path, unsigned seed);

struct backing *distant_open(struct distant_server *s);
void distant_close(struct backing *b);

/*
 * From here on its calls fail with this, and are not made (only those that @writes); 0: they do
 * again. Caches stay.
 */
void distant_cut(struct backing *b, int err, bool writes);

/* How often this client's caches said something that was not so any more. */
unsigned long distant_lies(const struct backing *b);

#endif
