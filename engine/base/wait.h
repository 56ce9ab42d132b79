/* SPDX-License-Identifier: MIT */
/*
 * Waiting for another thread.
 *
 *	LOCK_SCOPE(&x->lock);			waitq_init(&x->changed, &x->lock) before
 *	while (!x->ready && !err)
 *		err = wait_on(&x->changed, deadline_ns);
 *
 *	x->ready = true;			by another thread, lock held
 *	waitq_wake_all(&x->changed);
 *
 * A wait ends when another thread wakes the queue, when the deadline passes by the clock of clock.h
 * (owned or not), or when the request that the thread serves is interrupted. Another thread that
 * gives the request up calls wait_interrupt(), which wakes the waiting thread at once. No thread
 * polls for an interruption.
 *
 * - A queue belongs to a lock: every call on the queue is made with that lock held. A wait drops
 *   the lock meanwhile. The thread may hold no other lock except that of the end of an engine
 *   (LOCK_ENDING).
 * - A wait may end early without a reason, so callers check their condition again.
 * - A queue has no end call: its owner sets its flag and wakes all.
 * - The deadline of a caller that must look again after some time is the time of its next look.
 */
#ifndef ENGINE_BASE_WAIT_H
#define ENGINE_BASE_WAIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/clock.h"
#include "engine/base/list.h"
#include "engine/base/lock.h"

struct waitq {
	struct lock *lock;
	struct list waiters; /* lock */
};

void waitq_init(struct waitq *q, struct lock *lock);

/*
 * Returns 0: woken; -ETIMEDOUT; -EINTR: the request was interrupted. An interrupted waiter never
 * swallows a wake-up meant for another.
 */
int wait_on(struct waitq *q, uint64_t deadline_ns);

/* The same, but an interruption does not end the wait. Returns 0 or -ETIMEDOUT. */
int wait_out(struct waitq *q, uint64_t deadline_ns);

/* Wake the thread that has waited longest, or all threads. */
void waitq_wake(struct waitq *q);
void waitq_wake_all(struct waitq *q);

/* Called without locks. Waits until @ns have passed. Returns 0 or -EINTR. */
int wait_ns(uint64_t ns);

/*
 * Called without locks. Waits until @fd is readable or the deadline passes; no interruption ends
 * the wait. Checks an owned clock each millisecond.
 */
void wait_fd(int fd, uint64_t deadline_ns);

/* --- interruption --- */

struct waiter;

/* A request that a thread serves, and that another thread can give up meanwhile. */
struct interruptible {
	pthread_mutex_t mutex;
	atomic_bool interrupted;
	struct waiter *waiter; /* mutex: of the thread that serves it, while that thread waits */
};

/* Makes @i not interrupted. No other thread may use @i yet, or any more. */
void interruptible_init(struct interruptible *i);

/* From here on this thread serves @i. NULL: nothing that can be interrupted. */
void wait_serve(struct interruptible *i);

/* From here on no interruptible wait for @i blocks, now or later. Any thread may call it. */
void wait_interrupt(struct interruptible *i);

/* True if the request of this thread was given up. The thread then starts nothing new. */
bool wait_interrupted(void);

/* --- for tests --- */

/* Calls @blocks, without locks, whenever a thread is about to block and a wake-up will reach it. */
void wait_observe(void (*blocks)(void));

/* The earliest deadline by an owned clock that a thread waits for, or CLOCK_NEVER. */
uint64_t wait_next_deadline(void);

#endif
