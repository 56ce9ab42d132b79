/* SPDX-License-Identifier: MIT */
/*
 * The files of a checkpoint, to be read: those below a directory, or a single file. Symbolic links
 * are not followed, and names of ckptfs's own are left out. One thread uses a tree.
 */
#ifndef ENGINE_TENSORS_TREE_H
#define ENGINE_TENSORS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/source.h"

#define TREE_FILES_MAX 1000000
#define TREE_DEPTH_MAX 32

struct tree_file {
	char *path; /* relative to the checkpoint */
	uint64_t size;
	bool taken; /* a reader has described it */
};

struct tree {
	struct tree_file *list; /* in the order of the bytes of their paths */
	size_t nr, room;
	bool single;	 /* it is one file: what is beside that does not count */
	size_t nr_named; /* files with a name of torch.save or safetensors (read.h) */
	uint64_t loaded; /* bytes, by tree_load */
	/* private */
	int dir; /* of the checkpoint, or of the single file */
	int fd;	 /* the file that is open, with its number */
	size_t open;
};

/*
 * Lists what is at @path. 0; -ENOENT, -ENOTDIR and so on from the open; -E2BIG: more than
 * TREE_FILES_MAX. tree_close accepts a tree of zeros, with dir and fd -1.
 */
int tree_open(struct tree *t, const char *path);
int tree_open_dir(struct tree *t, int dir); /* the same for a directory that is open */
void tree_close(struct tree *t);

#define TREE_CLOSED \
	{ \
		.dir = -1, .fd = -1 \
	}

/* The file with that path, or NULL. */
struct tree_file *tree_find(const struct tree *t, const char *path);

/*
 * A part of a file, as a source of its own. It is open until the next file is read. Keep the
 * structs for as long as the source.
 */
struct tree_part {
	struct tree *tree;
	const struct tree_file *file;
	uint64_t at, size;
	struct source source;
};
void tree_part(struct tree_part *p, struct tree *t, const struct tree_file *f, uint64_t at,
	       uint64_t size);

/* Reads exactly @len bytes at @off of the part. 0; -EBADMSG: it is shorter; or -errno. */
int tree_read(const struct tree_part *p, void *buf, size_t len, uint64_t off);

/* The same into memory for free(), with a NUL behind. -EFBIG: more than @max. */
int tree_load(const struct tree_part *p, uint64_t off, uint64_t len, size_t max, char **out);

bool path_ends(const char *path, const char *suffix);

/* The name behind the last '/'. */
const char *path_name(const char *path);

#endif
