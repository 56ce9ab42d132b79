/* SPDX-License-Identifier: MIT */
/*
 * Reads the bytes of a tensor from its pieces. A piece is a box, whose bytes are in row-major
 * order. So it gives *runs*: stretches that are contiguous in the tensor, too. All runs of a piece
 * have one length, and lie in the tensor in the order in which they lie in the file.
 */
#ifndef ENGINE_VIEWS_GATHER_H
#define ENGINE_VIEWS_GATHER_H

#include "engine/tensors/index.h"
#include "engine/views/source.h"

struct gather;

/*
 * Plans the reading of @t, which is complete. *@out: for free(). @path_nr gives the number of a
 * path. 0 or -ENOMEM.
 */
int gather_create(struct gather **out, const struct index_tensor *t,
		  size_t (*path_nr)(const void *arg, const char *path), const void *arg);

/* As view_each_path; a path may come more than once. */
int gather_each_path(const struct gather *g, int (*one)(void *arg, size_t path), void *arg);

/* Reads the bytes [off, off + len) of the tensor. 0 or -errno. */
int gather_read(const struct gather *g, void *buf, size_t len, uint64_t off,
		const struct view_source *src);

#endif
