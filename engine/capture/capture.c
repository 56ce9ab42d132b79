/* SPDX-License-Identifier: MIT */
#include "engine/capture/capture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#include "engine/base/cleanup.h"
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

/* That of @uid with this id, which lives; referenced. */
static struct session *find(struct captures *cs, uid_t uid, uint64_t id)
{
	struct list *l;
	LOCK_SCOPE(&cs->lock);

	list_for_each (l, &cs->sessions) {
		struct session *s = container_of(l, struct session, link);

		if (s->id == id && s->uid == uid) {
			s->refs++;
			return s;
		}
	}
	return NULL;
}

static void put(struct session *s)
{
	struct captures *cs = s->all;
	bool last;
	{
		LOCK_SCOPE(&cs->lock);
		last = --s->refs == 0;
	}
	if (last)
		session_free(s);
}

static void put_at_end(struct session **s)
{
	if (*s)
		put(*s);
}

static int check_alive_locked(const struct session *s)
{
	return s->state == SESSION_LIVES ? 0 : -ENOENT;
}

/* Finds the session of a call, locks it, and lets go of both at the end of the block. */
#define SESSION_SCOPE(s, cs, uid, id) \
	__cleanup(put_at_end) struct session *s = find(cs, uid, id); \
	if (!s) \
		return -ENOENT; \
	LOCK_SCOPE(&s->lock); \
	if (check_alive_locked(s)) \
	return -ENOENT

/* What a call does from here on is told to who made it; false: it was told -EINTR. */
static bool decide(const struct captures *cs)
{
	return !cs->options.decide || cs->options.decide();
}

/* How many slots: what was asked for, but no more than this rank's share of half the cache. */
static unsigned share_of(const struct captures *cs, const struct ckptfs_hello *h)
{
	const struct cache *c = cs->options.cache;
	uint64_t ranks = h->local_world > 1 ? (uint64_t)h->local_world : 1;
	uint64_t most = c->nr_chunks / 2 / ranks;
	uint64_t asked = (h->arena_bytes + c->chunk_size - 1) / c->chunk_size;

	if (h->arena_bytes && asked < most)
		most = asked;
	return most < 2 ? 2 : most > UINT32_MAX / 2 ? UINT32_MAX / 2 : (unsigned)most;
}

static struct session *make(struct captures *cs, uid_t uid, const struct ckptfs_hello *h)
{
	struct session *s = calloc(1, sizeof(*s));
	uint64_t name[2];

	if (!s)
		return NULL;
	s->arena.fd = s->wake = s->listening = -1;
	s->all = cs;
	s->uid = uid;
	s->rank = h->rank;
	s->world = h->world;
	s->refs = s->turn = 1;
	list_init(&s->link);
	list_init(&s->waiting);
	list_init(&s->granted);
	list_init(&s->done);
	list_init(&s->notices);
	lock_init(&s->lock, LOCK_SESSION);
	waitq_init(&s->changed, &s->lock);
	if (table_init(&s->tensors) || getrandom(name, sizeof(name), 0) != sizeof(name) ||
	    getrandom(&s->id, sizeof(s->id), 0) != sizeof(s->id)) {
		session_free(s);
		return NULL;
	}
	snprintf(s->socket, sizeof(s->socket), "arena-%016llx%08x", (unsigned long long)name[0],
		 (unsigned)name[1]);
	return s;
}

/* Until its thread has bound the socket. 0, -EINTR, or why that failed. */
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
	creds_restore(); /* its thread, which begins as this one is, makes a socket where only the daemon may */
	err = arena_create(&s->arena, cs->options.cache, uid, share_of(cs, h));
	if (!err) {
		s->slots = calloc(s->arena.nr_slots, sizeof(*s->slots));
		err = s->slots ? session_start(s) : -ENOMEM;
	}
	if (!err)
		err = await_offer(s);
	if (!err) {
		h->session = s->id;
		h->slot_bytes = (uint32_t)cs->options.cache->chunk_size;
		h->nr_slots = s->arena.nr_slots;
		h->check = cs->options.check;
		memcpy(h->socket, s->socket, sizeof(h->socket));
	}
	put(s);
	return err;
}

int captures_bye(struct captures *cs, uid_t uid, const struct ckptfs_bye *b)
{
	SESSION_SCOPE(s, cs, uid, b->session);
	s->bye = true;
	session_stop_locked(s);
	while (s->state == SESSION_LIVES) {
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

/* --- tensors --- */

/* Programs take small numbers, or addresses. */
static uint64_t hash_id(uint64_t id)
{
	return id * 0x9E3779B97F4A7C15ull;
}

static struct tensor *tensor_find_locked(struct session *s, uint64_t id)
{
	struct list *l;

	table_for_each (l, &s->tensors, hash_id(id)) {
		struct tensor *t = container_of(l, struct tensor, node.link);

		if (t->layout.id == id)
			return t;
	}
	return NULL;
}

/* Of printable characters; it ends within @size. */
static bool is_word(const char *text, size_t size)
{
	size_t i;

	for (i = 0; i < size && text[i] > ' ' && text[i] < 0x7f; i++)
		;
	return i < size && !text[i];
}

/* A shard lies in its tensor. */
static bool is_shard(const struct ckptfs_tensor *t)
{
	unsigned i;

	for (i = 0; i < t->ndim; i++)
		if (t->global_shape[i] > INT64_MAX || t->shard_shape[i] > t->global_shape[i] ||
		    t->shard_offset[i] > t->global_shape[i] - t->shard_shape[i])
			return false;
	return true;
}

static bool is_valid(const struct ckptfs_tensor *t)
{
	return t->id && t->ndim <= 8 && is_shard(t) && is_word(t->dtype, sizeof(t->dtype)) &&
	       t->kind <= CKPTFS_OBJECT && t->memory <= CKPTFS_CUDA_MANAGED && !t->flags &&
	       !t->reserved && t->name_len && t->name_len <= CKPTFS_NAME_MAX &&
	       t->bytes <= INT64_MAX;
}

static bool same_tensor(const struct tensor *a, const struct tensor *b)
{
	return !memcmp(&a->layout, &b->layout, sizeof(a->layout)) && !strcmp(a->name, b->name);
}

/* *@out: the new one of this id, or NULL: it is known. */
static int register_one_locked(struct session *s, const struct ckptfs_register *r, unsigned i,
			       size_t at, struct tensor **out)
{
	struct ckptfs_tensor layout;
	struct tensor *t, *old;
	int err;

	memcpy(&layout, r->data + i * sizeof(layout), sizeof(layout));
	if (!is_valid(&layout) || layout.name_len > r->bytes - at ||
	    memchr(r->data + at, 0, layout.name_len))
		return -EINVAL;
	t = tensor_make(&layout, (const char *)r->data + at);
	if (!t)
		return -ENOMEM;
	old = tensor_find_locked(s, layout.id);
	if (!old && s->tensors.nr < CKPTFS_TENSORS_MAX) {
		table_add(&s->tensors, &t->node, hash_id(layout.id));
		*out = t;
		return 0;
	}
	err = !old ? -ENOSPC : same_tensor(old, t) ? 0 : -EEXIST;
	free(t);
	return err;
}

int captures_register(struct captures *cs, uid_t uid, const struct ckptfs_register *r)
{
	struct tensor *made[CKPTFS_TENSORS_BYTES / sizeof(struct ckptfs_tensor)] = {NULL};
	size_t at = r->nr * sizeof(struct ckptfs_tensor);
	unsigned i;
	int err = 0;
	SESSION_SCOPE(s, cs, uid, r->session);

	if (r->nr > ARRAY_SIZE(made) || r->bytes > sizeof(r->data) || r->bytes < at)
		return -EINVAL;
	for (i = 0; i < r->nr && !err; i++) {
		err = register_one_locked(s, r, i, at, &made[i]);
		if (!err)
			at += ((const struct ckptfs_tensor *)(const void *)r->data)[i].name_len;
	}
	if (!err && at != r->bytes)
		err = -EINVAL;
	for (i = 0; err && i < r->nr; i++) {
		if (!made[i])
			continue;
		table_del(&s->tensors, &made[i]->node);
		tensor_put(made[i]);
	}
	return err;
}

int captures_unregister(struct captures *cs, uid_t uid, const struct ckptfs_unregister *u)
{
	unsigned i;
	SESSION_SCOPE(s, cs, uid, u->session);

	if (u->nr > CKPTFS_IDS_MAX || u->reserved)
		return -EINVAL;
	for (i = 0; i < u->nr; i++)
		if (!tensor_find_locked(s, u->ids[i]))
			return -EBADF;
	for (i = 0; i < u->nr; i++) {
		struct tensor *t = tensor_find_locked(s, u->ids[i]);

		if (!t)
			continue; /* named twice */
		table_del(&s->tensors, &t->node);
		tensor_put(t);
	}
	return 0;
}

/* --- writing --- */

static int compare_offsets(const void *a, const void *b)
{
	const struct ckptfs_capture *x = a, *y = b;

	return x->file_off < y->file_off ? -1 : x->file_off > y->file_off;
}

/*
 * Those of a batch in the order of the file, malloced: so two batches cannot wait for each other. Of bytes that are to be
 * there once there cannot be two, one of which would wait for the other: -EINVAL.
 */
static int sort(const struct ckptfs_write *w, struct ckptfs_capture **out)
{
	struct ckptfs_capture *c = malloc(w->nr * sizeof(*c));
	unsigned i;

	*out = c;
	if (!c)
		return -ENOMEM;
	memcpy(c, w->captures, w->nr * sizeof(*c));
	qsort(c, w->nr, sizeof(*c), compare_offsets);
	for (i = 1; i < w->nr; i++)
		if (c[i - 1].file_off + c[i - 1].len > c[i].file_off)
			return -EINVAL;
	return 0;
}

static int check_write_locked(struct session *s, const struct ckptfs_write *w)
{
	unsigned i;

	if (!w->nr || w->nr > CKPTFS_WRITES_MAX || w->reserved)
		return -EINVAL;
	/* What was reported, but is still in the arena, is over for the trainer. */
	if (s->counts.stats.pending + w->nr > CKPTFS_CAPTURES_MAX + s->arena.nr_slots)
		return -EAGAIN;
	for (i = 0; i < w->nr; i++) {
		const struct ckptfs_capture *c = &w->captures[i];
		const struct tensor *t = tensor_find_locked(s, c->id);

		if (!t)
			return -EBADF;
		if (c->seq != s->last_seq + 1 + i || c->len > t->layout.bytes ||
		    c->src_off > t->layout.bytes - c->len || c->file_off > INT64_MAX ||
		    c->len > (uint64_t)INT64_MAX - c->file_off)
			return -EINVAL;
	}
	return 0;
}

/* What is to be captured is part of @g from here on. On failure nothing is. */
static int begin(struct session *s, struct generation *g, uint64_t key,
		 const struct ckptfs_capture *in, struct capture **out)
{
	struct capture *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return -ENOMEM;
	*c = (struct capture){.seq = in->seq,
			      .src_off = in->src_off,
			      .generation = g,
			      .promise = {.off = in->file_off, .len = in->len}};
	list_init(&c->link);
	list_init(&c->promise.link);
	c->notice = calloc(1, sizeof(*c->notice));
	err = c->notice ? generation_write(g, key) : -ENOMEM;
	if (err) {
		free(c->notice);
		free(c);
		return err == -EEXIST ? -EOPNOTSUPP : err; /* it is published */
	}
	generation_get(g);
	if (in->len)
		err = content_promise(g->content, &c->promise);
	{
		LOCK_SCOPE(&s->lock);
		c->tensor = err ? NULL : tensor_find_locked(s, in->id);
		if (!c->tensor && !err)
			err = -EBADF; /* unregistered meanwhile */
		if (c->tensor)
			tensor_get(c->tensor);
	}
	if (err)
		capture_end(c);
	else
		*out = c;
	return err;
}

void capture_end(struct capture *c)
{
	content_kept(c->generation->content, &c->promise);
	generation_changed(c->generation);
	generation_put(c->generation);
	free(c->notice);
	free(c);
}

/* Takes back what was made of a batch. */
static void undo(struct session *s, struct capture **made, unsigned nr)
{
	while (nr) {
		struct capture *c = made[--nr];

		if (!c)
			continue;
		{
			LOCK_SCOPE(&s->lock);
			tensor_put(c->tensor);
		}
		capture_end(c);
	}
}

/* Host memory comes before that of devices, and else what was written first. */
static void enqueue_locked(struct session *s, struct capture *c)
{
	struct list *at = s->waiting.prev;

	c->written_ns = clock_mono_ns();
	if (c->tensor->layout.memory <= CKPTFS_HOST_PINNED)
		while (at != &s->waiting &&
		       container_of(at, struct capture, link)->tensor->layout.memory >
			       CKPTFS_HOST_PINNED)
			at = at->prev;
	list_push(at, &c->link);
	s->counts.stats.captures++;
	s->counts.stats.pending++;
	s->counts.stats.pending_bytes += c->promise.len;
}

/* What a checkpoint has of tensors its commit file tells; a file by itself has none. */
static void promised(const struct capture *c)
{
	const struct tensor_place at = {.at = c->promise.off,
					.from = c->src_off,
					.bytes = c->promise.len,
					.tensor = c->tensor};

	content_promised(c->generation->content, &c->promise,
			 c->generation->checkpoint ? &at : NULL);
}

/* All are in; those of no bytes are done. */
static void take_in_locked(struct session *s, struct capture **made, unsigned nr)
{
	unsigned i;

	for (i = 0; i < nr; i++) {
		s->last_seq = made[i]->seq;
		if (made[i]->promise.len) {
			promised(made[i]);
			enqueue_locked(s, made[i]);
			made[i] = NULL;
		} else {
			s->counts.stats.captures++;
			tensor_put(made[i]->tensor);
		}
	}
	waitq_wake_all(&s->changed);
}

static int write_all(struct session *s, struct generation *g, uint64_t key,
		     const struct ckptfs_write *w, struct capture **made)
{
	__cleanup_free struct ckptfs_capture *sorted = NULL;
	uint64_t first = w->captures[0].seq;
	int err = sort(w, &sorted);
	unsigned i;

	for (i = 0; i < w->nr && !err; i++)
		err = begin(s, g, key, &sorted[i], &made[sorted[i].seq - first]);
	if (!err) {
		LOCK_SCOPE(&s->lock);
		if (check_alive_locked(s))
			err = -ENOENT;
		else if (first != s->last_seq + 1)
			err = -EINVAL; /* another thread of it was quicker */
		else if (!decide(s->all))
			err = -EINTR;
		else
			take_in_locked(s, made, w->nr);
	}
	if (err)
		undo(s, made, w->nr);
	for (i = 0; !err && i < w->nr; i++)
		if (made[i])
			capture_end(made[i]);
	return err;
}

int captures_write(struct captures *cs, uid_t uid, struct generation *g, uint64_t key,
		   const struct ckptfs_write *w)
{
	__cleanup(put_at_end) struct session *s = find(cs, uid, w->session);
	__cleanup_free struct capture **made = NULL;
	int err;

	if (!s)
		return -ENOENT;
	{
		LOCK_SCOPE(&s->lock);
		err = check_alive_locked(s);
		if (!err)
			err = check_write_locked(s, w);
	}
	if (err)
		return err;
	made = calloc(w->nr, sizeof(struct capture *));
	return made ? write_all(s, g, key, w, made) : -ENOMEM;
}

/* --- grants --- */

/* When it was copied, as its trainer says, who may say what he wants. */
static void note_times_locked(struct capture *c, const struct ckptfs_done *d)
{
	uint64_t now = clock_mono_ns();

	if (d->begin_ns < c->written_ns || d->end_ns < d->begin_ns || d->end_ns > now)
		return;
	if (!c->begin_ns || d->begin_ns < c->begin_ns)
		c->begin_ns = d->begin_ns;
	if (d->end_ns > c->end_ns)
		c->end_ns = d->end_ns;
}

/* What was reported and is what was granted; else it was reported before, or has failed. */
static void take_done_locked(struct session *s, const struct ckptfs_next *in)
{
	unsigned i;
	bool any = false;

	for (i = 0; i < in->nr_done; i++) {
		struct slot *slot = &s->slots[in->done[i].nr % s->arena.nr_slots];

		if (slot->state != SLOT_GRANTED || slot->nr != in->done[i].nr)
			continue;
		slot->state = SLOT_DONE;
		if (slot->capture)
			note_times_locked(slot->capture, &in->done[i]);
		s->counts.stats.captured_bytes += slot->capture ? slot->len : 0;
		s->counts.stats.granted_bytes -= slot->len;
		list_append(&s->done, &slot->link);
		any = true;
	}
	if (any)
		session_wake(s);
}

/* Numbers rise, and tell the slot. */
static uint64_t number_locked(struct session *s, unsigned slot)
{
	uint64_t n = s->arena.nr_slots, round = s->last_grant / n + 1;

	s->last_grant = round * n + slot;
	return s->last_grant;
}

static struct ckptfs_grant grant_of_locked(const struct session *s, unsigned i)
{
	const struct slot *slot = &s->slots[i];
	const struct capture *c = slot->capture;

	return (struct ckptfs_grant){.nr = slot->nr,
				     .seq = c->seq,
				     .src_off = c->src_off + (slot->off - c->promise.off),
				     .arena_off = (uint64_t)i * s->arena.cache->chunk_size,
				     .len = slot->len};
}

/* When the next piece may be granted, monotonic. */
static uint64_t paced_until(const struct session *s)
{
	return atomic_load(&s->all->paced_ns);
}

/* Sessions that grant in the same moment may count as one: then it is a piece faster, once. */
static void pace(const struct session *s, uint64_t bytes)
{
	uint64_t rate = s->all->options.bytes_per_s, now = clock_mono_ns(), at = paced_until(s);

	if (rate)
		atomic_store(&s->all->paced_ns,
			     (at > now ? at : now) + bytes * NSEC_PER_SEC / rate);
}

static bool may_grant_locked(const struct session *s)
{
	return !list_empty(&s->waiting) && s->arena.nr_free && paced_until(s) <= clock_mono_ns();
}

static void grant_locked(struct session *s, struct capture *c, unsigned i)
{
	size_t chunk = s->arena.cache->chunk_size;
	struct slot *slot = &s->slots[i];
	uint64_t off = c->promise.off + c->nr_granted, left = c->promise.len - c->nr_granted;

	*slot = (struct slot){.state = SLOT_GRANTED, .capture = c, .off = off};
	list_init(&slot->link);
	slot->nr = number_locked(s, i);
	slot->len = (uint32_t)(chunk - off % chunk < left ? chunk - off % chunk : left);
	c->nr_granted += slot->len;
	s->counts.stats.granted_bytes += slot->len;
	pace(s, slot->len);
	if (c->nr_granted == c->promise.len) {
		list_del(&c->link);
		list_append(&s->granted, &c->link);
	}
}

static unsigned grant_all_locked(struct session *s, struct ckptfs_next *out)
{
	unsigned nr = 0;

	while (nr < CKPTFS_GRANTS_MAX && !list_empty(&s->notices)) {
		struct notice *n = container_of(s->notices.next, struct notice, link);

		out->grants[nr++] = (struct ckptfs_grant){
			.nr = number_locked(s, 0), .seq = n->seq, .err = (uint32_t)n->err};
		list_del(&n->link);
		free(n);
	}
	while (nr < CKPTFS_GRANTS_MAX && may_grant_locked(s)) {
		int slot = arena_take(&s->arena);

		grant_locked(s, container_of(s->waiting.next, struct capture, link),
			     (unsigned)slot);
		out->grants[nr++] = grant_of_locked(s, (unsigned)slot);
	}
	return nr;
}

/*
 * Drops the lock while waiting. @turn: its number among those that have asked, 0: it does not wait.
 */
static int await_grants_locked(struct session *s, uint64_t until, uint64_t turn,
			       struct ckptfs_next *out)
{
	struct captures *cs = s->all;

	for (;;) {
		uint64_t paced = list_empty(&s->waiting) ? UINT64_MAX : paced_until(s);

		bool any = !list_empty(&s->notices) || may_grant_locked(s);

		/* A grant that nobody learns of would never be done. After that nothing ends the call. */
		if (any && !decide(cs))
			return -EINTR;
		out->nr_grants = grant_all_locked(s, out);
		if (any || turn != s->turn || clock_mono_ns() >= until)
			return 0;
		if (wait_on(&s->changed, s->arena.nr_free && paced < until ? paced : until) ==
		    -EINTR)
			return -EINTR;
		if (check_alive_locked(s))
			return -ENOENT;
	}
}

int captures_next(struct captures *cs, uid_t uid, const struct ckptfs_next *in,
		  struct ckptfs_next *out)
{
	uint64_t until = clock_mono_ns() + in->wait_ms * NSEC_PER_MSEC;
	bool waits = in->wait_ms && !in->nr_done;
	SESSION_SCOPE(s, cs, uid, in->session);

	if (in->nr_done > CKPTFS_GRANTS_MAX || in->nr_grants || in->reserved)
		return -EINVAL;
	take_done_locked(s, in);
	*out = (struct ckptfs_next){.session = in->session};
	if (waits) {
		s->turn++;
		waitq_wake_all(&s->changed); /* one that waits already ends */
	}
	return await_grants_locked(s, until, waits ? s->turn : 0, out);
}

int captures_fail(struct captures *cs, uid_t uid, const struct ckptfs_fail *f)
{
	struct capture *found = NULL;
	char why[CKPTFS_TEXT_MAX];
	struct list *l;
	SESSION_SCOPE(s, cs, uid, f->session);

	if (f->err <= 0 || f->err > 4095 || f->reserved || !memchr(f->text, 0, sizeof(f->text)))
		return -EINVAL;
	printable(f->text, why);
	if (!f->seq) {
		session_fail_all_locked(s, -f->err, why);
		return 0;
	}
	list_for_each (l, &s->waiting)
		if (container_of(l, struct capture, link)->seq == f->seq)
			found = container_of(l, struct capture, link);
	list_for_each (l, &s->granted)
		if (container_of(l, struct capture, link)->seq == f->seq)
			found = container_of(l, struct capture, link);
	if (!found)
		return f->seq <= s->last_seq ? 0 : -EBADF; /* it has landed, or failed before */
	session_fail_locked(s, found, -f->err, why, true);
	return 0;
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
	st->arena_bytes = (uint64_t)s->arena.nr_slots * s->arena.cache->chunk_size;
	st->free_bytes = (uint64_t)s->arena.nr_free * s->arena.cache->chunk_size;
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
	return json_pack(
		"{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "sessions", sessions, "pending_bytes",
		(json_int_t)sum.stats.pending_bytes, "captures", (json_int_t)sum.stats.captures,
		"captured_bytes", (json_int_t)sum.stats.captured_bytes, "failed",
		(json_int_t)sum.stats.failed, "barriers", (json_int_t)sum.barriers, "timed_out",
		(json_int_t)sum.timed_out, "blocked_s", (double)sum.barrier_ns / NSEC_PER_SEC);
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
