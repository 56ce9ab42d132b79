/* SPDX-License-Identifier: MIT */
/*
 * What the files of the commit of a checkpoint have between them:
 *
 * - commit.c: the steps in their order, and the threads that take them
 * - commit_list.c: what is in the checkpoint
 * - commit_file.c: its commit file
 *
 * All of it is for the thread that has the checkpoint in COMMITTING, and is called without the
 * units' lock.
 */
#ifndef ENGINE_UNIT_COMMIT_IMPL_H
#define ENGINE_UNIT_COMMIT_IMPL_H

#include "engine/format/commit.h"
#include "engine/unit/internal.h"
#include "engine/unit/shards.h"

/* Everything that the commit file will list; what one entry needs, allocated. */
struct listing {
	struct checkpoint *cp;
	struct filed *filed; /* what is known of its files, by inode */
	size_t nr_filed;
	struct commit_entry *entries;
	size_t nr, room;
	struct rival *rivals;
	size_t nr_rivals;
	struct shards shards;
	uint64_t bytes, files;
	const char *path; /* of the checkpoint, for messages */
	struct error *e;  /* filled where there is more to say than what failed */
};

struct opened {
	struct backing *b;
	int fd;
};

/* Of a struct opened, for a struct source. */
ssize_t commit_read_opened(void *opened, void *buf, size_t len, uint64_t off);

/* All that is in the checkpoint, sorted by path. @l has it, its path and its error. 0 or -errno. */
int commit_listing_fill(struct listing *l);

void commit_listing_finish(struct listing *l);

/*
 * What its header says that only who has seen its end can know: all but its place among others, and
 * of how many nodes it is.
 */
void commit_describe(struct checkpoint *cp, const char *path, struct commit_header *h);

/* @path: its own, for messages. 0 or -errno. */
int commit_fill_header(struct checkpoint *cp, const char *path, struct commit_header *h);

/* The commit file is no change that a program made. */
int commit_put_into_staging(struct listing *l, const struct commit_header *header);

#endif
