/* SPDX-License-Identifier: MIT */
/*
 * Threads of the daemon: how each one starts, is named and ends.
 *
 * - A thread has every signal blocked; fs/daemon.c waits for signals.
 * - A thread has a name "ckptfs-...", of at most 15 bytes, which `top -H` shows.
 * - A thread is never cancelled: its owner sets a flag, wakes the thread, and joins it here.
 */
#ifndef ENGINE_BASE_WORKER_H
#define ENGINE_BASE_WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct worker {
	pthread_t thread;
	bool runs; /* the thread was started and must be joined */
};

/* Starts @main. Returns 0, or -errno: no thread runs. */
int worker_start(struct worker *w, const char *name, void *(*main)(void *), void *arg);

/* Waits until the thread has ended. Harmless if it was never started, and on a second call. */
void worker_join(struct worker *w);

/* Starts a thread that is never joined. @stack: bytes, 0: the default. Returns 0 or -errno. */
int worker_start_detached(const char *name, size_t stack, void *(*main)(void *), void *arg);

/* The number of CPUs on which this process may run; 1 if the kernel does not tell. */
unsigned worker_cpus(void);

#endif
