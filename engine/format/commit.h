/* SPDX-License-Identifier: MIT */
/*
 * The commit file of a directory unit (DESIGN 4): who saved it, every file in it with its digest,
 * and a digest of the commit file itself. One JSON object, but written in lines, so that neither
 * side holds more of it than one: each member of the object is a line, or, if it has a line for
 * each of its elements, the lines between one that ends in an opening bracket and one that begins
 * with the closing one.
 *
 * 	{
 * 	"ckptfs": 1,
 * 	"unit": "run/step-100",
 * 	"generation": "0123456789abcdef0123456789abcdef",
 * 	"committed_ns": 1700000000000000000,
 * 	"sequence": 7,
 * 	"job": "slurm 1234.0",
 * 	"world": {"ranks": 8, "nodes": 1},
 * 	"done": "rename .metadata",
 * 	"files": [
 * 	{"path": "__0_0.distcp", "size": 4096, "xxh3": "...", "node": "gpu07", "rank": 0},
 * 	{"path": "empty", "directory": true},
 * 	{"path": "latest", "target": "__0_0.distcp"}
 * 	],
 * 	"tensors": [
 * 	{"name": "layer.weight", "dtype": "BF16", "shape": [8, 4], "offset": [0, 0], "length": [4, 4],
 * 	 "path": "__0_0.distcp", "at": 4096, "bytes": 32}
 * 	],
 * 	"stats": {
 * 	"gpu07": {"bytes": 4096, "files": 1, "seconds": 0.25}
 * 	},
 * 	"digest": "..."
 * 	}
 *
 * "ckptfs" comes first in every format. Where a path or target is not UTF-8, "path_hex" (unit_hex,
 * target_hex) has its bytes. The entries are in ascending order of the bytes of their paths, each
 * once. The rank is -1 where it is unknown. Members that are not known here are passed over.
 *
 * "tensors" is there if any are known: what was captured by handle. A line (shown as two above) for
 * each stretch of bytes of a file that are consecutive bytes of a shard: which are [from, from +
 * bytes) of it ("from" 0 is left out), and lie at "at" in the file. Of the tensor there are the
 * whole shape, and offset and length, in elements, of the shard; they are left out of what is only
 * known as bytes. "kind" is "storage" or "object", left out for a tensor. The order is by name,
 * then by offset, path and place.
 *
 * "digest" is the XXH3-128 of all bytes of the file, with the 32 digits of itself as '0'.
 */
#ifndef ENGINE_FORMAT_COMMIT_H
#define ENGINE_FORMAT_COMMIT_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/message.h"
#include "engine/base/source.h"

#define COMMIT_FILE    ".ckptfs-commit.json"
#define COMMIT_PENDING ".ckptfs-commit.next.json" /* of a change to a committed unit */

#define COMMIT_VERSION	1
#define COMMIT_HEX	33    /* 32 digits, 0-9a-f, and the NUL */
#define COMMIT_PATH_MAX 32768 /* of a file below its unit, with the NUL */
#define COMMIT_TEXT_MAX 1024
#define COMMIT_NODE_MAX 256
/* Longer lines are refused: enough for the longest path and target, with every byte escaped. */
#define COMMIT_LINE_MAX (256 * 1024)

struct commit_header {
	char unit[PATH_MAX]; /* below the backing */
	char generation[COMMIT_HEX];
	uint64_t committed_ns; /* wall clock */
	uint64_t sequence;     /* among the units beside it */
	char job[COMMIT_TEXT_MAX];
	unsigned ranks, nodes;
	char done[COMMIT_TEXT_MAX]; /* the evidence */
};

enum commit_kind { COMMIT_IS_FILE, COMMIT_IS_SYMLINK, COMMIT_IS_DIRECTORY /* an empty one */ };

struct commit_entry {
	enum commit_kind kind;
	const char *path;   /* below the unit */
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

/* A part of a shard, and where it lies. */
struct commit_tensor {
	const char *name, *path, *dtype;
	enum commit_tensor_kind kind;
	unsigned ndim; /* 0: only its bytes are known */
	const uint64_t *shape, *offset, *length;
	uint64_t from, bytes, at;
};

struct commit_stats {
	const char *node;
	uint64_t bytes, files;
	double seconds;
};

/* What is wrong with @path as one below a unit, in words; NULL: nothing. */
const char *commit_path_problem(const char *path);

/*
 * Writes a commit file through @write, which gets all its bytes in order and returns 0 or -errno:
 * create, add the entries in ascending order of the bytes of their paths, then the tensors, then
 * stats of each node, end. -EINVAL: what was given does not belong into a commit file, and none of
 * it was written. The first error of @write sticks. The file is complete, but not synced, when end
 * has returned 0. For one thread. Destroy takes NULL.
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
 * Reads and validates a whole commit file; @path is for messages. @header may be NULL; so may
 * @entry, which gets each entry (valid during the call) and returns 0, or what commit_read then
 * returns. They come before the digest is known to be right: who acts on them before the end calls
 * this once without @entry first. 0 or -errno with @e filled (but for what @entry returned):
 * -EPROTO: of a newer format; -EBADMSG: damaged; -ENOMEM; else what reading failed with.
 */
int commit_read(const struct source *src, const char *path, struct commit_header *header,
		int (*entry)(void *arg, const struct commit_entry *entry), void *arg,
		struct error *e);

/* The same, for each of the tensors, which come behind the entries. */
int commit_read_tensors(const struct source *src, const char *path,
			int (*tensor)(void *arg, const struct commit_tensor *t), void *arg,
			struct error *e);

/* Only what stands before the entries, which the digest may yet contradict. The same errors. */
int commit_read_header(const struct source *src, const char *path, struct commit_header *header,
		       struct error *e);

/* Is the whole entry such that it may stand behind one of the path @previous ("" for none)? */
const char *commit_entry_problem(const struct commit_entry *entry, const char *previous);
const char *commit_tensor_problem(const struct commit_tensor *t);
int commit_tensor_compare(const struct commit_tensor *a, const struct commit_tensor *b);

/*
 * The line of a tensor as an object; NULL: no memory. @t->path NULL: it lacks that. And back, but
 * for the path, which the caller sets before: NULL, or what is wrong. What @t says then points into
 * @o and @room.
 */
json_t *commit_tensor_to_json(const struct commit_tensor *t);

struct commit_tensor_room {
	char name[COMMIT_TEXT_MAX + 2];
	uint64_t shape[COMMIT_DIMS], offset[COMMIT_DIMS], length[COMMIT_DIMS];
};

const char *commit_tensor_from_json(const json_t *o, struct commit_tensor *t,
				    struct commit_tensor_room *room);

const char *commit_header_problem(const struct commit_header *header);
bool commit_is_hex(const char *text); /* 32 digits, 0-9a-f */

#endif
