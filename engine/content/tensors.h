/* SPDX-License-Identifier: MIT */
/*
 * Tensors, and where in a file their captured bytes lie: what the commit file says of them. Bytes
 * that come another way take a tensor's place away.
 */
#ifndef ENGINE_CONTENT_TENSORS_H
#define ENGINE_CONTENT_TENSORS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/ckptfs_abi.h"
#include "engine/base/table.h"

struct tensor {
	struct table_node node; /* of who registered it */
	atomic_uint refs;
	struct ckptfs_tensor layout; /* const */
	char name[];		     /* const */
};

/* With one reference; NULL without memory. @name has layout->name_len bytes, without a NUL. */
struct tensor *tensor_make(const struct ckptfs_tensor *layout, const char *name);
void tensor_get(struct tensor *t);
void tensor_put(struct tensor *t); /* NULL is none */

/* Bytes [from, from + bytes) of a tensor lie at @at. */
struct tensor_place {
	uint64_t at, from, bytes;
	struct tensor *tensor; /* referenced */
};

#define PLACES_MAX 65536

/* Of one file, ascending; no two overlap. All zeros: none. */
struct tensor_places {
	struct tensor_place *list;
	size_t nr, room;
	/*
	 * there were too many, or no memory for them: nothing is told of the file till it is
	 * emptied
	 */
	bool unknown;
};

/* What else had a part of these bytes is there no more. */
void places_add(struct tensor_places *ps, const struct tensor_place *p);

/* Other bytes are there now: who had a part of them goes. */
void places_cut(struct tensor_places *ps, uint64_t off, uint64_t len);

void places_free(struct tensor_places *ps);

/* As they are now, for others: never changed again. */
struct tensor_map {
	atomic_uint refs;
	size_t nr;
	struct tensor_place list[];
};

/* Referenced; NULL: there are none, or no memory. */
struct tensor_map *places_map(const struct tensor_places *ps);
void places_set(struct tensor_places *ps, const struct tensor_map *m);
struct tensor_map *tensor_map_get(struct tensor_map *m); /* NULL is none; returns @m */
void tensor_map_put(struct tensor_map *m);

#endif
