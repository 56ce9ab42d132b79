/* SPDX-License-Identifier: MIT */
/*
 * A filesystem in memory behind struct backing_ops: for tests that build and drop thousands of
 * them.
 *
 * 	struct memory *m = memory_create();
 *
 * 	memory_track(m);			what power cuts take away is known from here on
 * 	memory_open(m, &backing);		as backing_open; more may be open at once, each a "node"
 * 	... an engine, or backing_* calls ...
 * 	backing_close(&backing);
 * 	memory_power_loss(m, seed);
 * 	memory_destroy(m);
 *
 * - It does what tmpfs does with the calls of the table, without permissions: every caller may do
 *   everything. The caller owns what it makes. ACLs and other xattrs than user.* and trusted.* are
 *   not supported.
 * - A descriptor is a real one, of an empty memfd which stands for the inode: close, dup, flock,
 *   fcntl and the position in a directory are the kernel's. Bytes are in the memory of this
 *   process: read, mmap and fstat on a descriptor do not find them. A name may be a path of several
 *   components, which follows no symlink.
 * - Inode numbers count from 1. Times are clock_wall_ns(). Names are listed in the order in which
 *   they were made. So two runs that make the same calls at the same times see the same.
 * - A removed inode that was ever opened stays until the next reset: the kernel does not tell when
 *   its last descriptor is closed.
 * - One lock; calls may come from any thread. Create, reset, load, power loss and destroy: while no
 *   call runs.
 */
#ifndef TESTS_BACKING_MEMORY_H
#define TESTS_BACKING_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/backing/backing.h"

struct image;
struct record;
struct memory;

/* With an empty top directory, which belongs to the caller. */
struct memory *memory_create(void);
void memory_destroy(struct memory *m);

/* As just created, room and tracking included. Every descriptor must be closed. */
void memory_reset(struct memory *m);

/* Opens the top directory, as backing_open does; backing_close ends it. */
void memory_open(struct memory *m, struct backing *b);

/*
 * Room for so many bytes in all, then writes find the disk full. 0: no limit. What is there counts,
 * in whole pages.
 */
void memory_set_room(struct memory *m, uint64_t bytes);

/* Counts the calls that have changed names, or tried to. Takes no lock. */
uint64_t memory_changes(struct memory *m);

/* How many descriptors of its inodes this process has open, those of open backings included. */
size_t memory_descriptors(struct memory *m);

/* --- what is durable: the model is that of crash.h --- */

/*
 * From here on what calls change is not durable until it is synced. For backings that are opened
 * after this.
 */
void memory_track(struct memory *m);

/*
 * Of what is not durable a part remains, which @seed chooses; it counts as durable then.
 * Descriptors of what remains go on to work, as those of an NFS client do; others fail with ESTALE.
 */
void memory_power_loss(struct memory *m, uint64_t seed);

/*
 * True if @path is there with all that it is now after every power loss. Of a directory: its names
 * count, not what they lead to.
 */
bool memory_is_durable(struct memory *m, const char *path);

/* What was done since memory_track, or the last power loss. */
struct record *memory_log(struct memory *m);

/* The empty filesystem becomes what is in @im, whose log must outlive it. */
void memory_load(struct memory *m, const struct image *im);

#endif
