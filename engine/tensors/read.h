/* SPDX-License-Identifier: MIT */
/*
 * Fills an index from the files of a checkpoint, whoever wrote them. Each reader knows one form:
 * it describes the files of that form, and takes them, so that no other reader looks at them. A
 * file that has no known form becomes opaque, with the reason.
 */
#ifndef ENGINE_TENSORS_READ_H
#define ENGINE_TENSORS_READ_H

#include <jansson.h>

#include "engine/tensors/index.h"
#include "engine/tensors/tree.h"

/*
 * Reads all of @t into @ix, which is empty, and finishes it. 0; -ENOMEM, or the errno of a read
 * that failed. What is wrong with a file is no error: it stands in the index.
 */
int index_read(struct index *ix, struct tree *t);

/*
 * Makes the index of @t: takes what is kept beside its commit file (stored.h), unless @anew, or
 * there is nothing that can be used; else as index_read. *@out is NULL after an error.
 */
int index_of(struct index **out, struct tree *t, bool anew);

/* The readers, in this order: a reader before another may take what that would describe worse. */
int read_dcp(struct index *ix, struct tree *t);
int read_zero(struct index *ix, struct tree *t);
int read_safetensors(struct index *ix, struct tree *t);
int read_torch(struct index *ix, struct tree *t);
int read_checkpointing(struct index *ix, struct tree *t);
int read_commit(struct index *ix, struct tree *t);

/*
 * A shape that no file says is what the pieces span. That is sure if a commit file lists files of
 * all ranks of a job, and they are there: then no rank's part is missing.
 */
void read_commit_shapes(struct index *ix, struct tree *t);

/* True if torch.save may have written @path, by its ending. */
bool read_has_torch_name(const char *path);

/* True for an error that only concerns one file, which then becomes opaque. */
bool read_is_format(int err);

/* Counts the files that may hold tensors by their names; read_scope needs it. */
void read_count_named(struct tree *t);

/* The scope of names in @f: its path, or "" if it is the only file of its kind. */
const char *read_scope(const struct tree *t, const struct tree_file *f);

/* The header of safetensors at the start of @p, which is @at in @path. Names get @scope. */
struct tree_part;
int read_safetensors_header(const struct tree_part *p, json_t **header, uint64_t *data,
			    const char **why);

#endif
