/* SPDX-License-Identifier: MIT */
/*
 * The threads that serve requests. One waits at the device, the attendant; others serve, or are
 * parked until they are called.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "client/ckptfs_abi.h"
#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/list.h"
#include "engine/base/lock.h"
#include "engine/base/log.h"
#include "engine/base/message.h"
#include "engine/base/wait.h"
#include "engine/base/worker.h"
#include "engine/capture/capture.h"
#include "engine/content/content.h"
#include "engine/metrics/failures.h"
#include "engine/metrics/metrics.h"
#include "fs/fs.h"
#include "fs/late_call.h"
#include "fs/requests_inside.h"

/* Another thread is called after so many requests in a row that found one more waiting. */
#define BACKLOG 4
/* Buffers that are kept for the next requests. */
#define MAX_FREE    8
#define STACK_BYTES (512u << 10)

/* --- request buffers --- */

static size_t buffer_bytes(const struct requests *rs)
{
	return rs->receiver.write_max + 2 * PAGE;
}

static struct request *request_alloc(const struct requests *rs)
{
	struct request *r = calloc(1, sizeof(*r));
	char *base;

	if (!r)
		return NULL;
	base = mmap(NULL, buffer_bytes(rs), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	if (base == MAP_FAILED) {
		free(r);
		return NULL;
	}
	r->mem = base + PAGE - WIRE_WRITE_HEADER;
	list_init(&r->link);
	return r;
}

void request_free(const struct requests *rs, struct request *r)
{
	munmap(r->mem - (PAGE - WIRE_WRITE_HEADER), buffer_bytes(rs));
	free(r);
}

static struct request *take_buffer_locked(struct requests *rs)
{
	struct list *l = rs->free.next;

	if (l == &rs->free)
		return request_alloc(rs);
	list_del(l);
	rs->nr_free--;
	return container_of(l, struct request, link);
}

static void give_buffer_locked(struct requests *rs, struct request *r)
{
	if (rs->nr_free == MAX_FREE) {
		request_free(rs, r);
		return;
	}
	rs->nr_free++;
	list_push(&rs->free, &r->link);
}

void requests_retire_locked(struct requests *rs, struct request *r)
{
	list_del(&r->link);
	rs->in_flight--;
	give_buffer_locked(rs, r);
}

/* --- the loop --- */

static void *server_main(void *arg);

bool requests_call_attendant_locked(struct requests *rs)
{
	if (rs->parked == rs->calls)
		return requests_start_server_locked(rs, MAX_THREADS);
	rs->calls++;
	rs->idle++;
	rs->unattended_ns = 0;
	waitq_wake(&rs->called);
	return true;
}

bool requests_start_server_locked(struct requests *rs, unsigned most)
{
	int err;

	if (rs->nr_threads >= most)
		return false;
	err = worker_start_detached("ckptfs-serve", STACK_BYTES, server_main, rs);
	if (err) {
		char text[MESSAGE_MAX];

		if (!rs->threads_told) {
			MESSAGE(text, THREADS, strerror(-err));
			log_warn("%s", text);
		}
		rs->threads_told = true;
		return false;
	}
	rs->nr_threads++;
	rs->idle++;
	rs->unattended_ns = 0;
	rs->fs->engine->metrics.threads = rs->nr_threads;
	return true;
}

static void note_init(struct requests *rs, const struct request *r)
{
	const struct fuse_init_in *in = (const void *)(r->mem + sizeof(struct fuse_in_header));

	rs->offered.flags = in->flags;
	/* Before protocol 7.36 the message ends behind `flags`. */
	if (r->len >= sizeof(struct fuse_in_header) + offsetof(struct fuse_init_in, flags2) + 4)
		rs->offered.flags2 = in->flags2;
}

static void note_header(struct request *r, size_t len)
{
	const struct fuse_in_header *in = (const void *)r->mem;

	r->unique = in->unique;
	r->opcode = in->opcode;
	r->nodeid = in->nodeid;
	r->pid = (int32_t)in->pid;
	r->uid = in->uid;
	r->gid = in->gid;
	r->len = len;
	r->started_ns = clock_mono_ns();
	r->interrupted_ns = 0;
	r->queued = r->stuck_told = r->abandoned = r->behind = false;
	r->late = 0;
	interruptible_init(&r->call);
	r->held = NULL;
	r->decided = false;
	r->reply_error = 0;
	atomic_store(&r->answered, false);
}

/* Reads one message. False: the end of the filesystem. */
static bool receive_request(struct requests *rs, struct request *r, bool look)
{
	ssize_t n =
		receive(&rs->receiver, r->mem, rs->receiver.write_max + PAGE, look, &r->landing);

	if (n > 0) {
		note_header(r, (size_t)n);
		return true;
	}
	if (n != -ENODEV && n != -ECONNABORTED)
		log_error("reading requests: %s", strerror((int)-n));
	return false;
}

enum next { NEXT_SERVE, NEXT_AGAIN, NEXT_END };

/* This thread serves @r from here on, and is woken if @r is given up. */
static void activate_locked(struct requests *rs, struct request *r)
{
	wait_serve(&r->call);
	list_append(&rs->active, &r->link);
}

/* Takes a queued request for a free thread; NULL: none. */
static struct request *take_queued_locked(struct requests *rs)
{
	struct list *l = rs->queued.next;
	struct request *r;

	if (l == &rs->queued)
		return NULL;
	r = container_of(l, struct request, link);
	list_del(l);
	activate_locked(rs, r);
	r->queued = false;
	atomic_fetch_sub(&rs->fs->engine->metrics.queued, 1);
	return r;
}

/* One attendant is enough: other free threads wait here for a call, or for a queued request. */
static void park_locked(struct requests *rs, bool *at_device)
{
	rs->parked++;
	while (!rs->exited && !rs->calls && list_empty(&rs->queued))
		wait_out(&rs->called, CLOCK_NEVER);
	rs->parked--;
	if (rs->exited || !rs->calls)
		return;
	rs->calls--;
	if (rs->idle > 1 && !list_empty(&rs->queued))
		rs->idle--; /* another is at the device already: serve what is queued */
	else
		*at_device = true; /* the calling thread has counted it */
}

/* Decides what a free thread does: end, serve a queued request, park, or go to the device. */
static enum next find_work_locked(struct requests *rs, struct request **out, bool *at_device)
{
	while (!*at_device) {
		/* A surplus thread serves what wakes others, and nothing that may wait. */
		bool surplus = rs->nr_threads > MAX_THREADS;

		if (surplus && rs->idle)
			return NEXT_END;
		*out = surplus ? NULL : take_queued_locked(rs);
		if (*out)
			return NEXT_SERVE;
		if (rs->exited)
			return NEXT_END;
		if (rs->idle) {
			park_locked(rs, at_device);
			continue;
		}
		rs->idle++;
		rs->unattended_ns = 0;
		*at_device = true;
	}
	return NEXT_AGAIN;
}

/*
 * The limit of threads for @r. What a trainer reports of its captures, or asks for, wakes calls
 * that wait for its bytes. Behind as many of these as there are threads, both would wait for each
 * other.
 */
static unsigned most_threads(const struct request *r)
{
	const struct fuse_ioctl_in *in = (const void *)(r->mem + sizeof(struct fuse_in_header));

	if (r->opcode != FUSE_IOCTL || r->len < sizeof(struct fuse_in_header) + sizeof(*in))
		return MAX_THREADS;
	switch (in->cmd) {
	case CKPTFS_IOC_REGISTER:
	case CKPTFS_IOC_UNREGISTER:
	case CKPTFS_IOC_NEXT:
	case CKPTFS_IOC_FAIL:
	case CKPTFS_IOC_BARRIER:
	case CKPTFS_IOC_STATS:
		return MAX_THREADS + SESSIONS_MAX;
	}
	return MAX_THREADS;
}

/*
 * True if the attendant, which has read @r, may serve it. Mostly it leaves without a successor,
 * which is cheaper than to wake one: it is back in microseconds, and if not, the watchdog sends
 * one.
 */
static bool leave_device_locked(struct requests *rs, struct request *r, bool more)
{
	rs->last_ns = r->started_ns;
	/*
	 * Only a parked thread is certain to come when it is needed. Without one, starts one now.
	 */
	if (rs->idle == 1 && rs->parked == rs->calls &&
	    !requests_start_server_locked(rs, most_threads(r)))
		return false;
	if (--rs->idle)
		return true;
	rs->unattended_ns = r->started_ns;
	rs->backlog = more ? rs->backlog + 1 : 0;
	if (rs->backlog >= BACKLOG) {
		rs->backlog = 0;
		requests_call_attendant_locked(rs);
	} else if (!rs->watching_closely) {
		waitq_wake_all(&rs->changed);
	}
	return true;
}

/*
 * Fetches this thread's next request: a queued one, else from the device. NEXT_AGAIN: this thread
 * has to stay at the device, and has queued what it read.
 */
static enum next next_request(struct requests *rs, struct request **out, bool *at_device)
{
	struct request *r;
	enum next next;
	bool more, stays = *at_device;
	{
		LOCK_SCOPE(&rs->lock);
		next = find_work_locked(rs, out, at_device);
		if (next != NEXT_AGAIN)
			return next;
		r = take_buffer_locked(rs);
	}
	if (!r) { /* no memory now */
		wait_ns(10 * NSEC_PER_MSEC);
		return NEXT_AGAIN;
	}
	if (!receive_request(rs, r, !stays)) {
		LOCK_SCOPE(&rs->lock);
		rs->exited = true;
		give_buffer_locked(rs, r);
		waitq_wake_all(&rs->changed);
		waitq_wake_all(&rs->called);
		return NEXT_END;
	}
	if (r->opcode == FUSE_INTERRUPT) {
		requests_serve_interrupt(rs, r);
		LOCK_SCOPE(&rs->lock);
		give_buffer_locked(rs, r);
		return NEXT_AGAIN;
	}
	more = receive_more(&rs->receiver);
	LOCK_SCOPE(&rs->lock);
	rs->in_flight++;
	/* A dying process closes many files: the next ones do not make it wait for each in turn. */
	if (r->opcode == FUSE_FLUSH && r->pid && r->pid == rs->dying &&
	    requests_is_exiting(r->pid) && request_give_up_locked(rs, r)) {
		requests_retire_locked(rs, r);
		return NEXT_AGAIN;
	}
	r->behind = request_is_page_write(r) && late_call_any(rs->fs->tree, r->nodeid);
	if (request_is_page_write(r) && rs->nr_early)
		request_answer_page_write_locked(rs, r);
	if (!leave_device_locked(rs, r, more)) {
		/*
		 * The copy may take long. Only this thread knows @r yet, and it still is at the
		 * device.
		 */
		lock_drop(&rs->lock);
		request_copy_landed_out(r);
		lock_take(&rs->lock);
		r->queued = true;
		list_append(&rs->queued, &r->link);
		atomic_fetch_add(&rs->fs->engine->metrics.queued, 1);
		return NEXT_AGAIN;
	}
	*at_device = false;
	activate_locked(rs, r);
	*out = r;
	return NEXT_SERVE;
}

static void serve(struct requests *rs, struct request *r)
{
	struct fuse_buf buf = {.mem = r->mem, .size = r->len};
	struct request_facts facts = {.nodeid = r->nodeid, .opcode = r->opcode, .pid = r->pid};
	bool init = r->opcode == FUSE_INIT, abandoned;
	struct handle *held;
	int reply_error;
	uint64_t took, late;

	if (init)
		note_init(rs, r);
	request_current = r;
	failures_begin();
	fuse_session_process_buf(rs->se, &buf);
	request_current = NULL;
	wait_serve(NULL);
	content_leave(&r->landing);
	took = clock_mono_ns() - r->started_ns;
	metrics_request(&rs->fs->engine->metrics, r->opcode, took, r->reply_error != 0);
	reply_error = r->reply_error;
	{
		LOCK_SCOPE(&rs->lock);
		abandoned = r->abandoned;
		late = r->late;
		held = r->held;
		if (held)
			rs->nr_early--;
		requests_retire_locked(rs, r);
	}
	if (late)
		late_call_ended(rs->fs->tree, late);
	if (held)
		finish_handle(rs->fs, held);
	if (init && rs->ready)
		rs->ready(rs->fs, reply_error);
	facts.waited = (double)took / NSEC_PER_SEC;
	if (abandoned)
		requests_tell_late(rs, &facts, reply_error);
}

static void *server_main(void *arg)
{
	struct requests *rs = arg;
	struct request *r;
	bool at_device = true; /* counted as idle when it was started */
	enum next next;

	while ((next = next_request(rs, &r, &at_device)) != NEXT_END)
		if (next == NEXT_SERVE)
			serve(rs, r);
	LOCK_SCOPE(&rs->lock);
	if (at_device)
		rs->idle--;
	rs->nr_threads--;
	waitq_wake_all(&rs->changed);
	return NULL;
}
