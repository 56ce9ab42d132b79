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
 * Nothing here initialises CUDA or makes a context: tensors lie in a context of the trainer's,
 * which is retained while we use it. Copies have a stream of their own, which does not wait for the
 * legacy one; events say what the copies come after, and what comes after them. Only a few granted
 * pieces at a time are given to the GPU: anything else to be copied from it, the value of a loss,
 * say, waits in the same queue of its copy engine (first come, first served, whatever the streams'
 * priorities).
 *
 * Locks: `opening` is held over calls of the driver, and no thread that such a call waits for takes
 * it. The other locks, and the session's, are never held over one.
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
#define CUDA_FLIGHT_MAX	 (32ull << 20) /* and bytes, except of a single piece */
#define CUDA_SLAB_BOUNDS 256
#define CUDA_COMPLETE	 UINT64_MAX /* stream handle: the tensor is complete */

/* --- cuda_fault.c --- */

/* An error of the driver, and the call that returned it. */
struct cuda_fault {
	CUresult code;
	const char *call;
};

/* Calls the driver. True: it worked. @fault is set in any case. */
#define CUDA_TRY(fault, function, ...) \
	((fault)->call = "cu" #function, (fault)->code = cuda_driver()->function(__VA_ARGS__), \
	 (fault)->code == CUDA_SUCCESS)

int cuda_fault_errno(const struct cuda_fault *f);
/*
 * "TENSOR: CALL on GPU 0: NAME (NUMBER): what that is (rank 0)", in CKPTFS_TEXT_MAX bytes; @gpu <
 * 0: no GPU.
 */
void cuda_fault_text(const struct ckptfs_session *s, const struct cuda_fault *f, const char *tensor,
		     int gpu, char *text);
/* Says the text and returns the -errno, as ckpt_error does. */
int cuda_fault_error(struct ckptfs_session *s, const struct cuda_fault *f, const char *tensor,
		     int gpu);

/* --- cuda_gpu.c --- */

/* What belongs to a capture, or to a copy to the GPU. The session's lock guards their lists. */
struct cuda_bound {
	struct cuda_bound *next;
	struct cuda_gpu *gpu;
	CUevent produced; /* passed once the tensor is complete, and probed */
	char *before;	  /* what the probes found at the write: CKPT_PROBES_BYTES, pinned */
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
	CUstream stream; /* of our copies */
	CUevent fence;	 /* recorded there; no harm is done if that is later than it has to be */
	pthread_t thread;
	bool threaded;

	/* lock: opening */
	struct cuda_slab *slabs;
	/*
	 * lock: the session's. A queue: the event of one that was just returned may not have passed
	 */
	struct cuda_bound *unused, **unused_end;

	/* The event that was bound last: pieces are held back until it has passed. */
	_Atomic(CUevent) newest;

	pthread_mutex_t lock; /* for what follows */
	pthread_cond_t more;  /* wakes the thread */
	pthread_cond_t moved; /* woken when started or past has changed */
	struct ckpt_piece *first, **end;
	uint64_t starting, started; /* pieces that are, or were, given to the GPU */
	uint64_t past;		    /* all up to this number have ended */
	bool stop;

	/* owner: the thread */
	bool entered;
	struct cuda_flight flights[CUDA_FLIGHTS];
	unsigned first_flight, nr_flights, max_flights;
	uint64_t flight_bytes;
	char *after;
	size_t after_bytes; /* for each flight */
};

struct cuda {
	struct ckptfs_session *session;
	pthread_mutex_t opening; /* one GPU is opened, or memory pinned, at a time */
	_Atomic(struct cuda_gpu *) gpus[CUDA_GPUS_MAX];
	uint64_t pinned; /* of the arena, from its beginning */
};

/*
 * The GPU that has bytes [off, off + len) of a tensor, one or more; opened if it is not yet.
 * @tensor: as for cuda_fault_error.
 */
int cuda_gpu_find(struct cuda *cuda, const struct ckpt_source *at, uint64_t off, uint64_t len,
		  const char *tensor, struct cuda_gpu **gpu);
/*
 * Opens the GPUs where the trainer has a context now. A GPU that fails here says why when it is
 * needed.
 */
void cuda_gpus_open_active(struct cuda *cuda);
/* Called when no piece is wanted any more. */
void cuda_gpus_close(struct cuda *cuda);

/*
 * Makes the GPU's context the calling thread's, and lets the thread ask about events though others
 * capture streams into graphs. @mode is for cuda_leave.
 */
bool cuda_enter(const struct cuda_gpu *g, int *mode, struct cuda_fault *f);
void cuda_leave(int mode);

/* In the context. NULL: @f says why. */
struct cuda_bound *cuda_bound_get(struct cuda_gpu *g, struct cuda_fault *f);
void cuda_bound_put_locked(struct cuda_bound *b);

/* --- cuda_copy.c --- */

int cuda_copy_start(struct cuda_gpu *g);
void cuda_copy_submit(struct cuda_gpu *g, struct ckpt_piece *p);
/* Ends the thread, once it has dropped what was submitted. */
void cuda_copy_stop(struct cuda_gpu *g);
/*
 * cuda_copy_enqueued waits until the pieces that have begun are with the GPU; @target is the number
 * of the last. False: all have ended already. cuda_copy_ended waits until all up to @target have.
 */
bool cuda_copy_enqueued(struct cuda_gpu *g, uint64_t *target);
void cuda_copy_ended(struct cuda_gpu *g, uint64_t target);

/* --- cuda_source.c --- */

/* The address of byte @off. */
const char *cuda_source_at(const struct ckpt_source *s, uint64_t off);

enum cuda_way { CUDA_FROM_DEVICE, CUDA_TO_DEVICE };
/* Enqueues copies of bytes [off, off + len) of @s, from or to @host. In the context. */
bool cuda_source_copy(const struct ckpt_source *s, uint64_t off, size_t len, void *host,
		      enum cuda_way way, CUstream stream, struct cuda_fault *f);

/* --- cuda_pin.c: in a context --- */

/* Memory of @bytes that GPUs reach, zeroed; NULL: @f says why. */
char *cuda_pinned_alloc(size_t bytes, struct cuda_fault *f);
void cuda_pinned_free(char *memory, size_t bytes);
/* Pins as much of the arena as can be, close to @device. */
void cuda_arena_pin(struct cuda *cuda, CUdevice device);
void cuda_arena_unpin(struct cuda *cuda);

#endif
