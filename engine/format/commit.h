/* SPDX-License-Identifier: MIT */
/*
 * The commit file of a directory unit (ckptfs-format(5)): its job, every file in it with a digest,
 * and a digest of the commit file itself. It is one JSON object, written in lines, so that neither
 * side holds more than one line. Each member of the object is a line, or a section with a line for
 * each of its elements. The first line of a section ends in the opening bracket, its last begins
 * with the closing one.
 *
 *	{
 *	"ckptfs": 1,
 *	"unit": "run/step-100",
 *	"generation": "0123456789abcdef0123456789abcdef",
 *	"committed_ns": 1700000000000000000,
 *	"sequence": 7,
 *	"job": "slurm 1234.0",
 *	"world": {"ranks": 8, "nodes": 1},
 *	"done": "rename .metadata",
 *	"files": [
 *	{"path": "__0_0.distcp", "size": 4096, "xxh3": "...", "node": "gpu07", "rank": 0},
 *	{"path": "empty", "directory": true},
 *	{"path": "latest", "target": "__0_0.distcp"}
 *	],
 *	"tensors": [
 *	{"name": "layer.weight", "dtype": "BF16", "shape": [8, 4], "offset": [0, 0], "length": [4, 4],
 *	 "path": "__0_0.distcp", "at": 4096, "bytes": 32}
 *	],
 *	"stats": {
 *	"gpu07": {"bytes": 4096, "files": 1, "seconds": 0.25}
 *	},
 *	"digest": "..."
 *	}
 *
 * "ckptfs" comes first in every format. If a path or target is not UTF-8, "path_hex" (unit_hex,
 * target_hex) has its bytes instead. The entries are in ascending order of the bytes of their
 * paths, each path once. The rank is -1 if unknown. A reader skips members that it does not know.
 *
 * "tensors" is present if any were captured by handle. It has a line (shown as two above) for each
 * stretch of bytes of a file that are consecutive bytes of a shard. The stretch is the bytes [from,
 * from + bytes) of the shard ("from" 0 is left out), and lies at "at" in the file. "shape" is the
 * whole tensor's; "xxh3", if there, is the XXH3-128 of the stretch; "offset" and "length" are the shard's, in elements. All three are left out if
 * only the bytes are known. "kind" is "storage" or "object", left out for a tensor. The order is by
 * name, then by offset, path and place.
 *
 * "digest" is the XXH3-128 of all bytes of the file, with its own 32 digits taken as '0'.
 */
#ifndef ENGINE_FORMAT_COMMIT_H
#define ENGINE_FORMAT_COMMIT_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/message.h"
#include "engine/base/source.h"
#include "engine/format/names.h"

#define COMMIT_FILE    ".ckptfs-commit.json"
#define COMMIT_PENDING ".ckptfs-commit.next.json" /* of a change to a committed unit */

#define COMMIT_VERSION	1
#define COMMIT_PATH_MAX 32768 /* of a file relative to its unit, with the NUL */
#define COMMIT_TEXT_MAX 1024
#define COMMIT_NODE_MAX 256
/* Bounds a line: enough for the longest path and target, with every byte escaped. */
#define COMMIT_LINE_MAX (256 * 1024)

struct commit_header {
	char unit[PATH_MAX]; /* path relative to the backing */
	char generation[COMMIT_HEX];
	uint64_t committed_ns; /* wall clock */
	uint64_t sequence;     /* among the units in the same directory */
	char job[COMMIT_TEXT_MAX];
	unsigned ranks, nodes;
	char done[COMMIT_TEXT_MAX]; /* the evidence */
};

enum commit_kind { COMMIT_IS_FILE, COMMIT_IS_SYMLINK, COMMIT_IS_DIRECTORY /* an empty one */ };

struct commit_entry {
	enum commit_kind kind;
	const char *path;   /* relative to the unit */
	const char *target; /* symlink */
	/* file: */
	uint64_t size;
	char xxh3[COMMIT_HEX];
	const char *node;
	int rank; /* -1: unknown */
};

#define COMMIT_DIMS	 8
#define COMMIT_DTYPE_MAX 16 /* with the NUL */
enum commit_tensor_kind { COMMIT_STORAGE, COMMIT_TENSOR, COMMIT_OBJECT };

/* A part of a shard, and its place in a file. */
struct commit_tensor {
	const char *name, *path, *dtype;
	enum commit_tensor_kind kind;
	unsigned ndim; /* 0: the shape is unknown */
	const uint64_t *shape, *offset, *length;
	uint64_t from, bytes, at;
	const char *xxh3; /* of these bytes: 32 digits; NULL: unknown */
};

struct commit_stats {
	const char *node;
	uint64_t bytes, files;
	double seconds;
};

/* What is wrong with @path as a path relative to a unit, in words; NULL: nothing. */
const char *commit_path_problem(const char *path);

/*
 * Writes a commit file through @write, which gets all its bytes in order and returns 0 or -errno.
 * The order of calls: create; add the entries in ascending order of the bytes of their paths; add
 * the tensors; add the stats of each node; end. -EINVAL: the argument cannot stand in a commit
 * file, and nothing of it was written. The first error of @write sticks. Once end has returned 0,
 * the file is complete but not synced. One thread uses a writer. Destroy accepts NULL.
 */
struct commit_writer;
int commit_writer_create(struct commit_writer **out, const struct commit_header *header,
			 int (*write)(void *arg, const void *data, size_t len), void *arg);
int commit_writer_add(struct commit_writer *w, const struct commit_entry *entry);
int commit_writer_add_tensor(struct commit_writer *w, const struct commit_tensor *t);
int commit_writer_add_stats(struct commit_writer *w, const struct commit_stats *stats);
int commit_writer_end(struct commit_writer *w);
void commit_writer_destroy(struct commit_writer *w);

/*
 * Reads and validates a whole commit file; @path is for messages. @header and @entry may be NULL.
 * @entry gets each entry (valid during the call) and returns 0, or the value that commit_read then
 * returns. Entries come before the digest is checked: a caller that must not act on a damaged file
 * first calls this without @entry. Returns 0, or -errno with @e filled (except for errors of
 * @entry): -EPROTO: a newer format; -EBADMSG: damaged; -ENOMEM; or the error of the read.
 */
int commit_read(const struct source *src, const char *path, struct commit_header *header,
		int (*entry)(void *arg, const struct commit_entry *entry), void *arg,
		struct error *e);

/* The same for each of the tensors, which follow the entries. */
int commit_read_tensors(const struct source *src, const char *path,
			int (*tensor)(void *arg, const struct commit_tensor *t), void *arg,
			struct error *e);

/* Reads only the lines before the entries, without checking the digest. The same errors. */
int commit_read_header(const struct source *src, const char *path, struct commit_header *header,
		       struct error *e);

/*
 * What is wrong with an entry whose predecessor has the path @previous ("" for none), or with a
 * tensor or header, in words; NULL: nothing. Compare gives the order of two tensors.
 */
const char *commit_entry_problem(const struct commit_entry *entry, const char *previous);
const char *commit_tensor_problem(const struct commit_tensor *t);
int commit_tensor_compare(const struct commit_tensor *a, const struct commit_tensor *b);

/*
 * The line of a tensor as an object, without the path if @t->path is NULL. NULL: no memory. The
 * reverse sets @t except for the path, which the caller sets before. It returns NULL, or what is
 * wrong; @t then points into @o and @room.
 */
json_t *commit_tensor_to_json(const struct commit_tensor *t);

struct commit_tensor_room {
	char name[COMMIT_TEXT_MAX + 2];
	uint64_t shape[COMMIT_DIMS], offset[COMMIT_DIMS], length[COMMIT_DIMS];
};

const char *commit_tensor_from_json(const json_t *o, struct commit_tensor *t,
				    struct commit_tensor_room *room);

const char *commit_header_problem(const struct commit_header *header);

#endif
