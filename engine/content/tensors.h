/* SPDX-License-Identifier: MIT */
/*
 * Tensors, and the places of their captured bytes in a file, for the commit file. Bytes written in
 * another way remove the places that they overwrite. The owner of a list guards it.
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
	struct table_node node; /* for the session that registered it */
	atomic_uint refs;
	struct ckptfs_tensor layout; /* const */
	bool unlisted;		     /* const: no place of it is noted (CKPTFS_UNLISTED) */
	char name[];		     /* const */
};

/* One reference; NULL without memory. @name has layout->name_len bytes, without a NUL. */
struct tensor *tensor_make(const struct ckptfs_tensor *layout, const char *name);
void tensor_get(struct tensor *t);
void tensor_put(struct tensor *t); /* accepts NULL */

/* The bytes [from, from + bytes) of a tensor lie at @at. */
struct tensor_place {
	uint64_t at, from, bytes;
	struct tensor *tensor; /* referenced */
	char xxh3[33];	       /* their digest; "": unknown */
};

/*
 * So many places a file may have, and one more for each PLACE_BYTES of tensors in it: so they take
 * little of the memory that the bytes themselves take.
 */
#define PLACES_FREE 65536
#define PLACE_BYTES 1024

/* The places in one file, ascending, without overlap. All zeros: none. */
struct tensor_places {
	struct tensor_place *list;
	size_t nr, room;
	uint64_t bytes; /* of all */
	/* too many, or no memory: nothing is recorded until the file is emptied */
	bool unknown;
};

/* Removes every place that overlaps @p, then adds @p. */
void places_add(struct tensor_places *ps, const struct tensor_place *p);

/* Removes every place that overlaps these bytes, which now hold something else. */
void places_cut(struct tensor_places *ps, uint64_t off, uint64_t len);

void places_free(struct tensor_places *ps);

/* An immutable copy for others. */
struct tensor_map {
	atomic_uint refs;
	size_t nr;
	struct tensor_place list[];
};

/* Referenced; NULL: there are no places, or no memory. */
struct tensor_map *places_map(const struct tensor_places *ps);
void places_set(struct tensor_places *ps, const struct tensor_map *m);
struct tensor_map *tensor_map_get(struct tensor_map *m); /* accepts NULL; returns @m */
void tensor_map_put(struct tensor_map *m);

#endif
