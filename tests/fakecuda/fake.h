/* SPDX-License-Identifier: MIT */
/*
 * A CUDA driver without a GPU, for tests: libcuda.so.1, found by LD_LIBRARY_PATH. What it is for is
 * to be wrong where hardware would be: copies take time and really happen during it, so that a
 * missing wait tears data; a host that touches device memory faults; memory that is copied to must
 * be registered, and stay so.
 *
 * How it models, file by file:
 * 	device.c	devices, their names and visibility; primary contexts
 * 	memory.c	device memory: files; registered host memory
 * 	stream.c	a thread for each stream, which does its work in order; the legacy stream
 * 	event.c		an event is a moment of a stream: its position when the event was recorded
 * 	copy.c		copies, in steps of 4 KiB spread over the time that they take
 * 	copy_engine.c	one engine a device and direction, first come first served, all processes
 * 	capture.c	stream capture: what it forbids to whom
 * 	call.c		through which every call goes: the log, who may call now
 * 	inject.c	failures that a test asks for
 *
 * Settings, each FAKE_CUDA_NAME in the environment or a line `name=value` in FAKE_CUDA_DIR/config:
 * 	DIR		where device memory and engines lie: needed, else there is no device.
 * 			Processes with the same one share devices
 * 	DEVICES		how many (1)
 * 	MEMORY		bytes of device memory, for each process and device (4 GiB)
 * 	REGISTER_MAX	bytes that one registration may have (512 GiB)
 * 	{DTOH,HTOD,DTOD}_{GBPS,US}	speed of an engine in 10^9 bytes a second (0: as fast as it
 * 			goes), and what a copy takes besides
 * 	LOG		a file that each call and each copy appends a line to
 * 	INJECT		failures, see inject.c; FAKE_CUDA_DIR/inject, where that is a file, can change
 *
 * A process that is killed leaves its memory.PID.DEVICE there, which is nobody's then.
 *
 * Not modelled: kernels but those of fakeLaunch and cuLaunchHostFunc; contexts but primary ones;
 * graphs (what is captured is forgotten, and none can be launched); managed and pooled memory;
 * peers; IPC; the per-thread default stream; timing events; device memory taken by other processes.
 *
 * One lock (fake.lock) guards all that is below; fake.moved tells all who wait that something has.
 * Functions here are called with it held unless they say otherwise.
 */
#ifndef TESTS_FAKECUDA_FAKE_H
#define TESTS_FAKECUDA_FAKE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

#include "tests/fakecuda/api.h"

#define EXPORT __attribute__((visibility("default")))

#define PROTOTYPE(field, symbol, arguments) EXPORT CUresult symbol arguments;
CUDA_DRIVER_REQUIRED(PROTOTYPE)
CUDA_DRIVER_OPTIONAL(PROTOTYPE)
CUDA_TRAINER_FUNCTIONS(PROTOTYPE)
CUDA_POOL_FUNCTIONS(PROTOTYPE)
CUDA_FAKE_FUNCTIONS(PROTOTYPE)
#undef PROTOTYPE

#define MAX_DEVICES 8
#define MAX_DEPTH   16

struct capture;

struct op {
	struct op *next;
	uint64_t seq;
	CUresult (*run)(void *what); /* without the lock; NULL: nothing to do */
	void *what;		     /* freed */
	size_t n_after;
	struct moment {
		struct CUstream_st *stream; /* NULL: at once */
		uint64_t seq;
	} after[];
};

struct CUstream_st {
	struct CUstream_st *next;
	struct CUctx_st *context;
	struct capture *capture;
	bool blocking, legacy;
	bool gone; /* destroyed; the struct stays, since events may point here */
	uint64_t queued, done;
	struct op *first, **last;
};

struct CUctx_st {
	int device;	       /* physical */
	unsigned int retained; /* 0: the context is not active */
	CUresult failed;       /* a sticky error, or 0; for the rest of the process */
	struct CUstream_st legacy, *streams;
};

struct fake {
	pthread_mutex_t lock;
	pthread_cond_t moved;
	_Atomic(pid_t) pid;  /* of cuInit */
	_Atomic bool exited; /* exit() was called */
	const char *dir;
	int n_devices, visible[MAX_DEVICES]; /* visible: physical numbers, by ordinal */
	struct CUctx_st contexts[MAX_DEVICES];
	unsigned int copying;
	uint64_t copies, pageable;
	fake_step_fn *on_step;
	void *on_step_arg;
};

extern struct fake fake;

/* What the calling thread sees of itself. */
struct fake_thread {
	CUcontext stack[MAX_DEPTH];
	int depth;
	int capture_mode;
	struct effect {
		bool flip;	    /* one bit of what is copied changes */
		CUresult late;	    /* the operation fails when its turn comes */
		unsigned int stall; /* the number of a call: it never ends while a rule says so */
	} effect;
};

extern __thread struct fake_thread fake_thread;

/* --- call.c --- */

enum {
	ANY_TIME = 1, /* works before cuInit and after exit */
	CONTEXT = 2,  /* needs a current context, and one that has not failed */
	UNSAFE = 4,   /* not while a stream is captured: see capture.c */
};

/* Each function of the driver begins so: it returns if the call is refused. Without the lock. */
#define CALL(flags, ...) \
	do { \
		CUresult refused_ = call_begin(__func__, flags, __VA_ARGS__); \
\
		if (refused_) \
			return refused_; \
	} while (0)

__attribute__((format(printf, 3, 4))) CUresult call_begin(const char *function, int flags,
							  const char *format, ...);
/* A line in the log: time in ns, pid, tid, @format. Without the lock. */
__attribute__((format(printf, 1, 2))) void call_log(const char *format, ...);

static inline CUcontext current_context(void)
{
	return fake_thread.depth ? fake_thread.stack[fake_thread.depth - 1] : NULL;
}

/* --- inject.c: without the lock --- */

/* Counts the call and does what a rule says of it: what it then returns, CUDA_SUCCESS to go on. */
CUresult inject(const char *function);
/* Returns when no rule stalls call number @call of a copy any more, or at exit. */
void inject_stall(unsigned int call);

/* --- device.c --- */

/* Of FAKE_CUDA_@name or the config file; @otherwise if neither has it. */
double setting(const char *name, double otherwise);
/* Of the ordinal @device; negative: there is no such. */
int physical(CUdevice device);
int ordinal_of(int physical_device);

/* --- memory.c --- */

CUresult memory_open(int device);
void memory_close(void); /* all devices' */
void memory_free_all(int device);
/* Is that within the device memory of anybody? Need not be allocated. */
bool is_device_address(CUdeviceptr pointer);
/* Does @pointer lie in an allocation; and @bytes from there on? */
bool is_allocated(CUdeviceptr pointer, size_t bytes, bool *fits);
void *device_view(CUdeviceptr pointer);
/* Of the registrations: 0 none touches that range, 1 one holds it all, -1 else. */
int registered(const void *memory, size_t bytes);

/* --- stream.c --- */

void stream_init(struct CUstream_st *stream, CUcontext context, bool blocking);
/* The stream of a handle, in the current context. */
CUresult stream_of(CUstream handle, struct CUstream_st **stream);
/*
 * Queues work, after @after too if that is not NULL. Takes @what, from malloc, also if it fails.
 * @when (may be NULL) is where it is in the stream, or in no stream if that is being captured.
 */
CUresult stream_add(struct CUstream_st *stream, CUresult (*run)(void *), void *what,
		    const struct moment *after, struct moment *when);
bool moment_past(struct moment moment);
/* Waits; then what its context says: a sticky error, or 0. 4 at exit. */
CUresult moment_wait(CUcontext context, struct moment moment);
CUresult context_wait(CUcontext context);

/* --- copy_engine.c: without the lock --- */

uint64_t now_ns(void);
/* Until then, or exit. */
void sleep_until(uint64_t ns);
CUresult engines_open(const char *dir);
/* A place on the engine's timetable, behind all who came before. */
void engine_reserve(int device, int engine, size_t bytes, uint64_t *start, uint64_t *end);

/* --- capture.c --- */

/*
 * 900 if the calling thread may not make an unsafe call now; captures that it spoils are invalid.
 */
CUresult capture_forbids(void);
/* For work on @stream: not captured (0), captured, or an error. */
CUresult capture_work(struct CUstream_st *stream, bool *captured);
/* For asking about @stream, or waiting for it. */
CUresult capture_asks(struct CUstream_st *stream);
/* @stream is to wait for an event of @capture (0: of none): as capture_work. */
CUresult capture_joins(struct CUstream_st *stream, uint64_t capture, bool *captured);
uint64_t capture_id(const struct CUstream_st *stream);

#endif
