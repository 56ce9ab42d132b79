/* SPDX-License-Identifier: MIT */
/*
 * Waiting for what another thread does.
 *
 * 	LOCK_SCOPE(&x->lock);			waitq_init(&x->changed, &x->lock) before
 * 	while (!x->ready && !err)
 * 		err = wait_on(&x->changed, deadline_ns);
 *
 * 	x->ready = true;			by another thread, lock held
 * 	waitq_wake_all(&x->changed);
 *
 * A wait ends when somebody wakes the queue, when its deadline passes by the clock of clock.h,
 * owned or not, or when the request that the thread serves is interrupted: whoever gives a request
 * up calls wait_interrupt(), and the thread is woken at once. Nobody polls for it.
 *
 * - A queue belongs to a lock: every call on it is made with that lock held. A wait drops the lock
 *   meanwhile. No other lock may be held, but for that of the end of an engine (LOCK_ENDING).
 * - A wait may end early for no reason: callers look at what they wait for again.
 * - At the end of its owner there is no special call: the owner sets its flag, and wakes all.
 * - What nobody signals is not waited for here. Whoever must look again at the passing of time
 *   gives the deadline at which to look.
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
 * 0: woken; -ETIMEDOUT; -EINTR: the request was interrupted. A wake-up is never lost to the others.
 */
int wait_on(struct waitq *q, uint64_t deadline_ns);

/* The same, come what may: interruption does not end it. 0; -ETIMEDOUT. */
int wait_out(struct waitq *q, uint64_t deadline_ns);

/* Wakes the one that has waited longest; or all. */
void waitq_wake(struct waitq *q);
void waitq_wake_all(struct waitq *q);

/* Without locks: @ns pass. 0; -EINTR. */
int wait_ns(uint64_t ns);

/*
 * Without locks: until @fd can be read, or the deadline passes. An owned clock is looked at each
 * millisecond meanwhile. Not interrupted.
 */
void wait_fd(int fd, uint64_t deadline_ns);

/* --- interruption --- */

struct waiter;

/* What a thread serves, and what somebody else can give up meanwhile: a request. */
struct interruptible {
	pthread_mutex_t mutex;
	atomic_bool interrupted;
	struct waiter *waiter; /* mutex: its thread, while that waits */
};

/* Not interrupted. Nobody else has @i yet, or any more. */
void interruptible_init(struct interruptible *i);

/* This thread serves @i from here on; NULL: nothing that can be interrupted. */
void wait_serve(struct interruptible *i);

/* From here on the thread that serves @i, now or later, waits for nothing more. From any thread. */
void wait_interrupt(struct interruptible *i);

/* True if what this thread serves was given up: it begins nothing new. */
bool wait_interrupted(void);

/* --- for tests --- */

/*
 * Calls @blocks whenever a thread is about to block, without locks: from then on a wake-up reaches
 * it.
 */
void wait_observe(void (*blocks)(void));

/* The earliest deadline by an owned clock for which a thread waits, or CLOCK_NEVER. */
uint64_t wait_next_deadline(void);

#endif
