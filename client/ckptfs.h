/* SPDX-License-Identifier: MIT */
/*
 * libckptfs: checkpoints of tensors that are captured while training goes on.
 *
 * A write of a tensor returns at once; its bytes are copied out of the tensor later, by threads of
 * this library, into memory that the daemon lends, and go on from there to the backing. Until a
 * capture has landed its source must not change: ckptfs_barrier, called before the update phase of
 * each step, waits for that (the lazy copies of DataStates-LLM, HPDC'24, section 4.2). Whether it
 * did change is checked.
 *
 * Functions return 0 (or what they say) or -errno; ckptfs_error then tells more. All may be called
 * from any thread. A session belongs to the process that opened it: in a child after fork every
 * call with it returns -ECHILD, and closing it there frees memory and nothing else.
 */
#ifndef CKPTFS_H
#define CKPTFS_H

#include <stddef.h>
#include <stdint.h>

#include "client/ckptfs_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CKPTFS_PUBLIC __attribute__((visibility("default")))

struct ckptfs_session;

struct ckptfs_options {
	int rank, world;	     /* -1, 0: as RANK and WORLD_SIZE, or Slurm's, say */
	int local_rank, local_world; /* -1, 0: the same */
	uint64_t arena_bytes;	     /* of memory lent, 0: what the daemon thinks fit */
	unsigned threads;	     /* that copy host memory at most, 0: 2 */
};

#define CKPTFS_OPTIONS_DEFAULT ((struct ckptfs_options){.rank = -1, .local_rank = -1})

/*
 * Opens a session with the mount that @path lies in. -ENOTTY: it lies in none of ckptfs. -EPROTO:
 * the daemon speaks another ABI. @o may be NULL. Starts threads.
 */
CKPTFS_PUBLIC int ckptfs_open(const char *path, const struct ckptfs_options *o,
			      struct ckptfs_session **s);

/*
 * Waits, like a barrier that waits for all, until what was written has landed, and fails what has
 * not then. (A barrier before it says whether.)
 */
CKPTFS_PUBLIC void ckptfs_close(struct ckptfs_session *s);

/* The version of this library, such as "0.1.0". */
CKPTFS_PUBLIC const char *ckptfs_version(void);

/*
 * Why the last call with @s on this thread failed; with NULL, why the last one without a session
 * did. Never NULL.
 */
CKPTFS_PUBLIC const char *ckptfs_error(const struct ckptfs_session *s);

struct ckptfs_tensor_info {
	uint64_t id; /* the caller's, not 0; unique in the session */
	const char *name;
	enum ckptfs_kind kind;
	enum ckptfs_memory memory;
	const char *dtype; /* as safetensors names it, "F32"; NULL: bytes, "U8" */
	unsigned ndim;	   /* of the next three, at most 8; 0: bytes alone are known */
	uint64_t global_shape[8], shard_offset[8], shard_shape[8]; /* in elements */
	uint64_t bytes;						   /* of it, here */
	int eager; /* a write of it returns once it is captured */
};

/* All or none. Registering one again, unchanged, is nothing. */
CKPTFS_PUBLIC int ckptfs_register(struct ckptfs_session *s, const struct ckptfs_tensor_info *t,
				  size_t n);

/*
 * Those of which captures are under way are captured all the same: their memory must stay till
 * then.
 */
CKPTFS_PUBLIC int ckptfs_unregister(struct ckptfs_session *s, const uint64_t *ids, size_t n);

/*
 * Bytes [src_off, src_off + len) of a tensor, which lies at @addr, are to be at @file_off of a
 * file. The memory must stay what and where it is until the capture has landed.
 */
struct ckptfs_write_op {
	uint64_t id;
	uint64_t file_off, src_off, len;
	const void *addr; /* of its byte 0 */
	/*
	 * Of a tensor on a GPU the CUstream that produces it; 0: the legacy one, ~0: it is
	 * complete.
	 */
	uint64_t stream;
	uint64_t rows, row_bytes,
		pitch; /* strided: rows of row_bytes, pitch apart; rows 0: contiguous */
};

/*
 * On @fd, open for writing. Returns at once, but for eager ones, and where the file is none that
 * ckptfs stages: then the bytes are written here and now. All or none is taken. Reads of the file
 * by whomever wait for the bytes that they ask for.
 */
CKPTFS_PUBLIC int ckptfs_write(struct ckptfs_session *s, int fd, const struct ckptfs_write_op *ops,
			       size_t n);

/*
 * 1: @fd, open for writing, is a file of a checkpoint: it is captured lazily, published whole, and
 * gets a digest. 0: it is an ordinary file, since no rule claims its name or it lies in no mount of
 * ckptfs. -EBADF: it is not open for writing.
 */
CKPTFS_PUBLIC int ckptfs_is_staged(int fd);

#define CKPTFS_BARRIER_LANDED	  1u /* waits for captures of devices, too */
#define CKPTFS_BARRIER_DEFAULT_NS (120ull * 1000000000ull)

/*
 * Before tensors change: returns when all captures of the session are submitted, and those of host
 * memory have landed; device work enqueued on @streams from then on runs behind the copies (without
 * a stream, and ~0 is none, it waits for these, too). -EBUSY: a stream is being captured into a
 * graph; it has waited, then. @timeout_ns 0: the default. -ETIMEDOUT: what was not submitted is
 * cancelled, its checkpoint has failed. Another error is that of the first capture that failed
 * since the last barrier: -ESTALE, its tensor changed too early; -ENOTCONN and the like, the daemon
 * is gone. Whatever it returns, the tensors may change then.
 */
CKPTFS_PUBLIC int ckptfs_barrier(struct ckptfs_session *s, const uint64_t *streams, size_t n,
				 unsigned flags, uint64_t timeout_ns);

struct ckptfs_session_stats {
	uint64_t captures, captured_bytes, failed; /* since it was opened */
	uint64_t pending, pending_bytes;	   /* written, and not landed yet */
	uint64_t barriers, barrier_ns;		   /* and how long they have blocked */
	uint64_t arena_bytes;
	uint64_t pinned_bytes; /* of the arena, for GPUs; what is not pinned is copied slowly */
};

CKPTFS_PUBLIC int ckptfs_session_stats(struct ckptfs_session *s,
				       struct ckptfs_session_stats *stats);

/* --- without a session, from any process; ckptfs_error(NULL) then tells more --- */

/*
 * Waits until the file or checkpoint @path has come as far as @state: CKPTFS_CAPTURED,
 * CKPTFS_DURABLE or CKPTFS_COMMITTED; that generation of it which is the newest at the call, or, of
 * a path that does not exist, the first that comes. -ETIMEDOUT after @timeout_ns (0: it looks once;
 * ~0: without end), and the error says what is missing; -EINTR after a signal; else the error by
 * which it failed. -ENOTTY: it lies in no mount of ckptfs.
 */
CKPTFS_PUBLIC int ckptfs_wait(const char *path, enum ckptfs_state state, uint64_t timeout_ns);

/*
 * The checkpoint @path is whole, whatever its rule still waits for: it is committed as soon as all
 * of it is closed and on the backing. -ENOENT: nothing is being saved there. -ENODATA: no file of
 * it was written. -EPERM.
 */
CKPTFS_PUBLIC int ckptfs_commit(const char *path);

/* It never will be: it fails, and its name shows what it was before. */
CKPTFS_PUBLIC int ckptfs_abandon(const char *path);

/*
 * How much ckptfs_latest checks; a checkpoint that does not pass is skipped. Without a flag nothing
 * is checked. STRUCTURE costs one stat for each file: the commit file is whole, and each file that
 * it lists is there with its size; a single file has the size and time of its record. VERIFY reads
 * all bytes of the checkpoint and compares the digests.
 */
#define CKPTFS_LATEST_VERIFY	1u
#define CKPTFS_LATEST_STRUCTURE 2u

/*
 * Puts the path of the newest committed checkpoint below the directory @dir into @buf. @dir lies in
 * a mount, or is a bare backing. Runs `ckptfs latest`: the one that CKPTFS_COMMAND names, else the
 * one beside this library (bin/ckptfs or ../bin/ckptfs), else the one in PATH. After 0,
 * ckptfs_error(NULL) says which checkpoints were skipped, or that the one found was not written by
 * ckptfs; "" where there is nothing to say. -ENOENT: there is none. -ENOPKG: there is no such
 * command. -ERANGE: @buf of @size bytes is too small.
 */
CKPTFS_PUBLIC int ckptfs_latest(const char *dir, unsigned flags, char *buf, size_t size);

/*
 * Files of many tensors and objects, in the safetensors format (huggingface.co/docs/safetensors).
 * Where each tensor lies is known when the file is created, so that tensors are written in any
 * order, at any time, by any thread; objects, whose sizes are known only once they are serialised,
 * follow behind them, as tensors of bytes ("U8"). The header is written last, into room that was
 * left for it in front: until then the file begins with a mark, which no reader of safetensors
 * takes for a header (DataStates-LLM, arXiv 2406.10707, 5: its file layout).
 *
 * The format allows no holes. Tensors whose sizes are multiples of 4096 come first, and so begin at
 * such; each of the others begins at a multiple of the largest power of two that divides its size,
 * hence of its elements'. If one of the tensors is a part of a larger one, the header says of which
 * part of what, as the Hugging Face storage of PyTorch's distributed checkpoints does
 * (DCP_SHARDING_INFO, with global_shape).
 */
struct ckptfs_file;

/*
 * Room in the header for objects and metadata, if none is asked for: some 400 objects with short
 * names.
 */
#define CKPTFS_FILE_SPARE 65536u

/*
 * Creates, or overwrites, the file @path for the tensors @t (copied; with @s they are registered if
 * they are not yet). Their names are those in the file; ids are unique in it. Without a dimension a
 * tensor is a scalar if it has the bytes of one element, else a row. @s may be NULL: then all is
 * written at once, and tensors lie in memory of the host.
 * @spare: bytes of the header for what is said of objects and metadata later: their names, and some
 * 100 for each object (200 in a file of parts); 0: CKPTFS_FILE_SPARE. -EINVAL, -EFBIG: the format
 * has no place for it.
 */
CKPTFS_PUBLIC int ckptfs_file_create(struct ckptfs_session *s, const char *path,
				     const struct ckptfs_tensor_info *t, size_t n, uint64_t spare,
				     struct ckptfs_file **f);

/*
 * As ckptfs_write; file_off is not looked at, since the tensor has its place. Each byte of a tensor
 * is written once (-EEXIST), in one call or several.
 */
CKPTFS_PUBLIC int ckptfs_file_write(struct ckptfs_file *f, const struct ckptfs_write_op *ops,
				    size_t n);

/*
 * Appends an object: @len bytes, which the file has when this returns. -EEXIST: the file has that
 * name. -ENOSPC: the header has no room for it (see spare), or the filesystem none.
 */
CKPTFS_PUBLIC int ckptfs_file_object(struct ckptfs_file *f, const char *name, const void *bytes,
				     uint64_t len);

/*
 * A pair of the header's __metadata__, which has "format": "pt" if nobody says otherwise. -EEXIST,
 * -ENOSPC: as above.
 */
CKPTFS_PUBLIC int ckptfs_file_metadata(struct ckptfs_file *f, const char *key, const char *value);

/*
 * Writes the header; then the file is whole, if 0 is returned. Captures may go on. -ENODATA: a
 * tensor was not written in full. An error of an object that could not be written comes again. @f
 * is gone in any case.
 */
CKPTFS_PUBLIC int ckptfs_file_close(struct ckptfs_file *f);

/*
 * The same without the header. The file stays as it is, and no reader takes it; on a mount of
 * ckptfs its checkpoint does not commit, unless the file is removed or overwritten.
 */
CKPTFS_PUBLIC void ckptfs_file_abandon(struct ckptfs_file *f);

/*
 * The other way: what is in a safetensors file, whoever wrote it. ckptfs_error(NULL) says why one
 * is refused.
 */
struct ckptfs_index;

struct ckptfs_entry {
	const char *name, *dtype;
	const uint64_t *shape; /* ndim numbers, as are the next two */
	/* Where it lies in a whole, and the whole's shape; NULL: the file does not say. */
	const uint64_t *shard_offset, *global_shape;
	uint64_t file_off, bytes;
	uint32_t ndim, reserved;
};

/* -EILSEQ: it is none that safetensors would take. */
CKPTFS_PUBLIC int ckptfs_index_open(const char *path, struct ckptfs_index **ix);
CKPTFS_PUBLIC void ckptfs_index_close(struct ckptfs_index *ix);

/* To read from; the index closes it. */
CKPTFS_PUBLIC int ckptfs_index_fd(const struct ckptfs_index *ix);

/*
 * Sets *entries to all, in the order in which they lie in the file; returns how many. They live as
 * long as the index.
 */
CKPTFS_PUBLIC size_t ckptfs_index_entries(const struct ckptfs_index *ix,
					  const struct ckptfs_entry **entries);

/* NULL: there is none. */
CKPTFS_PUBLIC const struct ckptfs_entry *ckptfs_index_find(const struct ckptfs_index *ix,
							   const char *name);
CKPTFS_PUBLIC const char *ckptfs_index_metadata(const struct ckptfs_index *ix, const char *key);

/*
 * Bytes [file_off, file_off + len) of a file are to be bytes [dst_off, dst_off + len) of a tensor,
 * which lies at @addr.
 */
struct ckptfs_read_op {
	uint64_t file_off, dst_off, len;
	void *addr;			 /* of its byte 0 */
	uint64_t stream;		 /* of devices: that uses it */
	uint64_t rows, row_bytes, pitch; /* as ckptfs_write_op has them */
	uint32_t memory;		 /* enum ckptfs_memory */
	uint32_t reserved;		 /* 0 */
};

/*
 * Reads them all, by several threads (at most @threads, this one included; 0: what is good here),
 * straight into their places. @fd is any file, of which each op reads what the file has: -ENODATA
 * if it ends before. What must not overlap is where ops read to. @s may be NULL, and its daemon
 * gone, for memory of the host. After an error, which is the first that a thread met, the
 * destinations hold anything.
 */
CKPTFS_PUBLIC int ckptfs_read(struct ckptfs_session *s, int fd, const struct ckptfs_read_op *ops,
			      size_t n, unsigned threads);

#ifdef __cplusplus
}
#endif

#endif
