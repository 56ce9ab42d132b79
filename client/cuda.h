/* SPDX-License-Identifier: MIT */
/*
 * Inside of the device "cuda": memory of GPUs, copied by way of the driver's API (cuda_driver.h).
 *
 * 	cuda.c		what a session asks of it
 * 	cuda_gpu.c	a GPU that tensors lie on: its context, our stream there, and what is bound
 * 	cuda_copy.c	the thread of each GPU, which copies pieces
 * 	cuda_source.c	a tensor's bytes, as copies
 * 	cuda_pin.c	host memory that GPUs reach by themselves
 * 	cuda_fault.c	calls that failed; being in a context
 *
 * Nothing here initialises CUDA or makes a context: tensors lie in one, which is the trainer's, and
 * is retained while we use it. Copies have a stream of their own, which does not wait for the
 * legacy one; what they come after, and what comes after them, is said by events. Of the pieces
 * that are granted a few at a time are given to the GPU: what else is to be copied from it, the
 * value of a loss, say, waits in the same queue of its copy engine (first come, first served,
 * whatever the streams' priorities).
 *
 * Locks: `opening` is held over calls of the driver, and taken by nobody that one of these waits
 * for; the others, and the session's, never are.
 */
#ifndef CLIENT_CUDA_H
#define CLIENT_CUDA_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "client/cuda_driver.h"
#include "client/session.h"

#define CUDA_GPUS_MAX	 64
#define CUDA_FLIGHTS	 16	       /* pieces that the GPU has, at most */
#define CUDA_FLIGHT_MAX	 (32ull << 20) /* and bytes, but of a single piece */
#define CUDA_SLAB_BOUNDS 256
#define CUDA_COMPLETE	 UINT64_MAX /* a stream's handle: what is to be copied is complete */

/* --- cuda_fault.c --- */

/* What the driver said of which of its calls. */
struct cuda_fault {
	CUresult code;
	const char *call;
};

/* Calls the driver; true: it worked. @fault is of the last call, then. */
#define CUDA_TRY(fault, function, ...) \
	((fault)->call = "cu" #function, (fault)->code = cuda_driver()->function(__VA_ARGS__), \
	 (fault)->code == CUDA_SUCCESS)

int cuda_fault_errno(const struct cuda_fault *f);
/*
 * "TENSOR: CALL on GPU 0: NAME (NUMBER): what that is (rank 0)", in CKPTFS_TEXT_MAX bytes; @gpu <
 * 0: of none.
 */
void cuda_fault_text(const struct ckptfs_session *s, const struct cuda_fault *f, const char *tensor,
		     int gpu, char *text);
/* As ckpt_error. */
int cuda_fault_error(struct ckptfs_session *s, const struct cuda_fault *f, const char *tensor,
		     int gpu);

/* --- cuda_gpu.c --- */

/*
 * What belongs to a capture, or to a copy to the GPU. The session's lock guards the lists of them.
 */
struct cuda_bound {
	struct cuda_bound *next;
	struct cuda_gpu *gpu;
	CUevent produced; /* the tensor is as it is to be captured, and probed */
	char *before;	  /* what the probes found: CKPT_PROBES_BYTES, pinned */
};

struct cuda_slab {
	struct cuda_slab *next;
	char *memory;
	struct cuda_bound bounds[CUDA_SLAB_BOUNDS];
};

/* A piece that the GPU has. */
struct cuda_flight {
	struct ckpt_piece *piece;
	uint64_t seq;
	CUevent landed;
	char *after; /* what the probes find after the copy, pinned */
};

struct cuda_gpu {
	struct cuda *cuda;
	int ordinal;
	CUdevice device;
	CUcontext context;
	CUstream stream; /* of the copies */
	CUevent fence;	 /* recorded there; later than it has to be does no harm */
	pthread_t thread;
	bool threaded;

	/* opening */
	struct cuda_slab *slabs;
	/* the session's lock: first come first, since an event may still be to come */
	struct cuda_bound *unused, **unused_end;

	/* The last that was bound: pieces are held back until it is past. */
	_Atomic(CUevent) newest;

	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t more;  /* for the thread */
	pthread_cond_t moved; /* the next three have */
	struct ckpt_piece *first, **end;
	uint64_t starting, started; /* pieces that are, or were, given to the GPU */
	uint64_t past;		    /* all up to this one have ended */
	bool stop;

	/* the thread's */
	bool entered;
	struct cuda_flight flights[CUDA_FLIGHTS];
	unsigned first_flight, nr_flights, max_flights;
	uint64_t flight_bytes;
	char *after;
	size_t after_bytes; /* of each flight */
};

struct cuda {
	struct ckptfs_session *session;
	pthread_mutex_t opening; /* one GPU is opened, or memory pinned, at a time */
	_Atomic(struct cuda_gpu *) gpus[CUDA_GPUS_MAX];
	uint64_t pinned; /* of the arena, from its beginning */
};

/*
 * The GPU that has these bytes of a tensor, one or more, opened if it is not yet. @tensor is for
 * errors, as cuda_fault_error's.
 */
int cuda_gpu_find(struct cuda *cuda, const struct ckpt_source *at, uint64_t off, uint64_t len,
		  const char *tensor, struct cuda_gpu **gpu);
/* Opens those where the trainer has a context now; what cannot be is said when it is needed. */
void cuda_gpus_open_active(struct cuda *cuda);
/* When no piece is wanted any more. */
void cuda_gpus_close(struct cuda *cuda);

/*
 * Makes the GPU's context the calling thread's, with the right to ask about events though others
 * capture streams into graphs; @mode is for leaving.
 */
bool cuda_enter(const struct cuda_gpu *g, int *mode, struct cuda_fault *f);
void cuda_leave(int mode);

/* NULL: @f says why. In the context. */
struct cuda_bound *cuda_bound_get(struct cuda_gpu *g, struct cuda_fault *f);
void cuda_bound_put_locked(struct cuda_bound *b);

/* --- cuda_copy.c --- */

int cuda_copy_start(struct cuda_gpu *g);
void cuda_copy_submit(struct cuda_gpu *g, struct ckpt_piece *p);
/* Ends the thread, when it has dropped what was submitted. */
void cuda_copy_stop(struct cuda_gpu *g);
/*
 * Waits until the pieces that have begun are with the GPU; false: all have ended already. @target
 * is up to which.
 */
bool cuda_copy_enqueued(struct cuda_gpu *g, uint64_t *target);
void cuda_copy_ended(struct cuda_gpu *g, uint64_t target);

/* --- cuda_source.c --- */

/* Where byte @off lies. */
const char *cuda_source_at(const struct ckpt_source *s, uint64_t off);

enum cuda_way { CUDA_FROM_DEVICE, CUDA_TO_DEVICE };
/* Enqueues copies of bytes [off, off + len) of @s, from or to @host. In the context. */
bool cuda_source_copy(const struct ckpt_source *s, uint64_t off, size_t len, void *host,
		      enum cuda_way way, CUstream stream, struct cuda_fault *f);

/* --- cuda_pin.c: in a context --- */

/* Memory of @bytes that GPUs reach, zeroed; NULL: @f says why. */
char *cuda_pinned_alloc(size_t bytes, struct cuda_fault *f);
void cuda_pinned_free(char *memory, size_t bytes);
/* As much of the arena as can be. */
void cuda_arena_pin(struct cuda *cuda);
void cuda_arena_unpin(struct cuda *cuda);

#endif
