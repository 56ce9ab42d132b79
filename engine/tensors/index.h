/* SPDX-License-Identifier: MIT */
/*
 * The index of a checkpoint: its tensors, and which bytes of which file hold which part of each.
 * One form for all who write checkpoints (ByteCheckpoint, 3.2: a global index that does not depend
 * on how the tensors were cut). tensors/read.h fills an index from files.
 *
 * A *piece* is the bytes [from, from + bytes) of a box of the tensor. The box is given by offset
 * and length in each dimension, in elements; its bytes are in row-major order. So a flat range of
 * the tensor, as ZeRO has it, is a piece whose box is the whole tensor.
 *
 * A *scope* keeps tensors of one name apart: files that say nothing of one another may both have
 * a "weight". It is the path of the file, or "" where names are global.
 *
 * One thread builds an index. After index_finish it does not change.
 */
#ifndef ENGINE_TENSORS_INDEX_H
#define ENGINE_TENSORS_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/table.h"

enum index_part { PART_MODEL, PART_OPTIMIZER, PART_OTHER };

struct index_piece {
	struct index_piece *next;
	const char *path; /* of the file, relative to the checkpoint */
	uint64_t at;	  /* where in the file */
	uint64_t bytes;
	uint64_t from;		 /* where in the box */
	const uint64_t *box;	 /* the offsets in all dimensions, then the lengths */
	const char *unreachable; /* why the bytes cannot be there; NULL: they are */
};

struct index_tensor {
	struct table_node node;
	const char *scope, *name;
	const char *dtype; /* as safetensors has it */
	enum index_part part;
	unsigned ndim;
	bool inferred;	    /* no file says the shape: it is what the pieces span, if none lacks */
	bool dropped;	    /* a reader has put its pieces into another: index_finish removes it */
	bool requires_grad; /* its file says that training changes it; false also if no file says */
	bool opaque;	    /* some bytes are there, but in a form that no piece can describe */
	uint64_t *shape;
	struct index_piece *pieces, *last;
	size_t nr_pieces;
	const char *alias; /* the tensor of the same scope that has the same bytes; or NULL */
	/* of index_finish */
	const char *hole;   /* what is missing, in words; NULL: complete */
	const char *digest; /* of index_digest: 32 digits; NULL: not taken */
};

/* What is in a file, but cannot be described. */
struct index_opaque {
	struct index_opaque *next;
	const char *path, *name; /* name: of what is in the file; "": the whole */
	const char *reason;
	bool missing; /* a part of the checkpoint is not there; else only its form is unknown */
};

struct index {
	struct index_tensor **tensors; /* index_finish sorts them by scope and name */
	size_t nr, room;
	struct index_opaque *opaque, *last_opaque;
	uint64_t work; /* spent on looking at files beside each other */
	/* private */
	struct table table;
	struct index_block *blocks; /* memory of all texts and pieces */
};

int index_create(struct index **out); /* 0 or -ENOMEM */
void index_destroy(struct index *ix); /* accepts NULL */

/* Memory that lasts as long as @ix. NULL: none is left. */
void *index_alloc(struct index *ix, size_t size);
const char *index_text(struct index *ix, const char *text, size_t len);

/*
 * Finds or makes a tensor. @shape has @ndim numbers; NULL: the pieces tell (inferred). 0, -ENOMEM,
 * or -EEXIST: there is one with that name and another dtype or shape.
 */
int index_add(struct index *ix, const char *scope, const char *name, const char *dtype,
	      unsigned ndim, const uint64_t *shape, struct index_tensor **out);

struct index_tensor *index_find(const struct index *ix, const char *scope, const char *name);

/* Adds a piece. @box: 2 * t->ndim numbers, copied; NULL: the whole tensor. Texts are copied. */
int index_add_piece(struct index *ix, struct index_tensor *t, const struct index_piece *piece);

/*
 * Spends @work of what one index may take. False: it has taken too much. Then files are so many, or
 * so made, that looking on would take minutes; what is left becomes opaque.
 */
bool index_spend(struct index *ix, uint64_t work);

/* Notes what cannot be described. @name may be "". */
int index_add_opaque(struct index *ix, const char *path, const char *name, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* The same for what should be there, and is not. */
int index_add_missing(struct index *ix, const char *path, const char *name, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* How many parts are missing: tensors with a hole, and what index_add_missing has noted. */
size_t index_nr_missing(const struct index *ix);

/* The part that a tensor belongs to, by its name. */
enum index_part index_part_of(const char *name);

/* Sorts, and looks whether the pieces of each tensor are in bounds, disjoint and complete. */
int index_finish(struct index *ix);

/* "complete", "opaque", or what is missing. */
const char *index_state(const struct index_tensor *t);

/* The bytes of a whole tensor. */
uint64_t index_bytes(const struct index_tensor *t);

#endif
