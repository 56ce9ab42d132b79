/* SPDX-License-Identifier: MIT */
/*
 * Memory of the host: a few threads copy, at low priority. A barrier waits for them, and they then
 * get the processors that the trainer does not use. The lock guards the queue of pieces, and is not
 * held during a copy.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "client/io.h"
#include "client/session.h"

#define HOST_NICE    5
#define BOUNCE_BYTES (256u << 10)

struct host {
	struct ckptfs_session *session;
	pthread_t *threads;
	unsigned nr_threads;
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct ckpt_piece *first, **end;
	bool stop;
};

static void copy_piece(struct ckptfs_session *s, struct ckpt_piece *p)
{
	const struct ckpt_capture *c = p->capture;

	if (!ckpt_piece_begin(s, p))
		return;
	p->begin_ns = ckpt_now_ns();
	ckpt_source_copy(&c->source, p->src_off, p->len, p->to);
	p->end_ns = ckpt_now_ns();
	if (ckpt_probes_hold(c, p))
		ckpt_piece_end(s, p, 0, NULL);
	else
		ckpt_piece_end_changed(s, p);
}

static void *host_run(void *state)
{
	struct host *h = state;
	struct sched_param batch = {0};

	/* Both are for this thread alone; nothing is lost if they are refused. */
	pthread_setschedparam(pthread_self(), SCHED_BATCH, &batch);
	setpriority(PRIO_PROCESS, 0, HOST_NICE);
	pthread_mutex_lock(&h->lock);
	for (;;) {
		struct ckpt_piece *p = h->first;

		if (p) {
			h->first = p->next;
			if (!h->first)
				h->end = &h->first;
			pthread_mutex_unlock(&h->lock);
			copy_piece(h->session, p);
			pthread_mutex_lock(&h->lock);
		} else if (h->stop) {
			break;
		} else {
			pthread_cond_wait(&h->more, &h->lock);
		}
	}
	pthread_mutex_unlock(&h->lock);
	return NULL;
}

static void host_close(void *state)
{
	struct host *h = state;

	pthread_mutex_lock(&h->lock);
	h->stop = true;
	pthread_cond_broadcast(&h->more);
	pthread_mutex_unlock(&h->lock);
	for (unsigned i = 0; i < h->nr_threads; i++)
		pthread_join(h->threads[i], NULL);
	pthread_cond_destroy(&h->more);
	pthread_mutex_destroy(&h->lock);
	free(h->threads);
	free(h);
}

static int host_open(struct ckptfs_session *s, unsigned threads, void **state)
{
	struct host *h = calloc(1, sizeof(*h));
	int err = 0;

	if (!h)
		return -ENOMEM;
	h->session = s;
	h->end = &h->first;
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->more, NULL);
	h->threads = calloc(threads, sizeof(*h->threads));
	if (!h->threads)
		err = -ENOMEM;
	for (; !err && h->nr_threads < threads; h->nr_threads++) {
		err = ckpt_thread_start(&h->threads[h->nr_threads], "ckptfs-copy", host_run, h);
		if (err)
			break;
	}
	if (err) {
		host_close(h);
		return err;
	}
	*state = h;
	return 0;
}

static int host_bind(void *state, struct ckpt_capture *c)
{
	struct host *h = state;

	return ckpt_probes_take(h->session, c);
}

static void host_unbind(void *state, struct ckpt_capture *c)
{
	(void)state, (void)c;
}

static void host_submit(void *state, struct ckpt_piece *p)
{
	struct host *h = state;

	p->next = NULL;
	pthread_mutex_lock(&h->lock);
	*h->end = p;
	h->end = &p->next;
	pthread_cond_signal(&h->more);
	pthread_mutex_unlock(&h->lock);
}

static int host_fence(void *state, const uint64_t *streams, size_t n)
{
	(void)state, (void)streams, (void)n;
	return 0;
}

static int host_write(void *state, struct ckpt_capture *c, int fd)
{
	char *bounce;
	int err = 0;

	(void)state;
	if (!c->source.rows)
		return ckpt_write_all(fd, c->source.addr + c->src_off, c->len, c->file_off);
	bounce = malloc(BOUNCE_BYTES);
	if (!bounce)
		return -ENOMEM;
	for (uint64_t at = 0, part; at < c->len && !err; at += part) {
		part = c->len - at < BOUNCE_BYTES ? c->len - at : BOUNCE_BYTES;
		ckpt_source_copy(&c->source, c->src_off + at, part, bounce);
		err = ckpt_write_all(fd, bounce, part, c->file_off + at);
	}
	free(bounce);
	return err;
}

static int host_put(void *state, const struct ckpt_source *to, uint64_t off, size_t len,
		    const void *from)
{
	(void)state;
	ckpt_source_fill(to, off, len, from);
	return 0;
}

const struct ckpt_device ckpt_device_host = {
	.name = "host",
	.ordered = false,
	.open = host_open,
	.close = host_close,
	.bind = host_bind,
	.unbind = host_unbind,
	.submit = host_submit,
	.fence = host_fence,
	.write = host_write,
	.put = host_put,
};
