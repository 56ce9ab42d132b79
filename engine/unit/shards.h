/* SPDX-License-Identifier: MIT */
/*
 * The tensors of a checkpoint, for its commit file: what was captured into its files, and what
 * unchanged files had.
 */
#ifndef ENGINE_UNIT_SHARDS_H
#define ENGINE_UNIT_SHARDS_H

#include "engine/backing/backing.h"
#include "engine/content/tensors.h"
#include "engine/format/commit.h"

struct shard {
	struct tensor_place place; /* its tensor is referenced */
	const char *path;	   /* the caller's */
};

#define SHARDS_MAX (1u << 20)

/* All zeros: none. */
struct shards {
	struct shard *list;
	size_t nr, room;
	bool unknown; /* there are more than SHARDS_MAX: the commit file tells of none */
};

/* @path, of the file, outlives the shards. 0 or -ENOMEM. */
int shards_add(struct shards *s, const struct tensor_map *m, const char *path);

/*
 * Those that the commit file in the directory @unit tells of files which are among the @nr
 * @entries, sorted by path, with the same digest, but of which nothing is in @s. What cannot be
 * read is not known. 0 or -ENOMEM.
 */
int shards_inherit(struct shards *s, struct backing *b, int unit,
		   const struct commit_entry *entries, size_t nr);

/* In the order of commit files. 0, or what writing failed with. */
int shards_write(struct shards *s, struct commit_writer *w);

/*
 * One as a line of the commit file, whose numbers and names are its own; and the tensor of a line,
 * NULL without memory.
 */
struct commit_tensor shard_line(const struct shard *s);
struct tensor *shard_tensor(const struct commit_tensor *t);

void shards_free(struct shards *s);

#endif
