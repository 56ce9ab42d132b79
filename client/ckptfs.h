/* SPDX-License-Identifier: MIT */
/*
 * libckptfs: checkpoints of tensors that are captured while training goes on.
 *
 * A write of a tensor returns at once. Threads of this library copy its bytes out of the tensor
 * later, into memory that the daemon lends; from there they go on to the backing. Until a capture
 * has landed its source must not change: ckptfs_barrier, called before the update phase of each
 * step, waits for that (the lazy copies of DataStates-LLM, HPDC'24, section 4.2). The library
 * checks whether the source did change.
 *
 * Functions return 0 (or what they say) or -errno; ckptfs_error then tells more. All may be called
 * from any thread. A session belongs to the process that opened it: in a child after fork every
 * call with it returns -ECHILD, and closing it there only frees memory.
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
	int rank, world;	     /* -1, 0: as RANK and WORLD_SIZE, or Slurm's variables, say */
	int local_rank, local_world; /* -1, 0: likewise */
	uint64_t arena_bytes;	     /* of memory to lend; 0: the daemon decides */
	unsigned threads;	     /* that copy host memory, at most; 0: 2 */
};

#define CKPTFS_OPTIONS_DEFAULT ((struct ckptfs_options){.rank = -1, .local_rank = -1})

/*
 * Opens a session with the mount that @path lies in, and starts threads. @o may be NULL. -ENOTTY:
 * @path lies in no mount of ckptfs. -EPROTO: the daemon speaks another ABI.
 */
CKPTFS_PUBLIC int ckptfs_open(const char *path, const struct ckptfs_options *o,
			      struct ckptfs_session **s);

/*
 * Waits until what was written has landed, like a barrier that waits for all; what has not landed
 * then fails. (A barrier before it tells whether all has landed.)
 */
CKPTFS_PUBLIC void ckptfs_close(struct ckptfs_session *s);

/* The version of this library, such as "0.1.0". */
CKPTFS_PUBLIC const char *ckptfs_version(void);

/*
 * Why the last call with @s on this thread failed; with NULL: why the last call without a session
 * failed. Never NULL.
 */
CKPTFS_PUBLIC const char *ckptfs_error(const struct ckptfs_session *s);

struct ckptfs_tensor_info {
	uint64_t id; /* chosen by the caller, not 0; unique in the session */
	const char *name;
	enum ckptfs_kind kind;
	enum ckptfs_memory memory;
	const char *dtype; /* as in safetensors, "F32"; NULL: bytes, "U8" */
	unsigned ndim;	   /* of the next three, at most 8; 0: only the bytes are known */
	uint64_t global_shape[8], shard_offset[8], shard_shape[8]; /* in elements */
	uint64_t bytes;						   /* of the part that is here */
	int eager; /* a write of it returns once it is captured */
};

/* Registers all or none. Registering a tensor again, unchanged, has no effect. */
CKPTFS_PUBLIC int ckptfs_register(struct ckptfs_session *s, const struct ckptfs_tensor_info *t,
				  size_t n);

/*
 * Captures of these tensors that are under way go on: the memory must stay until they have landed.
 */
CKPTFS_PUBLIC int ckptfs_unregister(struct ckptfs_session *s, const uint64_t *ids, size_t n);

/*
 * Bytes [src_off, src_off + len) of the tensor at @addr go to @file_off of a file. The memory must
 * keep its place and its content until the capture has landed.
 */
struct ckptfs_write_op {
	uint64_t id;
	uint64_t file_off, src_off, len;
	const void *addr; /* of byte 0 of the tensor */
	/*
	 * For a tensor on a GPU: the CUstream that produces it; 0: the legacy one, ~0: the tensor
	 * is complete.
	 */
	uint64_t stream;
	uint64_t rows, row_bytes,
		pitch; /* strided: rows of row_bytes, pitch apart; rows 0: contiguous */
};

/*
 * Writes to @fd, which is open for writing. Returns at once, except for eager tensors, and where
 * ckptfs does not stage the file: then the bytes are written before it returns. All or none is
 * taken. A read of the file, by any process, waits for the bytes that it asks for.
 */
CKPTFS_PUBLIC int ckptfs_write(struct ckptfs_session *s, int fd, const struct ckptfs_write_op *ops,
			       size_t n);

/*
 * 1: @fd, open for writing, is a file of a checkpoint: it is captured lazily, published whole, and
 * gets a digest. 0: it is an ordinary file: no rule claims its name, or it lies in no mount of
 * ckptfs. -EBADF: it is not open for writing.
 */
CKPTFS_PUBLIC int ckptfs_is_staged(int fd);

#define CKPTFS_BARRIER_LANDED	  1u /* also waits for captures of devices */
#define CKPTFS_BARRIER_DEFAULT_NS (120ull * 1000000000ull)

/*
 * Called before tensors change. Returns when all captures of the session are submitted, and those
 * of host memory have landed. Device work enqueued on @streams from then on runs behind the copies;
 * without a stream (~0 is none) the call waits for these copies, too. -EBUSY: a stream is being
 * captured into a graph; the call has then waited for the copies. @timeout_ns 0: the default.
 * -ETIMEDOUT: what was not submitted is cancelled, and its checkpoint has failed. Another error is
 * that of the first capture that failed since the last barrier: -ESTALE: its tensor changed too
 * early; -ENOTCONN and the like: the daemon is gone. Whatever the call returns, the tensors may
 * change then.
 */
CKPTFS_PUBLIC int ckptfs_barrier(struct ckptfs_session *s, const uint64_t *streams, size_t n,
				 unsigned flags, uint64_t timeout_ns);

struct ckptfs_session_stats {
	uint64_t captures, captured_bytes, failed; /* since the session was opened */
	uint64_t pending, pending_bytes;	   /* written, but not landed yet */
	uint64_t barriers, barrier_ns;		   /* and for how long they have blocked */
	uint64_t arena_bytes;
	uint64_t pinned_bytes; /* of the arena, for GPUs; what is not pinned is copied slowly */
};

CKPTFS_PUBLIC int ckptfs_session_stats(struct ckptfs_session *s,
				       struct ckptfs_session_stats *stats);

/* --- without a session, from any process; ckptfs_error(NULL) then tells more --- */

/*
 * Waits until the file or checkpoint @path has come as far as @state: CKPTFS_CAPTURED,
 * CKPTFS_DURABLE or CKPTFS_COMMITTED. It waits for the generation that is the newest at the call
 * or, if @path does not exist, for the first that comes. -ETIMEDOUT: @timeout_ns has passed (0: it
 * looks once; ~0: without end), and the error says what is missing. -EINTR: a signal came. -ENOTTY:
 * @path lies in no mount of ckptfs. Else the error by which the generation failed.
 */
CKPTFS_PUBLIC int ckptfs_wait(const char *path, enum ckptfs_state state, uint64_t timeout_ns);

/*
 * Declares the checkpoint @path whole, whatever its rule still waits for: it is committed as soon
 * as all of it is closed and on the backing. -ENOENT: nothing is being saved there. -ENODATA: no
 * file of it was written. -EPERM.
 */
CKPTFS_PUBLIC int ckptfs_commit(const char *path);

/* Declares that it never will be whole: it fails, and its name shows what it was before. */
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
 * ckptfs; else it is "". -ENOENT: there is none. -ENOPKG: there is no such command. -ERANGE: @buf
 * of @size bytes is too small.
 */
CKPTFS_PUBLIC int ckptfs_latest(const char *dir, unsigned flags, char *buf, size_t size);

/*
 * Files of many tensors and objects, in the safetensors format (huggingface.co/docs/safetensors).
 * The place of each tensor is known when the file is created, so that tensors are written in any
 * order, at any time, by any thread. Objects, whose sizes are known only once they are serialised,
 * follow behind them, as tensors of bytes ("U8"). The header is written last, into room that was
 * left for it in front. Until then the file begins with a mark that no reader of safetensors takes
 * for a header (DataStates-LLM, arXiv 2406.10707, 5: its file layout).
 *
 * The format allows no holes. Tensors whose sizes are multiples of 4096 come first, and so begin at
 * multiples of 4096. Each of the others begins at a multiple of the largest power of two that
 * divides its size, hence of its elements'. If a tensor is a part of a larger one, the header says
 * which part of what, as the Hugging Face storage of PyTorch's distributed checkpoints does
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
 * they are not yet). Their names are those in the file; ids are unique in it. A tensor without
 * dimensions is a scalar if it has the bytes of one element, else a row. @s may be NULL: then all
 * is written at once, and tensors lie in memory of the host. @spare: bytes of the header for
 * objects and metadata that follow: their names, and some 100 for each object (200 in a file of
 * parts); 0: CKPTFS_FILE_SPARE. -EINVAL, -EFBIG: the format has no place for it.
 */
CKPTFS_PUBLIC int ckptfs_file_create(struct ckptfs_session *s, const char *path,
				     const struct ckptfs_tensor_info *t, size_t n, uint64_t spare,
				     struct ckptfs_file **f);

/*
 * As ckptfs_write, but file_off is ignored, since the tensor has its place. Each byte of a tensor
 * is written once (-EEXIST), in one call or several.
 */
CKPTFS_PUBLIC int ckptfs_file_write(struct ckptfs_file *f, const struct ckptfs_write_op *ops,
				    size_t n);

/*
 * Appends an object: @len bytes, which are in the file when this returns. -EEXIST: the file has
 * that name already. -ENOSPC: the header has no room for it (see spare), or the filesystem none.
 */
CKPTFS_PUBLIC int ckptfs_file_object(struct ckptfs_file *f, const char *name, const void *bytes,
				     uint64_t len);

/*
 * Adds a pair to the header's __metadata__, which has "format": "pt" unless another is given.
 * -EEXIST, -ENOSPC: as above.
 */
CKPTFS_PUBLIC int ckptfs_file_metadata(struct ckptfs_file *f, const char *key, const char *value);

/*
 * Writes the header; if it returns 0, the file is whole. Captures may go on. -ENODATA: a tensor was
 * not written in full. The error of an object that could not be written is returned again. @f is
 * gone in any case.
 */
CKPTFS_PUBLIC int ckptfs_file_close(struct ckptfs_file *f);

/*
 * The same without the header. The file stays as it is, and no reader takes it. On a mount of
 * ckptfs its checkpoint does not commit, unless the file is removed or overwritten.
 */
CKPTFS_PUBLIC void ckptfs_file_abandon(struct ckptfs_file *f);

/*
 * Reading: what is in a safetensors file, whichever program wrote it. ckptfs_error(NULL) says why a
 * file is refused.
 */
struct ckptfs_index;

struct ckptfs_entry {
	const char *name, *dtype;
	const uint64_t *shape; /* ndim numbers, as are the next two */
	/* Where it lies in a larger tensor, and the shape of that; NULL: the file does not say. */
	const uint64_t *shard_offset, *global_shape;
	uint64_t file_off, bytes;
	uint32_t ndim, reserved;
};

/* -EILSEQ: safetensors would not take the file. */
CKPTFS_PUBLIC int ckptfs_index_open(const char *path, struct ckptfs_index **ix);
CKPTFS_PUBLIC void ckptfs_index_close(struct ckptfs_index *ix);

/* A descriptor to read from; the index closes it. */
CKPTFS_PUBLIC int ckptfs_index_fd(const struct ckptfs_index *ix);

/*
 * Sets *entries to all, in the order in which they lie in the file; returns their number. They live
 * as long as the index.
 */
CKPTFS_PUBLIC size_t ckptfs_index_entries(const struct ckptfs_index *ix,
					  const struct ckptfs_entry **entries);

/* NULL: there is none. */
CKPTFS_PUBLIC const struct ckptfs_entry *ckptfs_index_find(const struct ckptfs_index *ix,
							   const char *name);
CKPTFS_PUBLIC const char *ckptfs_index_metadata(const struct ckptfs_index *ix, const char *key);

/*
 * Bytes [file_off, file_off + len) of a file go to bytes [dst_off, dst_off + len) of the tensor at
 * @addr.
 */
struct ckptfs_read_op {
	uint64_t file_off, dst_off, len;
	void *addr;			 /* of byte 0 of the tensor */
	uint64_t stream;		 /* of a device: the stream that uses it */
	uint64_t rows, row_bytes, pitch; /* as in ckptfs_write_op */
	uint32_t memory;		 /* enum ckptfs_memory */
	uint32_t reserved;		 /* 0 */
};

/*
 * Performs all reads, by several threads (at most @threads, this one included; 0: as many as are
 * good here), straight into their places. @fd is any file. -ENODATA: it ends before the end of an
 * op. Ops must not overlap where they read to. For memory of the host @s may be NULL, and its
 * daemon gone. An error is the first that a thread met; then the destinations hold anything.
 */
CKPTFS_PUBLIC int ckptfs_read(struct ckptfs_session *s, int fd, const struct ckptfs_read_op *ops,
			      size_t n, unsigned threads);

#ifdef __cplusplus
}
#endif

#endif
