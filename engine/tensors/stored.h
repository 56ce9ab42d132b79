/* SPDX-License-Identifier: MIT */
/*
 * An index as text (ckptfs-format(5)): for programs that ask, and kept in a committed checkpoint
 * beside its commit file, so that a later question need not open each of its files. It is one JSON
 * object, with a line for each tensor:
 *
 *	{
 *	"format": "ckptfs-index",
 *	"version": 1,
 *	"commit": "0123456789abcdef0123456789abcdef",
 *	"tensors": [
 *	{"name": "w", "dtype": "F32", "shape": [4, 2], "part": "model", "state": "complete",
 *	 "pieces": [{"path": "a.safetensors", "at": 72, "bytes": 32, "offset": [0, 0],
 *	 "length": [4, 2]}]}
 *	],
 *	"opaque": [
 *	{"path": "rng.pt", "reason": "..."}
 *	],
 *	"digest": "..."
 *	}
 *
 * What a program gets has "unit", the path that it has asked for, and neither "commit" nor
 * "digest". "commit" is the XXH3-128 of the commit file: an index of another commit, as of a
 * checkpoint that was changed later, is not used. "digest" is the XXH3-128 of all bytes before its
 * line. An index that is missing, damaged or not of this commit loses nothing: the files are read.
 */
#ifndef ENGINE_TENSORS_STORED_H
#define ENGINE_TENSORS_STORED_H

#include <stdio.h>

#include "engine/tensors/index.h"
#include "engine/tensors/tree.h"

#define INDEX_VERSION 1
#define INDEX_FORMAT  "ckptfs-index"

#define INDEX_LINE_MAX ((size_t)16 << 20) /* longer ones are not kept: 10^5 pieces fit into it */
#define INDEX_FILE_MAX ((off_t)1 << 30)

/* Writes it as JSON for a program. 0 or -EIO. */
int index_print(const struct index *ix, const char *unit, FILE *out);

/* Fills @ix, which is empty, from what index_print has written, and finishes it. As index_load. */
int index_parse(struct index *ix, FILE *in);

/*
 * Keeps @ix, which was read from the committed checkpoint @dir, in it. The time of @dir stays what
 * it was. 0; -ENODATA: no commit file is there; -EFBIG: beyond the limits above; or -errno.
 */
int index_keep(const struct index *ix, int dir);

/*
 * Fills @ix, which is empty, from what is kept in the checkpoint whose files @t lists, and finishes
 * it. A piece that is not in its file any more is noted as a hole. 0; -ENODATA: none is kept of
 * this commit; -EBADMSG: it is damaged; -ENOMEM or another errno. After an error @ix is of no use.
 */
int index_load(struct index *ix, const struct tree *t);

#endif
