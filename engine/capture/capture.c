/* SPDX-License-Identifier: MIT */
#include "engine/capture/capture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "engine/base/clock.h"
#include "engine/base/wait.h"
#include "engine/capture/session.h"

/* --- sessions --- */

int captures_create(struct captures **out, const struct capture_options *o)
{
	struct captures *cs = calloc(1, sizeof(*cs));

	*out = cs;
	if (!cs)
		return -ENOMEM;
	cs->options = *o;
	lock_init(&cs->lock, LOCK_CAPTURES);
	waitq_init(&cs->gone, &cs->lock);
	list_init(&cs->sessions);
	trace_init(&cs->trace);
	return 0;
}

void captures_mounted(struct captures *cs, const char *control_dir, dev_t dev)
{
	cs->control_dir = strdup(control_dir);
	cs->dev = dev;
}

void captures_stop(struct captures *cs)
{
	struct list *l;

	if (!cs)
		return;
	LOCK_SCOPE(&cs->lock);
	cs->ending = true;
	list_for_each (l, &cs->sessions) {
		struct session *s = container_of(l, struct session, link);
		LOCK_SCOPE(&s->lock);

		session_stop_locked(s);
	}
	while (cs->nr)
		wait_out(&cs->gone, CLOCK_NEVER);
}

void captures_destroy(struct captures *cs)
{
	if (!cs)
		return;
	free(cs->control_dir);
	trace_finish(&cs->trace);
	lock_finish(&cs->lock);
	free(cs);
}

static bool look_for_socket(struct captures *cs, const char *name, bool make)
{
	bool found = false;
	struct list *l;
	LOCK_SCOPE(&cs->lock);

	list_for_each (l, &cs->sessions) {
		struct session *s = container_of(l, struct session, link);
		LOCK_SCOPE(&s->lock);

		if (strcmp(s->socket, name) != 0)
			continue;
		if (make && s->state == SESSION_BEGINS)
			s->offered = true;
		found = s->offered;
	}
	return found;
}

bool captures_make_socket(struct captures *cs, const char *name)
{
	return look_for_socket(cs, name, true);
}

bool captures_has_socket(struct captures *cs, const char *name)
{
	return look_for_socket(cs, name, false);
}

/* The number of slots: what was asked for, but at most the process's share. */
static unsigned slots_for(const struct captures *cs, const struct ckptfs_hello *h)
{
	const struct cache *c = cs->options.cache;
	unsigned share = loan_share(cs->options.cache, (unsigned)h->local_world);
	uint64_t asked = (h->arena_bytes + c->chunk_size - 1) / c->chunk_size;

	if (!h->arena_bytes || asked >= share)
		return share;
	return asked < 2 ? 2 : (unsigned)asked;
}

/* Called by the cache, with its lock held. */
static void wake_for_room(void *session)
{
	session_wake(session);
}

static struct session *make(struct captures *cs, uid_t uid, const struct ckptfs_hello *h)
{
	struct session *s = calloc(1, sizeof(*s));
	uint64_t name[2];

	if (!s)
		return NULL;
	s->wake = s->listening = -1;
	s->all = cs;
	s->uid = uid;
	s->rank = h->rank;
	s->world = h->world;
	s->refs = s->turn = 1;
	list_init(&s->link);
	list_init(&s->waiting);
	list_init(&s->granted);
	list_init(&s->slots);
	list_init(&s->done);
	list_init(&s->notices);
	lock_init(&s->lock, LOCK_SESSION);
	waitq_init(&s->changed, &s->lock);
	if (table_init(&s->tensors) || table_init(&s->granted_pieces) ||
	    getrandom(name, sizeof(name), 0) != sizeof(name) ||
	    getrandom(&s->id, sizeof(s->id), 0) != sizeof(s->id)) {
		session_free(s);
		return NULL;
	}
	snprintf(s->socket, sizeof(s->socket), "arena-%016llx%08x", (unsigned long long)name[0],
		 (unsigned)name[1]);
	return s;
}

/* Waits until the session's thread has bound the socket. 0, -EINTR, or why that failed. */
static int await_offer(struct session *s)
{
	LOCK_SCOPE(&s->lock);
	while (s->state == SESSION_BEGINS) {
		if (wait_on(&s->changed, CLOCK_NEVER))
			return -EINTR;
	}
	return s->state == SESSION_ENDED ? s->err : 0;
}

int captures_hello(struct captures *cs, uid_t uid, uint64_t handle, struct ckptfs_hello *h)
{
	struct session *s;
	int err;

	if (h->abi != CKPTFS_ABI_VERSION) {
		h->abi = CKPTFS_ABI_VERSION;
		return -EPROTO;
	}
	if (h->flags || h->reserved || h->rank < -1 || h->world < 0 || h->local_rank < -1 ||
	    h->local_world < 0)
		return -EINVAL;
	s = make(cs, uid, h);
	if (!s)
		return -ENOMEM;
	s->handle = handle;
	err = loan_create(&s->loan, cs->options.cache, uid, slots_for(cs, h), wake_for_room, s);
	if (!err) {
		h->nr_slots = s->loan->nr_slots;
		err = session_start(s);
	}
	if (!err)
		err = await_offer(s);
	if (!err) {
		h->session = s->id;
		h->slot_bytes = (uint32_t)cs->options.cache->chunk_size;
		h->check = cs->options.check;
		memcpy(h->socket, s->socket, sizeof(h->socket));
	}
	session_put(s);
	return err;
}

int captures_bye(struct captures *cs, uid_t uid, const struct ckptfs_bye *b)
{
	SESSION_SCOPE(s, cs, uid, b->session);
	s->bye = true;
	session_stop_locked(s);
	while (s->loan) {
		if (wait_on(&s->changed, CLOCK_NEVER))
			return -EINTR;
	}
	return 0;
}

void captures_closed(struct captures *cs, uint64_t handle)
{
	struct list *l;
	LOCK_SCOPE(&cs->lock);

	list_for_each (l, &cs->sessions) {
		struct session *s = container_of(l, struct session, link);
		LOCK_SCOPE(&s->lock);

		if (s->handle != handle)
			continue;
		s->closed = true;
		session_stop_locked(s);
	}
}

static void trace_barrier(struct session *s, const struct ckptfs_barrier *b)
{
	struct traced t = {.uid = s->uid,
			   .row = s->row,
			   .rank = s->rank,
			   .pid = s->pid,
			   .end_ns = clock_mono_ns(),
			   .failed = b->timed_out};

	t.begin_ns = b->blocked_ns < t.end_ns ? t.end_ns - b->blocked_ns : t.end_ns;
	trace_add(&s->all->trace, &t);
}

int captures_barrier(struct captures *cs, uid_t uid, const struct ckptfs_barrier *b)
{
	SESSION_SCOPE(s, cs, uid, b->session);
	s->counts.barriers++;
	s->counts.barrier_ns += b->blocked_ns;
	s->counts.timed_out += b->timed_out != 0;
	trace_barrier(s, b);
	return 0;
}

int captures_stats(struct captures *cs, uid_t uid, struct ckptfs_stats *st)
{
	SESSION_SCOPE(s, cs, uid, st->session);
	*st = s->counts.stats;
	st->session = s->id;
	st->arena_bytes = (uint64_t)s->loan->nr_slots * s->loan->cache->chunk_size;
	st->free_bytes = (uint64_t)loan_room(s->loan) * s->loan->cache->chunk_size;
	return 0;
}

void captures_trace(struct captures *cs, uid_t viewer, bool all, json_t *events)
{
	trace_to_json(&cs->trace, viewer, all, events);
}

json_t *captures_counts(struct captures *cs)
{
	struct session_counts sum;
	json_int_t sessions = 0;
	struct list *l;
	LOCK_SCOPE(&cs->lock);

	sum = cs->past;
	list_for_each (l, &cs->sessions) {
		struct session *s = container_of(l, struct session, link);
		LOCK_SCOPE(&s->lock);

		session_add_counts(s, &sum);
		sessions += s->state == SESSION_LIVES;
	}
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "sessions", sessions,
			 "pending_bytes", (json_int_t)sum.stats.pending_bytes, "captures",
			 (json_int_t)sum.stats.captures, "captured_bytes",
			 (json_int_t)sum.stats.captured_bytes, "copied_bytes",
			 (json_int_t)sum.copied, "failed", (json_int_t)sum.stats.failed, "barriers",
			 (json_int_t)sum.barriers, "timed_out", (json_int_t)sum.timed_out,
			 "blocked_s", (double)sum.barrier_ns / NSEC_PER_SEC);
}

json_t *captures_to_json(struct captures *cs, uid_t viewer, bool all)
{
	json_t *list = json_array();
	struct list *l;
	LOCK_SCOPE(&cs->lock);

	list_for_each (l, &cs->sessions) {
		struct session *s = container_of(l, struct session, link);
		LOCK_SCOPE(&s->lock);

		if (s->state != SESSION_LIVES || (!all && s->uid != viewer))
			continue;
		json_array_append_new(
			list,
			json_pack("{s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f}",
				  "pid", (int)s->pid, "uid", (int)s->uid, "rank", s->rank, "world",
				  s->world, "tensors", (json_int_t)s->tensors.nr, "captures",
				  (json_int_t)s->counts.stats.captures, "captured_bytes",
				  (json_int_t)s->counts.stats.captured_bytes, "failed",
				  (json_int_t)s->counts.stats.failed, "pending",
				  (json_int_t)s->counts.stats.pending, "pending_bytes",
				  (json_int_t)s->counts.stats.pending_bytes, "barriers",
				  (json_int_t)s->counts.barriers, "blocked_s",
				  (double)s->counts.barrier_ns / NSEC_PER_SEC));
	}
	return list;
}
