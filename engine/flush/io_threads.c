/* SPDX-License-Identifier: MIT */
/*
 * A pool of threads, each of which makes one write at a time. The pool grows while there are more
 * queued writes than idle threads, and shrinks to one thread after a while without work.
 */
#include "engine/base/wait.h"
#include "engine/base/worker.h"
#include "engine/flush/io.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"

struct pool;

struct writer {
	struct pool *pool;    /* const after create */
	struct worker thread; /* lock: pool */
	/* ENDED: the thread only needs to be joined. lock: pool */
	enum { WORKER_NONE, WORKER_RUNS, WORKER_ENDED } state;
};

struct pool {
	struct io io;
	struct backing *b;   /* const after create */
	unsigned nr_workers; /* const after create: the most threads */
	unsigned idle_ms;    /* const after create */
	struct lock lock;    /* leaf: no lock is taken below it */
	struct waitq work;   /* something is queued, or stop */
	struct list queue;   /* lock: lock */
	unsigned nr_queued;  /* lock: lock */
	unsigned nr_idle;    /* lock: lock; threads that wait for work */
	bool stop;	     /* lock: lock */
	struct writer workers[IO_MAX_THREADS];
};

unsigned io_threads_idle_ms = 10000;

/* NULL: this worker must end. The first worker lives as long as the pool. */
static struct io_write *next_write_locked(struct pool *p, bool first)
{
	uint64_t deadline = clock_mono_ns() + p->idle_ms * NSEC_PER_MSEC;
	bool late = false;
	struct io_write *w;

	while (list_empty(&p->queue)) {
		if (p->stop || (late && !first))
			return NULL;
		p->nr_idle++;
		late = wait_out(&p->work, first ? CLOCK_NEVER : deadline);
		p->nr_idle--;
	}
	w = container_of(p->queue.next, struct io_write, node);
	list_del(&w->node);
	p->nr_queued--;
	return w;
}

static void *worker_main(void *arg)
{
	struct writer *me = arg;
	struct pool *p = me->pool;
	struct io_write *w;
	struct backing as;
	ssize_t n;

	lock_take(&p->lock);
	while ((w = next_write_locked(p, me == p->workers))) {
		lock_drop(&p->lock);
		as = backing_as(p->b, &w->as);
		n = backing_write(&as, w->fd, w->buf, w->len, (off_t)w->off, 0);
		w->done(w, n);
		lock_take(&p->lock);
	}
	me->state = WORKER_ENDED;
	lock_drop(&p->lock);
	return NULL;
}

/* Returns 0 (also if all workers run already) or -errno. */
static int add_worker_locked(struct pool *p)
{
	struct writer *me = p->workers;
	int err;

	while (me < p->workers + p->nr_workers && me->state == WORKER_RUNS)
		me++;
	if (me == p->workers + p->nr_workers)
		return 0;
	if (me->state == WORKER_ENDED)
		worker_join(&me->thread); /* the ended thread needs no lock any more */
	err = worker_start(&me->thread, "ckptfs-write", worker_main, me);
	me->state = err ? WORKER_NONE : WORKER_RUNS;
	return err;
}

static void threads_submit(struct io *io, struct io_write *w)
{
	struct pool *p = container_of(io, struct pool, io);
	LOCK_SCOPE(&p->lock);

	list_append(&p->queue, &w->node);
	p->nr_queued++;
	/* If no thread can be added, the existing ones take the write. */
	if (p->nr_queued > p->nr_idle && !p->stop)
		add_worker_locked(p);
	waitq_wake(&p->work);
}

static void threads_destroy(struct io *io)
{
	struct pool *p = container_of(io, struct pool, io);
	unsigned i;

	lock_take(&p->lock);
	p->stop = true;
	waitq_wake_all(&p->work);
	lock_drop(&p->lock);
	/* From now on no thread is added. */
	for (i = 0; i < p->nr_workers; i++) {
		bool there;

		lock_take(&p->lock);
		there = p->workers[i].state != WORKER_NONE;
		lock_drop(&p->lock);
		if (there)
			worker_join(&p->workers[i].thread);
	}
	lock_finish(&p->lock);
	free(p);
}

static int threads_create(struct io **out, struct backing *b, unsigned depth)
{
	struct pool *p = calloc(1, sizeof(*p));
	int i, err;

	if (!p)
		return -ENOMEM;
	p->io.ops = &io_threads_ops;
	p->b = b;
	p->idle_ms = io_threads_idle_ms;
	p->nr_workers = depth < IO_MAX_THREADS ? depth : IO_MAX_THREADS;
	for (i = 0; i < IO_MAX_THREADS; i++)
		p->workers[i].pool = p;
	list_init(&p->queue);
	lock_init(&p->lock, LOCK_IO);
	waitq_init(&p->work, &p->lock);
	*out = &p->io;
	/* One thread exists from the start, so a host short of threads never stops the writes. */
	lock_take(&p->lock);
	err = add_worker_locked(p);
	lock_drop(&p->lock);
	if (err)
		threads_destroy(&p->io);
	return err;
}

const struct io_ops io_threads_ops = {
	.name = "threads",
	.create = threads_create,
	.submit = threads_submit,
	.destroy = threads_destroy,
};
