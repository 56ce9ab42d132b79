/* SPDX-License-Identifier: MIT */
#include "engine/flush/flush.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/wait.h"
#include "engine/base/worker.h"
#include "engine/flush/io.h"

#define DEFAULT_WORKERS_MAX 4 /* these digest more than one backing takes */

/* A partial chunk goes after this time. Too short: it goes in several small writes. */
#define AGE_NS		 (2 * NSEC_PER_SEC)
#define TICK_NS		 (200 * NSEC_PER_MSEC)
#define FIRST_PAUSE_NS	 (10 * NSEC_PER_MSEC)
#define LONGEST_PAUSE_NS NSEC_PER_SEC
/*
 * Retries on a full backing last this long, because freed space shows with a delay. If it is too
 * short, a save fails although room was made.
 */
#define FULL_RETRY_NS (1 * NSEC_PER_SEC)

/* One chunk on its way, and how much of it is written. */
struct job {
	struct io_write w;
	struct flush *flush;
	struct flight flight;
	size_t done;
	uint64_t first_failed_ns, pause_ns, due_ns; /* 0: no failure */
	struct shortage shortage;
	struct list link; /* flush->idle, or flush->retrying */
};

struct flush {
	struct contents *contents;
	struct cache *cache;
	struct flush_limits limits;
	struct io *io;
	struct worker workers[FLUSH_WORKERS_MAX]; /* the first also keeps the time */
	/* cache lock */
	struct job *jobs; /* one per chunk, so that failing ones delay no others */
	struct list idle, retrying;
	struct waitq helpers; /* idle ones: there is more than the awake ones take */
	unsigned nr_busy;     /* in the hands of the io engine: at most limits.depth */
	bool ending;
	uint64_t tokens_at_ns; /* flush_bw: the time at which the next byte may go */
	atomic_uint_fast64_t bytes, errors, retries;
};

bool flush_error_may_pass(int err)
{
	switch (-err) {
	case EIO:
	case EAGAIN:
	case EINTR:
	case ENOMEM:
	case ENOBUFS:
	case ETIMEDOUT:
	case EREMOTEIO:
	case ENETDOWN:
	case ENETUNREACH:
	case EHOSTDOWN:
	case EHOSTUNREACH:
	case ECONNRESET:
	case ENOTCONN:
	case ESHUTDOWN:
	case ECOMM:
	case ENOSPC:
	case EDQUOT:
		return true;
	}
	return false;
}

uint64_t flush_patience_ns(int err, uint64_t retry_ns)
{
	bool full = err == -ENOSPC || err == -EDQUOT;

	return full && FULL_RETRY_NS < retry_ns ? FULL_RETRY_NS : retry_ns;
}

static void start(struct job *j)
{
	struct flight *f = &j->flight;

	j->w.buf = f->data + j->done;
	j->w.len = f->len - j->done;
	j->w.off = f->off + j->done;
	j->w.fd = f->direct ? f->content->direct_fd : f->content->fd;
	j->w.as = f->content->owner;
	io_submit(j->flush->io, &j->w);
}

/* Ends the job. */
static void finish(struct job *j, int err)
{
	struct flush *f = j->flush;
	struct cache *c = f->cache;

	if (err)
		f->errors++;
	content_landed(&j->flight, err);
	LOCK_SCOPE(&c->lock);
	list_append(&f->idle, &j->link);
	f->nr_busy--;
	/* The first worker takes the room; while it digests, a helper does. */
	waitq_wake(list_empty(&c->work.waiters) ? &f->helpers : &c->work);
}

/* True if the backing, which has no room for the job, may get some soon. */
static bool may_get_room(struct job *j)
{
	struct contents *all = j->flush->contents;

	return all->events.full(all->events.arg, &j->flight.content->id, &j->shortage);
}

/* Puts the job aside for a pause. Returns false if it has failed for long enough. */
static bool retry(struct job *j, int err)
{
	struct flush *f = j->flush;
	uint64_t now = clock_mono_ns();
	uint64_t patience = flush_patience_ns(err, f->limits.retry_s * NSEC_PER_SEC);

	if (!flush_error_may_pass(err) || content_error(j->flight.content))
		return false;
	if (!j->first_failed_ns) {
		j->first_failed_ns = now;
		j->pause_ns = FIRST_PAUSE_NS;
	} else if (now - j->first_failed_ns > patience) {
		if ((err != -ENOSPC && err != -EDQUOT) || !may_get_room(j))
			return false;
		j->first_failed_ns = now;
		j->pause_ns = FIRST_PAUSE_NS;
	}
	LOCK_SCOPE(&f->cache->lock);
	if (f->ending)
		return false;
	f->retries++;
	f->nr_busy--;
	j->due_ns = now + j->pause_ns;
	if (j->pause_ns < LONGEST_PAUSE_NS)
		j->pause_ns *= 2;
	list_append(&f->retrying, &j->link);
	waitq_wake_all(&f->cache->work);
	return true;
}

/* A thread of the io engine calls it. */
static void done(struct io_write *w, ssize_t result)
{
	struct job *j = container_of(w, struct job, w);
	struct flight *f = &j->flight;

	if (result == -EINVAL && f->direct) {
		f->direct = false; /* aligned for this host, not for this storage */
		start(j);
		return;
	}
	if (result > 0) {
		j->done += (size_t)result;
		j->flush->bytes += (uint64_t)result;
		j->first_failed_ns = 0;
		j->shortage = (struct shortage){0};
		f->direct = f->direct && j->done % 4096 == 0;
		if (j->done >= f->len)
			finish(j, 0);
		else
			start(j);
		return;
	}
	/* Nothing written and no reason given: no progress, but not the end either. */
	if (!retry(j, result ? (int)result : -EIO))
		finish(j, result ? (int)result : -EIO);
}

/* --- the flusher --- */

/* Makes chunks ready that have waited long enough for the rest of their bytes. */
static void age_locked(struct cache *c)
{
	uint64_t now = clock_mono_ns();

	while (!list_empty(&c->partial)) {
		struct chunk *ck = container_of(c->partial.next, struct chunk, queue);

		if (now - ck->since_ns < AGE_NS)
			break;
		cache_set_state(c, ck, CHUNK_READY);
	}
}

/* A job whose retry is due, or NULL. */
static struct job *due_locked(struct flush *f)
{
	uint64_t now = clock_mono_ns();
	struct list *l;

	list_for_each (l, &f->retrying) {
		struct job *j = container_of(l, struct job, link);

		if (j->due_ns <= now || f->ending)
			return j;
	}
	return NULL;
}

/* True if flush_bw permits another chunk now. */
static bool within_bandwidth_locked(struct flush *f, size_t len)
{
	uint64_t now = clock_mono_ns(), rate = f->limits.bytes_per_s;

	if (!rate)
		return true;
	if (f->tokens_at_ns > now)
		return false;
	if (f->tokens_at_ns + NSEC_PER_SEC / 10 < now)
		f->tokens_at_ns = now; /* unused bandwidth is lost */
	f->tokens_at_ns += len * NSEC_PER_SEC / rate;
	return true;
}

/* Starts one job, or returns false. Drops the lock while a chunk is digested. */
static bool step_locked(struct flush *f)
{
	struct cache *c = f->cache;
	struct job *j = due_locked(f);

	if (f->nr_busy >= f->limits.depth)
		return false;
	if (j) {
		list_del(&j->link);
		f->nr_busy++;
		lock_drop(&c->lock);
		start(j);
		lock_take(&c->lock);
		return true;
	}
	if (list_empty(&f->idle) || !within_bandwidth_locked(f, 0))
		return false;
	j = container_of(f->idle.next, struct job, link);
	if (!content_take_off_locked(c, &j->flight))
		return false;
	within_bandwidth_locked(f, j->flight.len);
	list_del(&j->link);
	f->nr_busy++;
	j->done = 0;
	j->first_failed_ns = 0;
	j->shortage = (struct shortage){0};
	if (f->nr_busy < f->limits.depth && content_any_due_locked(c))
		waitq_wake(&f->helpers);
	lock_drop(&c->lock);
	content_digest(&j->flight);
	start(j);
	lock_take(&c->lock);
	return true;
}

/* The first worker: it also ages, sweeps, and waits for what failed, until all has landed. */
static void *flush_main(void *arg)
{
	struct flush *f = arg;
	struct cache *c = f->cache;
	uint64_t swept = 0;

	lock_take(&c->lock);
	while (!f->ending || f->nr_busy || !list_empty(&f->retrying)) {
		uint64_t ns;

		age_locked(c);
		if (step_locked(f))
			continue;
		ns = clock_mono_ns();
		if (ns - swept > NSEC_PER_SEC) {
			swept = ns;
			lock_drop(&c->lock);
			contents_sweep(f->contents);
			lock_take(&c->lock);
			continue;
		}
		ns += list_empty(&f->retrying) && !f->limits.bytes_per_s ? TICK_NS : FIRST_PAUSE_NS;
		wait_out(&c->work, ns);
	}
	lock_drop(&c->lock);
	return NULL;
}

/* Every other worker: takes off, digests and hands over. */
static void *helper_main(void *arg)
{
	struct flush *f = arg;
	LOCK_SCOPE(&f->cache->lock);

	while (!f->ending)
		if (!step_locked(f))
			wait_out(&f->helpers, CLOCK_NEVER);
	return NULL;
}

unsigned flush_default_workers(void)
{
	unsigned nr = worker_cpus();

	return nr < DEFAULT_WORKERS_MAX ? nr : DEFAULT_WORKERS_MAX;
}

static int start_workers(struct flush *f)
{
	int err = worker_start(&f->workers[0], "ckptfs-flush", flush_main, f);
	unsigned i;

	for (i = 1; !err && i < f->limits.workers && i < FLUSH_WORKERS_MAX; i++)
		err = worker_start(&f->workers[i], "ckptfs-flush", helper_main, f);
	return err;
}

int flush_create(struct flush **out, struct contents *contents, const struct flush_limits *limits,
		 struct error *e)
{
	struct flush *f = calloc(1, sizeof(*f));
	size_t i;
	int err;

	*out = NULL;
	if (!f)
		return FAIL(e, ENOMEM, IO_THREADS, strerror(ENOMEM));
	f->contents = contents;
	f->cache = contents->cache;
	f->limits = *limits;
	list_init(&f->idle);
	list_init(&f->retrying);
	waitq_init(&f->helpers, &f->cache->lock);
	f->jobs = calloc(f->cache->nr_chunks, sizeof(*f->jobs));
	for (i = 0; f->jobs && i < f->cache->nr_chunks; i++) {
		f->jobs[i].flush = f;
		f->jobs[i].w.done = done;
		list_append(&f->idle, &f->jobs[i].link);
	}
	err = f->jobs ? io_create(&f->io, contents->backing, limits->depth, limits->uring, e)
		      : FAIL(e, ENOMEM, IO_THREADS, strerror(ENOMEM));
	if (!err) {
		err = start_workers(f);
		if (err)
			FAIL(e, -err, IO_THREADS, strerror(-err));
	}
	if (err)
		flush_destroy(f);
	else
		*out = f;
	return err;
}

void flush_destroy(struct flush *f)
{
	unsigned i;

	if (!f)
		return;
	{
		LOCK_SCOPE(&f->cache->lock);
		f->ending = true;
		waitq_wake_all(&f->cache->work);
		waitq_wake_all(&f->helpers);
	}
	for (i = 0; i < FLUSH_WORKERS_MAX; i++)
		worker_join(&f->workers[i]);
	io_destroy(f->io);
	free(f->jobs);
	free(f);
}

json_t *flush_to_json(struct flush *f)
{
	json_int_t retrying = 0;
	struct list *l;
	LOCK_SCOPE(&f->cache->lock);

	list_for_each (l, &f->retrying)
		retrying++;
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "engine", io_name(f->io), "depth",
			 (json_int_t)f->limits.depth, "in_flight", (json_int_t)f->nr_busy,
			 "retrying", retrying, "bytes", (json_int_t)f->bytes, "errors",
			 (json_int_t)f->errors, "retries", (json_int_t)f->retries);
}
