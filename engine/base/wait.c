/* SPDX-License-Identifier: MIT */
/*
 * A thread that waits has a waiter on its stack, and a queue is a list of waiters. Three mutexes
 * are taken below the lock of a queue, for moments, in this order: the mutex of an interruptible,
 * `timed_mutex`, the mutex of a waiter.
 */
#include "engine/base/wait.h"

#include <errno.h>
#include <poll.h>

struct waiter {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	bool poked;	      /* mutex: the thread must look again */
	bool woken;	      /* lock of the queue: waitq_wake woke it */
	struct list queued;   /* lock of the queue */
	struct list timed;    /* timed_mutex */
	uint64_t deadline_ns; /* const while it waits */
};

/* Waiters whose deadline is a time of an owned clock. */
static pthread_mutex_t timed_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct list timed = {&timed, &timed};
static _Atomic(void (*)(void)) observer;
static _Thread_local struct interruptible *serving;

static void poke(struct waiter *w)
{
	MUTEX_SCOPE(&w->mutex);
	w->poked = true;
	pthread_cond_signal(&w->cond);
}

/* --- interruption --- */

void interruptible_init(struct interruptible *i)
{
	pthread_mutex_init(&i->mutex, NULL);
	atomic_store(&i->interrupted, false);
	i->waiter = NULL;
}

void wait_serve(struct interruptible *i)
{
	serving = i;
}

void wait_interrupt(struct interruptible *i)
{
	MUTEX_SCOPE(&i->mutex);
	atomic_store(&i->interrupted, true);
	if (i->waiter)
		poke(i->waiter);
}

bool wait_interrupted(void)
{
	return serving && atomic_load(&serving->interrupted);
}

/* Registers @w for interruption. Returns false if the request is interrupted already. */
static bool offer(struct waiter *w)
{
	if (!serving)
		return true;
	MUTEX_SCOPE(&serving->mutex);
	serving->waiter = w;
	return !atomic_load(&serving->interrupted);
}

static void withdraw(void)
{
	if (!serving)
		return;
	MUTEX_SCOPE(&serving->mutex);
	serving->waiter = NULL;
}

/* --- owned clocks --- */

static void clock_has_moved(void)
{
	struct list *l;
	MUTEX_SCOPE(&timed_mutex);

	list_for_each (l, &timed) {
		struct waiter *w = container_of(l, struct waiter, timed);

		/* Only the waiting thread can read its own clock, so it checks the deadline. */
		poke(w);
	}
}

uint64_t wait_next_deadline(void)
{
	uint64_t next = CLOCK_NEVER;
	struct list *l;
	MUTEX_SCOPE(&timed_mutex);

	list_for_each (l, &timed) {
		const struct waiter *w = container_of(l, const struct waiter, timed);

		next = w->deadline_ns < next ? w->deadline_ns : next;
	}
	return next;
}

static void enlist(struct waiter *w)
{
	clock_on_move(clock_has_moved);
	MUTEX_SCOPE(&timed_mutex);
	list_append(&timed, &w->timed);
}

static void delist(struct waiter *w)
{
	MUTEX_SCOPE(&timed_mutex);
	list_del(&w->timed);
}

/* --- blocking --- */

void wait_observe(void (*blocks)(void))
{
	atomic_store(&observer, blocks);
}

static void sleep_until_poked(struct waiter *w, bool owned)
{
	struct timespec until = clock_timespec(w->deadline_ns);
	int err = 0;
	MUTEX_SCOPE(&w->mutex);

	while (!w->poked && !err) {
		if (owned || w->deadline_ns == CLOCK_NEVER)
			pthread_cond_wait(&w->cond, &w->mutex);
		else
			err = pthread_cond_clockwait(&w->cond, &w->mutex, CLOCK_MONOTONIC, &until);
	}
}

static bool has_passed(uint64_t deadline_ns)
{
	return deadline_ns != CLOCK_NEVER && clock_mono_ns() >= deadline_ns;
}

/* Called without locks. Blocks until @w is poked or its deadline passes. */
static void block(struct waiter *w)
{
	bool owned = w->deadline_ns != CLOCK_NEVER && clock_is_owned();
	void (*blocks)(void) = atomic_load(&observer);

	if (owned)
		enlist(w);
	if (blocks)
		blocks();
	/* The clock may have moved before @w was on the list. */
	if (!owned || !has_passed(w->deadline_ns))
		sleep_until_poked(w, owned);
	if (owned)
		delist(w);
}

#define WAITER_INIT(until) \
	{ \
		.mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER, \
		.deadline_ns = (until) \
	}

/* --- queues --- */

void waitq_init(struct waitq *q, struct lock *lock)
{
	q->lock = lock;
	list_init(&q->waiters);
}

static int wait_in(struct waitq *q, uint64_t deadline_ns, bool interruptible)
{
	struct waiter w = WAITER_INIT(deadline_ns);

	LOCK_CHECK(alone, q->lock);
	if (has_passed(deadline_ns))
		return -ETIMEDOUT;
	list_append(&q->waiters, &w.queued);
	if (!interruptible || offer(&w)) {
		lock_drop(q->lock);
		block(&w);
		lock_take(q->lock);
	}
	if (interruptible)
		withdraw();
	list_del(&w.queued);
	if (w.woken)
		return 0;
	if (interruptible && wait_interrupted())
		return -EINTR;
	return has_passed(deadline_ns) ? -ETIMEDOUT : 0;
}

int wait_on(struct waitq *q, uint64_t deadline_ns)
{
	return wait_in(q, deadline_ns, true);
}

int wait_out(struct waitq *q, uint64_t deadline_ns)
{
	return wait_in(q, deadline_ns, false);
}

void waitq_wake(struct waitq *q)
{
	struct waiter *w;

	lock_assert_held(q->lock);
	if (list_empty(&q->waiters))
		return;
	w = container_of(q->waiters.next, struct waiter, queued);
	list_del(&w->queued);
	w->woken = true;
	poke(w);
}

void waitq_wake_all(struct waitq *q)
{
	lock_assert_held(q->lock);
	while (!list_empty(&q->waiters))
		waitq_wake(q);
}

int wait_ns(uint64_t ns)
{
	uint64_t until = clock_mono_ns() + ns;

	while (!has_passed(until)) {
		struct waiter w = WAITER_INIT(until);

		if (offer(&w))
			block(&w);
		withdraw();
		if (wait_interrupted())
			return -EINTR;
	}
	return 0;
}

void wait_fd(int fd, uint64_t deadline_ns)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int n = 0;

	while (!n && !has_passed(deadline_ns)) {
		uint64_t left = deadline_ns == CLOCK_NEVER ? 0 : deadline_ns - clock_mono_ns();
		struct timespec ts = clock_timespec(clock_is_owned() ? NSEC_PER_MSEC : left);

		n = ppoll(&p, 1, deadline_ns == CLOCK_NEVER ? NULL : &ts, NULL);
		if (n < 0 && errno == EINTR)
			n = 0;
	}
}
