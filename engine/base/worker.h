/* SPDX-License-Identifier: MIT */
/*
 * Threads of the daemon: how each of them begins, is named and ends.
 *
 * - A thread has every signal blocked: signals are for fs/daemon.c, which waits for them.
 * - It has a name of at most 15 bytes, "ckptfs-..." without the first part, which `top -H` shows.
 * - Nobody stops a thread: its owner sets a flag, wakes it, and joins it here.
 */
#ifndef ENGINE_BASE_WORKER_H
#define ENGINE_BASE_WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "engine/base/wait.h"

struct worker {
	pthread_t thread;
	bool runs; /* it was started, and is to be joined */
};

/* Starts @main. 0 or -errno: nothing runs then. */
int worker_start(struct worker *w, const char *name, void *(*main)(void *), void *arg);

/* Waits until it has ended. Harmless on one that was not started, and twice. */
void worker_join(struct worker *w);

/* One that nobody joins, with a stack of @stack bytes; 0: as usual. 0 or -errno. */
int worker_start_detached(const char *name, size_t stack, void *(*main)(void *), void *arg);

/*
 * The loop of a worker that finds something to do under a lock, does it without, and puts it back.
 *
 * find: lock held. Takes the next thing, so that no other thread does, or returns NULL.
 * work: without the lock.
 * put:  lock held. What comes of it. NULL: nothing.
 */
struct worker_loop {
	struct waitq *queue; /* woken when there may be something */
	const bool *ending;  /* lock: what is left is not done */
	uint64_t look_ns;    /* it looks again after this long, woken or not; CLOCK_NEVER */
	void *(*find)(void *arg);
	void (*work)(void *arg, void *thing);
	void (*put)(void *arg, void *thing);
};

/* Takes the lock of the queue, and returns without it once *ending is set. */
void worker_loop(const struct worker_loop *loop, void *arg);

#endif
