/* SPDX-License-Identifier: MIT */
/*
 * The pump: the one thread that fetches grants, hands the pieces to their devices, and tells the
 * daemon which are done and what failed. The session's lock is dropped for each ioctl, and for
 * calls of a device.
 *
 * It waits in the daemon only while no device has anything to do; else what is done would wait with
 * it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/session.h"

#define WAIT_MS 100 /* the longest that a close waits for a pump that waits for grants */

static void append(struct ckpt_pieces *ps, struct ckpt_piece *p)
{
	p->next = NULL;
	*ps->end = p;
	ps->end = &p->next;
}

static struct ckpt_piece *take_first(struct ckpt_pieces *ps)
{
	struct ckpt_piece *p = ps->first;

	ps->first = p->next;
	if (!ps->first)
		ps->end = &ps->first;
	return p;
}

static void drop_locked(struct ckpt_piece *p)
{
	if (p->capture)
		ckpt_capture_put_locked(p->capture);
	free(p);
}

/* --- what devices report --- */

bool ckpt_piece_begin(struct ckptfs_session *s, struct ckpt_piece *p)
{
	struct ckpt_capture *c = p->capture;
	bool wanted;

	pthread_mutex_lock(&s->lock);
	wanted = !c->failed;
	if (wanted) {
		c->running++;
		c->begun += p->len;
		if (c->begun == c->total && c->device->ops->ordered)
			pthread_cond_broadcast(&s->ended);
	} else {
		s->nr_out--;
		drop_locked(p);
		pthread_cond_signal(&s->work);
	}
	pthread_mutex_unlock(&s->lock);
	return wanted;
}

void ckpt_piece_end(struct ckptfs_session *s, struct ckpt_piece *p, int err, const char *text)
{
	pthread_mutex_lock(&s->lock);
	s->nr_out--;
	ckpt_capture_stopped_locked(s, p->capture, err, text);
	if (p->capture->failed)
		drop_locked(p);
	else
		append(&s->done, p);
	pthread_cond_broadcast(&s->ended);
	pthread_cond_signal(&s->work);
	pthread_mutex_unlock(&s->lock);
}

void ckpt_piece_end_changed(struct ckptfs_session *s, struct ckpt_piece *p)
{
	char text[CKPTFS_TEXT_MAX];

	snprintf(text, sizeof(text),
		 "%.300s was changed before it was captured: no barrier came before the change%s",
		 p->capture->tensor->name, s->rank_text);
	ckpt_piece_end(s, p, -ESTALE, text);
}

/* --- what the daemon says --- */

static int piece_create_locked(struct ckptfs_session *s, const struct ckptfs_grant *g,
			       struct ckpt_capture *c, struct ckpt_piece **piece)
{
	struct ckpt_piece *p;

	if (c && g->len &&
	    (g->arena_off > s->arena_bytes || g->len > s->arena_bytes - g->arena_off ||
	     g->src_off < c->src_off || g->src_off - c->src_off > c->len ||
	     g->len > c->len - (g->src_off - c->src_off) || g->len > c->total - c->granted))
		return -EPROTO;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->nr = g->nr;
	p->src_off = g->src_off;
	p->len = g->len;
	p->to = s->arena + g->arena_off;
	*piece = p;
	return 0;
}

/* Pieces to copy go to @out. A grant that was seen already, or is void, is ignored. */
static int take_grant_locked(struct ckptfs_session *s, const struct ckptfs_grant *g,
			     struct ckpt_pieces *out)
{
	struct ckpt_capture *c = ckpt_capture_find_locked(s, g->seq);
	struct ckpt_piece *p;
	int err;

	if (g->nr <= s->last_grant)
		return 0;
	s->last_grant = g->nr;
	if (g->len && (!c || c->failed))
		return 0;
	err = piece_create_locked(s, g, c, &p);
	if (err)
		return err;
	if (!g->len) {
		append(&s->done, p);
		if (c)
			ckpt_capture_given_up_locked(s, c, g->err ? -(int)g->err : -EIO);
		return 0;
	}
	p->capture = c;
	c->refs++;
	ckpt_capture_granted_locked(s, c, g->len);
	s->nr_out++;
	append(out, p);
	return 0;
}

/* All grants of a capture that failed are void: its pieces are not reported. */
static unsigned fill_done_locked(struct ckptfs_session *s, struct ckptfs_next *next,
				 struct ckpt_pieces *told)
{
	unsigned nr = 0;

	while (s->done.first && nr < CKPTFS_GRANTS_MAX) {
		struct ckpt_piece *p = take_first(&s->done);

		if (p->capture && p->capture->failed) {
			drop_locked(p);
			continue;
		}
		next->done[nr++] = (struct ckptfs_done){
			.nr = p->nr, .begin_ns = p->begin_ns, .end_ns = p->end_ns};
		append(told, p);
	}
	return nr;
}

static void submit(struct ckpt_pieces *out)
{
	while (out->first) {
		struct ckpt_piece *p = take_first(out);
		const struct ckpt_bound_device *d = p->capture->device;

		d->ops->submit(d->state, p);
	}
}

/* One NEXT, and what follows from its answer. The lock is held before and after. */
static void ask_locked(struct ckptfs_session *s, struct ckptfs_next *next)
{
	struct ckpt_pieces told = {.end = &told.first}, out = {.end = &out.first};
	int err;

	next->session = s->id;
	next->nr_done = fill_done_locked(s, next, &told);
	next->nr_grants = 0;
	next->wait_ms = next->nr_done || s->nr_out ? 0 : WAIT_MS;
	next->reserved = 0;
	s->asked = false;
	pthread_mutex_unlock(&s->lock);
	err = ckpt_session_ioctl(s->ctl, CKPTFS_IOC_NEXT, next);
	pthread_mutex_lock(&s->lock);
	while (told.first) {
		struct ckpt_piece *p = take_first(&told);

		if (!err && p->capture)
			ckpt_capture_landed_locked(s, p->capture, p->len);
		drop_locked(p);
	}
	if (!err && next->nr_grants > CKPTFS_GRANTS_MAX)
		err = -EPROTO;
	for (unsigned i = 0; !err && i < next->nr_grants; i++)
		err = take_grant_locked(s, &next->grants[i], &out);
	if (err)
		ckpt_captures_die_locked(s, err);
	pthread_mutex_unlock(&s->lock);
	submit(&out);
	pthread_mutex_lock(&s->lock);
}

/* --- what the daemon is told --- */

/* An error is ignored: if the daemon is gone, the next NEXT says so. */
static void tell_failure_locked(struct ckptfs_session *s, struct ckpt_capture *c)
{
	struct ckptfs_fail f = {.session = s->id, .seq = c->seq, .err = -c->err};

	snprintf(f.text, sizeof(f.text), "%s", c->text ? c->text : strerror(-c->err));
	pthread_mutex_unlock(&s->lock);
	ckpt_session_ioctl(s->ctl, CKPTFS_IOC_FAIL, &f);
	pthread_mutex_lock(&s->lock);
	ckpt_failure_told_locked(s, c);
}

static void report_locked(struct ckptfs_session *s)
{
	struct ckptfs_barrier b = s->reports[--s->nr_reports];

	pthread_mutex_unlock(&s->lock);
	ckpt_session_ioctl(s->ctl, CKPTFS_IOC_BARRIER, &b);
	pthread_mutex_lock(&s->lock);
}

/*
 * While devices are at work, the daemon is asked only when a piece is done, or something new was
 * written.
 */
static bool should_ask_locked(const struct ckptfs_session *s)
{
	return s->done.first || (s->nr_ungranted && (s->asked || !s->nr_out));
}

void *ckpt_pump_run(void *session)
{
	struct ckptfs_session *s = session;
	struct ckptfs_next next;

	memset(&next, 0, sizeof(next));
	pthread_mutex_lock(&s->lock);
	while (!s->dead) {
		struct ckpt_capture *failed = ckpt_failure_next_locked(s);

		if (failed)
			tell_failure_locked(s, failed);
		else if (s->nr_reports)
			report_locked(s);
		else if (should_ask_locked(s))
			ask_locked(s, &next);
		else if (s->stop)
			break;
		else
			pthread_cond_wait(&s->work, &s->lock);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}
