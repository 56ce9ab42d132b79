/* SPDX-License-Identifier: MIT */
/*
 * What the files of the commit of a checkpoint share:
 *
 * - commit.c: the steps in their order, and the threads that take them
 * - commit_list.c: what is in the checkpoint
 * - commit_file.c: its commit file
 *
 * All of it is for the thread that has the checkpoint in COMMITTING, without the units' lock.
 */
#ifndef ENGINE_COMMIT_COMMIT_IMPL_H
#define ENGINE_COMMIT_COMMIT_IMPL_H

#include "engine/format/commit.h"
#include "engine/record/shards.h"
#include "engine/save/units.h"

/* Everything that the commit file will list. Owns the strings of its entries. */
struct listing {
	struct checkpoint *cp;
	struct filed *filed; /* what publish.c found out about its files, by inode */
	size_t nr_filed;
	struct commit_entry *entries;
	size_t nr, room;
	struct overwrites overwrites;
	struct shards shards;
	uint64_t bytes, files;
	const char *path; /* of the checkpoint, for messages */
	struct error *e;  /* filled where there is more to say than the failed step */
};

struct opened {
	struct backing *b;
	int fd;
};

/* Of a struct opened, for a struct source. */
ssize_t commit_read_opened(void *opened, void *buf, size_t len, uint64_t off);

/* Lists the checkpoint, sorted by path. The caller has set cp, path and e of @l. 0 or -errno. */
int commit_listing_fill(struct listing *l);

void commit_listing_finish(struct listing *l);

/* Fills in the whole header. @path: of @cp, for messages. 0 or -errno. */
int commit_fill_header(struct checkpoint *cp, const char *path, struct commit_header *h);

/* Writes the commit file, and restores the mtime of the directory: no program changed it. */
int commit_put_into_staging(struct listing *l, const struct commit_header *header);

void *committer_main(void *units);

#endif
