/* SPDX-License-Identifier: MIT */
/*
 * The tensors of a checkpoint, for its commit file: those captured into its files, and those that
 * unchanged files had. No lock: the committer that makes the commit file owns a struct shards. This
 * module reads no tensors from files.
 */
#ifndef ENGINE_RECORD_SHARDS_H
#define ENGINE_RECORD_SHARDS_H

#include "engine/backing/backing.h"
#include "engine/content/tensors.h"
#include "engine/format/commit.h"

struct shard {
	struct tensor_place place; /* its tensor is referenced */
	const char *path;	   /* the caller's */
};

/* All zeros: no tensors. */
struct shards {
	struct shard *list;
	size_t nr, room;
};

/* @path, of the file, outlives the shards. 0 or -ENOMEM. */
int shards_add(struct shards *s, const struct tensor_map *m, const char *path);

/*
 * Adds tensors that the commit file in the directory @unit has: of files which are among the @nr
 * @entries, sorted by path, with the same digest, and of which @s has nothing. What cannot be read
 * is left out. 0 or -ENOMEM.
 */
int shards_inherit(struct shards *s, struct backing *b, int unit,
		   const struct commit_entry *entries, size_t nr);

/* The place of a line, without its tensor. */
struct tensor_place shard_place(const struct commit_tensor *t);

/* Writes all in the order of commit files. 0, or the error of writing. */
int shards_write(struct shards *s, struct commit_writer *w);

/*
 * A shard as a line of the commit file, which points to the shard's numbers and names; and the
 * tensor of a line, NULL without memory.
 */
struct commit_tensor shard_line(const struct shard *s);
struct tensor *shard_tensor(const struct commit_tensor *t);

void shards_free(struct shards *s);

#endif
