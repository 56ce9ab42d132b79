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

#endif
