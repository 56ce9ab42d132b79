/* SPDX-License-Identifier: MIT */
/*
 * The thread of a GPU. It gives pieces to the GPU in the order in which they come, each once its
 * tensor is produced, and ends them in that order when they have landed.
 *
 * Behind each copy the probes read the tensor again, on the same stream: so they come before
 * whatever a barrier lets come then. A piece that failed may have copies under way. It does not end
 * before these are over, since its place in the arena goes to another piece then.
 */
#include <stdio.h>
#include <string.h>

#include "client/cuda.h"

/* --- for other threads --- */

void cuda_copy_submit(struct cuda_gpu *g, struct ckpt_piece *p)
{
	p->next = NULL;
	pthread_mutex_lock(&g->lock);
	*g->end = p;
	g->end = &p->next;
	pthread_cond_signal(&g->more);
	pthread_mutex_unlock(&g->lock);
}

bool cuda_copy_enqueued(struct cuda_gpu *g, uint64_t *target)
{
	bool some;

	pthread_mutex_lock(&g->lock);
	*target = g->starting;
	while (g->started < *target)
		pthread_cond_wait(&g->moved, &g->lock);
	some = g->past < *target;
	pthread_mutex_unlock(&g->lock);
	return some;
}

void cuda_copy_ended(struct cuda_gpu *g, uint64_t target)
{
	pthread_mutex_lock(&g->lock);
	while (g->past < target)
		pthread_cond_wait(&g->moved, &g->lock);
	pthread_mutex_unlock(&g->lock);
}

/* --- one piece --- */

static const struct cuda_bound *bound_of(const struct ckpt_piece *p)
{
	return p->capture->bound;
}

static bool look_again(struct cuda_gpu *g, struct cuda_flight *fl, struct cuda_fault *f)
{
	const struct ckpt_capture *c = fl->piece->capture;
	uint64_t from, to;
	bool ok = true;

	for (uint32_t i = 0; i < c->probes.nr && ok; i++) {
		uint64_t off = c->probes.few[i].off;

		if (ckpt_probe_part(c, fl->piece, off, &from, &to))
			ok = cuda_source_copy(&c->source, off, ckpt_probe_len(c, off),
					      fl->after + i * CKPT_PROBE_BYTES, CUDA_FROM_DEVICE,
					      g->stream, f);
	}
	if (!c->probes.all)
		return ok;
	ckpt_probes_all_part(c, fl->piece, &from, &to);
	return cuda_source_copy(&c->source, from, to - from, fl->after, CUDA_FROM_DEVICE, g->stream,
				f);
}

static bool holds(const struct cuda_flight *fl)
{
	const struct ckpt_piece *p = fl->piece;
	const struct ckpt_capture *c = p->capture;
	uint64_t from, to;

	for (uint32_t i = 0; i < c->probes.nr; i++) {
		uint64_t off = c->probes.few[i].off;
		const char *before = bound_of(p)->before + i * CKPT_PROBE_BYTES;
		const char *after = fl->after + i * CKPT_PROBE_BYTES;

		if (!ckpt_probe_part(c, p, off, &from, &to))
			continue;
		if (memcmp(before, after, ckpt_probe_len(c, off)) != 0 ||
		    memcmp(after + (from - off), p->to + (from - p->src_off), to - from) != 0)
			return false;
	}
	return !c->probes.all || ckpt_probes_all_hold(c, p, fl->after);
}

/*
 * Waits until nothing that was given to the GPU is under way. In a context that failed nothing is.
 */
static void drain(struct cuda_gpu *g)
{
	if (cuda_driver()->StreamSynchronize(g->stream))
		cuda_driver()->StreamSynchronize(g->stream);
}

static void end_with(struct cuda_gpu *g, struct ckpt_piece *p, const struct cuda_fault *f)
{
	struct ckptfs_session *s = g->cuda->session;
	char text[CKPTFS_TEXT_MAX];

	cuda_fault_text(s, f, p->capture->tensor->name, g->ordinal, text);
	ckpt_piece_end(s, p, cuda_fault_errno(f), text);
}

static struct cuda_flight *flight_at(struct cuda_gpu *g, unsigned i)
{
	return &g->flights[(g->first_flight + i) % g->max_flights];
}

/* Pieces are given to the GPU, and end, in the order of their numbers. */
static void tell_moved(struct cuda_gpu *g)
{
	pthread_mutex_lock(&g->lock);
	g->started = g->starting;
	g->past = g->nr_flights ? flight_at(g, 0)->seq - 1 : g->starting;
	pthread_cond_broadcast(&g->moved);
	pthread_mutex_unlock(&g->lock);
}

static uint64_t tell_starting(struct cuda_gpu *g)
{
	uint64_t seq;

	pthread_mutex_lock(&g->lock);
	seq = ++g->starting;
	pthread_mutex_unlock(&g->lock);
	return seq;
}

static bool enqueue(struct cuda_gpu *g, struct cuda_flight *fl, struct cuda_fault *f)
{
	struct ckpt_piece *p = fl->piece;

	p->begin_ns = ckpt_now_ns();
	if (cuda_source_copy(&p->capture->source, p->src_off, p->len, p->to, CUDA_FROM_DEVICE,
			     g->stream, f) &&
	    look_again(g, fl, f) && CUDA_TRY(f, EventRecord, fl->landed, g->stream))
		return true;
	drain(g);
	return false;
}

/* @f: an error of what came before; CUDA_SUCCESS: @p is to be copied. */
static void start(struct cuda_gpu *g, struct ckpt_piece *p, struct cuda_fault *f)
{
	struct cuda_flight *fl = flight_at(g, g->nr_flights);

	fl->piece = p;
	fl->seq = tell_starting(g);
	if (ckpt_piece_begin(g->cuda->session, p)) {
		if (!f->code && enqueue(g, fl, f)) {
			g->nr_flights++;
			g->flight_bytes += p->len;
		} else {
			end_with(g, p, f);
		}
	}
	tell_moved(g);
}

static void land(struct cuda_gpu *g)
{
	struct cuda_flight *fl = flight_at(g, 0);
	struct ckpt_piece *p = fl->piece;
	struct cuda_fault f;
	bool ok = CUDA_TRY(&f, EventSynchronize, fl->landed);

	if (!ok)
		drain(g);
	p->end_ns = ckpt_now_ns();
	g->flight_bytes -= p->len;
	if (!ok)
		end_with(g, p, &f);
	else if (holds(fl))
		ckpt_piece_end(g->cuda->session, p, 0, NULL);
	else
		ckpt_piece_end_changed(g->cuda->session, p);
	g->first_flight = (g->first_flight + 1) % g->max_flights;
	g->nr_flights--;
	tell_moved(g);
}

/* --- all of them --- */

static struct ckpt_piece *wait_for_work(struct cuda_gpu *g, bool *stop)
{
	struct ckpt_piece *p;

	pthread_mutex_lock(&g->lock);
	while (!g->first && !g->nr_flights && !g->stop)
		pthread_cond_wait(&g->more, &g->lock);
	p = g->first;
	*stop = g->stop;
	pthread_mutex_unlock(&g->lock);
	return p;
}

static struct ckpt_piece *take_first(struct cuda_gpu *g)
{
	struct ckpt_piece *p;

	pthread_mutex_lock(&g->lock);
	p = g->first;
	g->first = p->next;
	if (!g->first)
		g->end = &g->first;
	pthread_mutex_unlock(&g->lock);
	return p;
}

static bool has_room(const struct cuda_gpu *g, const struct ckpt_piece *p)
{
	return !g->nr_flights ||
	       (g->nr_flights < g->max_flights && g->flight_bytes + p->len <= CUDA_FLIGHT_MAX);
}

/*
 * True if the tensor is produced, and so is what was bound last; or on an error, @f. Else the
 * probes of the latter, many small copies on a stream of the trainer's, would each wait for a large
 * copy of ours. @wait: waits until it is so.
 */
static bool is_produced(struct cuda_gpu *g, const struct ckpt_piece *p, bool wait,
			struct cuda_fault *f)
{
	CUevent events[] = {bound_of(p)->produced, atomic_load(&g->newest)};

	for (unsigned i = 0; i < 2; i++) {
		if (!events[i])
			continue;
		if (wait ? !CUDA_TRY(f, EventSynchronize, events[i])
			 : !CUDA_TRY(f, EventQuery, events[i]))
			return f->code != CUDA_ERROR_NOT_READY;
	}
	return true;
}

/* Enters the context once; tries again if that failed. */
static bool is_entered(struct cuda_gpu *g, struct cuda_fault *f)
{
	int mode;

	*f = (struct cuda_fault){0};
	if (!g->entered)
		g->entered = cuda_enter(g, &mode, f);
	return g->entered;
}

static void *copy_run(void *gpu)
{
	struct cuda_gpu *g = gpu;
	struct ckpt_piece *p;
	struct cuda_fault f;
	bool stop;

	while ((p = wait_for_work(g, &stop)) || g->nr_flights) {
		bool fits = p && has_room(g, p);

		/* Once it is to stop no piece is wanted any more, so no tensor is waited for. */
		if (fits && (!is_entered(g, &f) || stop || is_produced(g, p, false, &f)))
			start(g, take_first(g), &f);
		else if (g->nr_flights)
			land(g);
		else if (is_produced(g, p, true, &f))
			start(g, take_first(g), &f);
	}
	if (g->entered)
		cuda_leave(CU_STREAM_CAPTURE_MODE_GLOBAL);
	return NULL;
}

int cuda_copy_start(struct cuda_gpu *g)
{
	char name[16];
	int err;

	snprintf(name, sizeof(name), "ckptfs-gpu%d", g->ordinal);
	err = ckpt_thread_start(&g->thread, name, copy_run, g);
	g->threaded = !err;
	return err;
}

void cuda_copy_stop(struct cuda_gpu *g)
{
	pthread_mutex_lock(&g->lock);
	g->stop = true;
	pthread_cond_broadcast(&g->more);
	pthread_mutex_unlock(&g->lock);
	if (g->threaded)
		pthread_join(g->thread, NULL);
	g->threaded = false;
}
