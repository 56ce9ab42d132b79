/* SPDX-License-Identifier: MIT */
/*
 * libckptfs: checkpoints of tensors that are captured while training goes on.
 *
 * A write of a tensor returns at once; its bytes are copied out of the tensor later, by threads of this
 * library, into memory that the daemon lends, and go on from there to the backing. Until a capture has
 * landed its source must not change: ckptfs_barrier, called before the update phase of each step, waits for
 * that (the lazy copies of DataStates-LLM, HPDC'24, section 4.2). Whether it did change is checked.
 *
 * Functions return 0 (or what they say) or -errno; ckptfs_error then tells more. All may be called from
 * any thread. A session belongs to the process that opened it: in a child after fork every call with
 * it returns -ECHILD, and closing it there frees memory and nothing else.
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
 * Opens a session with the mount that @path lies in. -ENOTTY: it lies in none of ckptfs. -EPROTO: the
 * daemon speaks another ABI. @o may be NULL. Starts threads.
 */
CKPTFS_PUBLIC int ckptfs_open(const char *path, const struct ckptfs_options *o,
			      struct ckptfs_session **s);

/*
 * Waits, like a barrier that waits for all, until what was written has landed, and fails what has not then.
 * (A barrier before it says whether.)
 */
CKPTFS_PUBLIC void ckptfs_close(struct ckptfs_session *s);

/* Why the last call with @s on this thread failed; with NULL, why the last one without a session did. Never NULL. */
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

/* Those of which captures are under way are captured all the same: their memory must stay till then. */
CKPTFS_PUBLIC int ckptfs_unregister(struct ckptfs_session *s, const uint64_t *ids, size_t n);

/*
 * Bytes [src_off, src_off + len) of a tensor, which lies at @addr, are to be at @file_off of a file.
 * The memory must stay what and where it is until the capture has landed.
 */
struct ckptfs_write_op {
	uint64_t id;
	uint64_t file_off, src_off, len;
	const void *addr; /* of its byte 0 */
	uint64_t stream;  /* that produces it; 0: the legacy default stream, ~0: it is complete */
	uint64_t rows, row_bytes,
		pitch; /* strided: rows of row_bytes, pitch apart; rows 0: contiguous */
};

/*
 * On @fd, open for writing. Returns at once, but for eager ones, and where the file is none that
 * ckptfs stages: then the bytes are written here and now. All or none is taken. Reads of the file by
 * whomever wait for the bytes that they ask for.
 */
CKPTFS_PUBLIC int ckptfs_write(struct ckptfs_session *s, int fd, const struct ckptfs_write_op *ops,
			       size_t n);

#define CKPTFS_BARRIER_LANDED	  1u /* waits for captures of devices, too */
#define CKPTFS_BARRIER_DEFAULT_NS (120ull * 1000000000ull)

/*
 * Before tensors change: returns when all captures of the session are submitted, and those of host memory
 * have landed; device work enqueued on @streams from then on runs behind the copies. @timeout_ns 0: the
 * default. -ETIMEDOUT: what was not submitted is cancelled, its checkpoint has failed. Another error
 * is that of the first capture that failed since the last barrier: -ESTALE, its tensor changed too early;
 * -ENOTCONN and the like, the daemon is gone. Whatever it returns, the tensors may change then.
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
 * Waits until the file or checkpoint @path has come as far as @state: CKPTFS_CAPTURED, CKPTFS_DURABLE or
 * CKPTFS_COMMITTED; that generation of it which is the newest at the call, or, of a path that does not exist, the
 * first that comes. -ETIMEDOUT after @timeout_ns (0: it looks once; ~0: without end), and the error says
 * what is missing; -EINTR after a signal; else the error by which it failed. -ENOTTY: it lies in no mount of ckptfs.
 */
CKPTFS_PUBLIC int ckptfs_wait(const char *path, enum ckptfs_state state, uint64_t timeout_ns);

/*
 * The checkpoint @path is whole, whatever its rule still waits for: it is committed as soon as all of it is closed and on
 * the backing. -ENOENT: nothing is being saved there. -ENODATA: no file of it was written. -EPERM.
 */
CKPTFS_PUBLIC int ckptfs_commit(const char *path);

/* It never will be: it fails, and its name shows what it was before. */
CKPTFS_PUBLIC int ckptfs_abandon(const char *path);

#define CKPTFS_LATEST_VERIFY 1u /* reads it, and passes over what is damaged */

/*
 * The path of the newest committed checkpoint below the directory @dir, of a mount or of a bare backing, as `ckptfs
 * latest` names it, which is run: it is looked for beside this library (../bin), then in PATH; CKPTFS_COMMAND overrides
 * both. -ENOENT: there is none. -ERANGE: @buf of @size bytes is too small. Takes as long as it takes to read what it must.
 */
CKPTFS_PUBLIC int ckptfs_latest(const char *dir, unsigned flags, char *buf, size_t size);

#ifdef __cplusplus
}
#endif

#endif
