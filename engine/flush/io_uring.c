/* SPDX-License-Identifier: MIT */
/*
 * One ring, and one thread that owns both its ends: the thread submits, reaps and calls done(). So
 * no two threads race on the ring, and no write is lost because its submitting thread exits (the
 * kernel cancels what a thread has in flight when it exits). Other threads only append to a queue
 * and, if the thread sleeps, wake it by an eventfd that the ring reads.
 *
 * - Every write goes to the kernel's workers (IOSQE_ASYNC), of which there may be as many as writes
 *   in flight. Without that the kernel first tries a write in the submitting thread. It may hang
 *   there (O_DIRECT on a frozen filesystem before Linux 6.12), and copies buffered data in one
 *   thread.
 * - Users: the thread registers a personality for each recent (uid, gid), while it acts as that
 *   user.
 * - No more writes are in flight than the completion queue has room for, so it never overflows.
 *
 * Buffers are not registered: the memory may be punched and filled again, and a registered buffer
 * would go on writing the old pages.
 */
#include "engine/backing/creds.h"
#include "engine/base/lock.h"
#include "engine/base/worker.h"
#include "engine/flush/io.h"

#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/cleanup.h"

#define MAX_WRITE   (1u << 30) /* the length has 32 bits; a longer write is a short one */
#define MIN_PERSONS 64

struct person {
	uid_t uid;
	gid_t gid;
	int id;		    /* the kernel's */
	unsigned in_flight; /* writes in the ring that use it */
	uint64_t used;	    /* value of uring.now at the last use */
};

struct uring {
	struct io io;
	unsigned depth;	      /* const after create */
	unsigned max_persons; /* const after create; at least depth, so one is idle when needed */
	bool as_caller;	      /* const after create */
	int wake_fd;	      /* const after create */
	struct worker thread; /* const after create */
	sem_t opened;	      /* the thread has set `err` */
	int err;	      /* const once opened */

	struct lock lock;  /* leaf: no lock is taken below it */
	struct list queue; /* lock: lock */
	bool awake;	   /* lock: lock; the thread will read the queue before it sleeps */
	bool stop;	   /* lock: lock */

	/* owner: the thread */
	struct io_uring ring;
	unsigned in_flight;
	bool wake_armed;
	uint64_t wakes; /* the value that the ring reads from wake_fd */
	struct person *persons;
	unsigned nr_persons;
	uint64_t now;
};

/* open_ring made room for every write and the read of wake_fd. */
static struct io_uring_sqe *get_sqe(struct uring *u)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);

	assert(sqe);
	return sqe;
}

/* --- personalities --- */

static int register_person(struct uring *u, const struct caller *as)
{
	struct who who = who_as(as);

	return ACT_AS(&who, io_uring_register_personality(&u->ring));
}

/* A place for one more: at the end, or that of the least recently used idle personality. */
static struct person *place_for_person(struct uring *u)
{
	struct person *p, *oldest = NULL;

	if (u->nr_persons < u->max_persons)
		return &u->persons[u->nr_persons++];
	for (p = u->persons; p < u->persons + u->nr_persons; p++)
		if (!p->in_flight && (!oldest || p->used < oldest->used))
			oldest = p;
	assert(oldest);
	io_uring_unregister_personality(&u->ring, oldest->id);
	return oldest;
}

/* Returns the index of @as in persons, or -errno. */
static int find_person(struct uring *u, const struct caller *as)
{
	struct person *p;
	int id;

	for (p = u->persons; p < u->persons + u->nr_persons; p++)
		if (p->uid == as->uid && p->gid == as->gid)
			return (int)(p - u->persons);
	id = register_person(u, as);
	if (id < 0)
		return id;
	p = place_for_person(u);
	*p = (struct person){.uid = as->uid, .gid = as->gid, .id = id};
	return (int)(p - u->persons);
}

/* --- the thread --- */

/* Never writes as another user: a write without its credentials fails. */
static void begin_write(struct uring *u, struct io_write *w)
{
	int person = u->as_caller ? find_person(u, &w->as) : 0;
	struct io_uring_sqe *sqe;

	if (person < 0) {
		w->done(w, person);
		return;
	}
	sqe = get_sqe(u);
	io_uring_prep_write(sqe, w->fd, w->buf, w->len < MAX_WRITE ? (unsigned)w->len : MAX_WRITE,
			    w->off);
	sqe->flags |= IOSQE_ASYNC;
	io_uring_sqe_set_data(sqe, w);
	if (u->as_caller) {
		struct person *p = &u->persons[person];

		p->in_flight++;
		p->used = u->now++;
		w->person = (unsigned)person;
		sqe->personality = (uint16_t)p->id;
	}
	u->in_flight++;
}

/* Starts queued writes that fit. Returns false when all are done and the ring must end. */
static bool begin_writes(struct uring *u)
{
	unsigned room = u->depth - u->in_flight;
	struct list batch, *node;

	list_init(&batch);
	{
		LOCK_SCOPE(&u->lock);
		if (u->stop && !u->in_flight && list_empty(&u->queue))
			return false;
		while (room-- && !list_empty(&u->queue)) {
			node = u->queue.next;
			list_del(node);
			list_append(&batch, node);
		}
		/* Writes are left only if there is no room; each completion leads back here. */
		u->awake = !list_empty(&u->queue);
	}
	while (!list_empty(&batch)) {
		node = batch.next;
		list_del(node);
		begin_write(u, container_of(node, struct io_write, node));
	}
	return true;
}

static void arm_wake(struct uring *u)
{
	struct io_uring_sqe *sqe;

	if (u->wake_armed)
		return;
	sqe = get_sqe(u);
	io_uring_prep_read(sqe, u->wake_fd, &u->wakes, sizeof(u->wakes), 0);
	io_uring_sqe_set_data(sqe, NULL);
	u->wake_armed = true;
}

static void pause_a_moment(void)
{
	const struct timespec ms = {0, 1000000};

	nanosleep(&ms, NULL);
}

static void end_write(struct uring *u, struct io_write *w, ssize_t result)
{
	u->in_flight--;
	if (u->as_caller)
		u->persons[w->person].in_flight--;
	/*
	 * Not errors of the backing: a worker was disturbed, or the kernel could not make one. This
	 * code never cancels a write.
	 */
	if (result == -EINTR || result == -ECANCELED) {
		if (result == -ECANCELED)
			pause_a_moment();
		LOCK_SCOPE(&u->lock);
		list_push(&u->queue, &w->node);
		return;
	}
	w->done(w, result);
}

static void reap(struct uring *u)
{
	struct io_uring_cqe *cqe;

	{
		LOCK_SCOPE(&u->lock);
		u->awake = true;
	}
	while (!io_uring_peek_cqe(&u->ring, &cqe)) {
		struct io_write *w = io_uring_cqe_get_data(cqe);
		ssize_t result = cqe->res;

		io_uring_cqe_seen(&u->ring, cqe);
		if (w)
			end_write(u, w, result);
		else
			u->wake_armed = false;
	}
}

static void submit_and_wait(struct uring *u)
{
	int n = io_uring_submit_and_wait(&u->ring, 1);

	/* The kernel had no memory for a request; the next call submits it again. */
	if (n < 0 && n != -EINTR)
		pause_a_moment();
}

/*
 * A ring may exist while its use is forbidden (seccomp, SELinux). So this submits a no-op, by a
 * worker and as another user.
 */
static int try_ring(struct uring *u)
{
	static const struct caller nobody = {.uid = 65534, .gid = 65534};
	int n, person = u->as_caller ? find_person(u, &nobody) : 0;
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;

	if (person < 0)
		return person;
	sqe = get_sqe(u);
	io_uring_prep_nop(sqe);
	sqe->flags |= IOSQE_ASYNC;
	sqe->personality = u->as_caller ? (uint16_t)u->persons[person].id : 0;
	do
		n = io_uring_submit_and_wait(&u->ring, 1);
	while (n == -EINTR);
	if (n < 0)
		return n;
	n = io_uring_wait_cqe(&u->ring, &cqe);
	if (n < 0)
		return n;
	n = cqe->res;
	io_uring_cqe_seen(&u->ring, cqe);
	return n;
}

static int open_ring(struct uring *u)
{
	unsigned workers[2] = {u->depth, 0}; /* for files; 0: unchanged for the rest */
	int err = io_uring_queue_init(u->depth + 1, &u->ring, 0);

	if (err)
		return err;
	/* Fails before Linux 5.15: then there are 4 workers per CPU. */
	io_uring_register_iowq_max_workers(&u->ring, workers);
	err = try_ring(u);
	if (err)
		io_uring_queue_exit(&u->ring);
	return err;
}

static void *uring_main(void *arg)
{
	struct uring *u = arg;

	u->err = open_ring(u);
	sem_post(&u->opened);
	if (u->err)
		return NULL;
	while (begin_writes(u)) {
		arm_wake(u);
		submit_and_wait(u);
		reap(u);
	}
	io_uring_queue_exit(&u->ring);
	return NULL;
}

/* --- called from any thread --- */

/* Called with the lock held, so that the last wake-up is over before the ring is freed. */
static void wake_locked(struct uring *u)
{
	if (!u->awake)
		eventfd_write(u->wake_fd, 1);
	u->awake = true;
}

static void uring_submit(struct io *io, struct io_write *w)
{
	struct uring *u = container_of(io, struct uring, io);
	LOCK_SCOPE(&u->lock);

	list_append(&u->queue, &w->node);
	wake_locked(u);
}

static void uring_free(struct uring *u)
{
	if (u->wake_fd >= 0)
		close(u->wake_fd);
	sem_destroy(&u->opened);
	lock_finish(&u->lock);
	free(u->persons);
	free(u);
}

static void uring_destroy(struct io *io)
{
	struct uring *u = container_of(io, struct uring, io);

	lock_take(&u->lock);
	u->stop = true;
	wake_locked(u);
	lock_drop(&u->lock);
	worker_join(&u->thread);
	uring_free(u);
}

static int start(struct uring *u)
{
	int err;

	if (!u->persons)
		return -ENOMEM;
	if (u->wake_fd < 0)
		return -errno;
	err = worker_start(&u->thread, "ckptfs-write", uring_main, u);
	if (err)
		return err;
	while (sem_wait(&u->opened))
		; /* EINTR */
	if (u->err)
		worker_join(&u->thread);
	return u->err;
}

static int uring_create(struct io **out, struct backing *b, unsigned depth)
{
	struct uring *u = calloc(1, sizeof(*u));
	int err;

	if (!u)
		return -ENOMEM;
	u->io.ops = &io_uring_ops;
	u->depth = depth;
	u->as_caller = feature(b->features, FEATURE_ACT_AS_CALLER);
	u->max_persons = depth > MIN_PERSONS ? depth : MIN_PERSONS;
	u->persons = calloc(u->max_persons, sizeof(*u->persons));
	list_init(&u->queue);
	lock_init(&u->lock, LOCK_IO);
	sem_init(&u->opened, 0, 0);
	u->wake_fd = eventfd(0, EFD_CLOEXEC);
	err = start(u);
	if (err)
		uring_free(u);
	else
		*out = &u->io;
	return err;
}

const struct io_ops io_uring_ops = {
	.name = "io_uring",
	.create = uring_create,
	.submit = uring_submit,
	.destroy = uring_destroy,
};
