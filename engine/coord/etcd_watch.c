/* SPDX-License-Identifier: MIT */
#include "engine/coord/etcd_watch.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"

#define QUERIES_MAX 64 /* in a transaction; etcd allows 128 */
/* How long the stream alone is believed: a member may hang and stay connected. */
#define TRUST_NS (10 * NSEC_PER_SEC)
#define BEGIN_NS NSEC_PER_SEC /* the same until it has begun: a proxy may keep answers back */
#define NAP_NS	 (300 * NSEC_PER_MSEC)

/* A key that exists. */
struct seen {
	char *key;
	char *value; /* NULL: unknown, or taken */
	size_t len;
};

struct etcd_watch {
	struct etcd *etcd;
	/* owner: the thread that waits */
	struct etcd_stream *stream;   /* or NULL */
	char (*ranges)[ETCD_KEY_MAX]; /* the ranges that the stream watches */
	size_t nr_ranges;
	size_t to_begin;   /* watches that etcd has not confirmed yet */
	bool listed;	   /* what existed before the watches began was listed */
	uint64_t asked_ns; /* when etcd was last asked what exists */
	struct lock lock;
	/* lock: lock */
	struct seen *seen;
	size_t nr_seen;
};

struct etcd_watch *etcd_watch_create(struct etcd *etcd)
{
	struct etcd_watch *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->etcd = etcd;
	lock_init(&w->lock, LOCK_COORD_WATCH);
	return w;
}

/* --- what was seen --- */

static struct seen *find_locked(struct etcd_watch *w, const char *key)
{
	size_t i;

	for (i = 0; i < w->nr_seen; i++)
		if (!strcmp(w->seen[i].key, key))
			return &w->seen[i];
	return NULL;
}

/* Takes over what @kv has. */
static int add(struct etcd_watch *w, struct etcd_kv *kv, bool with_value)
{
	struct seen *s, *more;
	LOCK_SCOPE(&w->lock);

	s = find_locked(w, kv->key);
	if (!s) {
		more = realloc(w->seen, (w->nr_seen + 1) * sizeof(*more));
		if (!more)
			return -ENOMEM;
		w->seen = more;
		s = &w->seen[w->nr_seen++];
		*s = (struct seen){.key = take_ptr(kv->key)};
	}
	if (with_value) {
		free(s->value);
		s->value = take_ptr(kv->value);
		s->len = kv->len;
	}
	return 0;
}

static int add_all(struct etcd_watch *w, struct etcd_answer *a, bool with_values)
{
	size_t i;
	int err = 0;

	for (i = 0; !err && i < a->nr_kvs; i++)
		err = add(w, &a->kvs[i], with_values);
	return err;
}

bool etcd_watch_has(struct etcd_watch *w, const char *key)
{
	LOCK_SCOPE(&w->lock);
	return find_locked(w, key);
}

void etcd_watch_gone(struct etcd_watch *w, const char *key)
{
	struct seen *s;
	LOCK_SCOPE(&w->lock);

	s = find_locked(w, key);
	if (!s)
		return;
	free(s->key);
	free(s->value);
	*s = w->seen[--w->nr_seen];
}

char *etcd_watch_take(struct etcd_watch *w, const char *key, size_t *len)
{
	struct seen *s;
	LOCK_SCOPE(&w->lock);

	s = find_locked(w, key);
	if (!s || !s->value)
		return NULL;
	*len = s->len;
	return take_ptr(s->value);
}

void etcd_watch_forget(struct etcd_watch *w, const char *prefix)
{
	size_t i, left = 0;
	LOCK_SCOPE(&w->lock);

	for (i = 0; i < w->nr_seen; i++) {
		if (strncmp(w->seen[i].key, prefix, strlen(prefix)) != 0) {
			w->seen[left++] = w->seen[i];
			continue;
		}
		free(w->seen[i].key);
		free(w->seen[i].value);
	}
	w->nr_seen = left;
	if (left)
		return;
	free(w->seen);
	w->seen = NULL;
}

static bool any_is_there(struct etcd_watch *w, struct etcd_awaited *keys, size_t nr)
{
	bool any = false;
	size_t i;
	LOCK_SCOPE(&w->lock);

	for (i = 0; i < nr; i++) {
		keys[i].there = find_locked(w, keys[i].key) != NULL;
		any = any || keys[i].there;
	}
	return any;
}

/* --- the stream --- */

static void stop(struct etcd_watch *w)
{
	etcd_stream_close(w->stream);
	w->stream = NULL;
	free(w->ranges);
	w->ranges = NULL;
	w->nr_ranges = 0;
	etcd_watch_forget(w, "");
}

void etcd_watch_destroy(struct etcd_watch *w)
{
	if (!w)
		return;
	stop(w);
	lock_finish(&w->lock);
	free(w);
}

static bool watches(const struct etcd_watch *w, const char *range)
{
	size_t i;

	for (i = 0; i < w->nr_ranges; i++)
		if (!strcmp(w->ranges[i], range))
			return true;
	return false;
}

static bool watches_all(const struct etcd_watch *w, const struct etcd_awaited *keys, size_t nr)
{
	size_t i;

	for (i = 0; i < nr; i++)
		if (!watches(w, keys[i].range))
			return false;
	return w->stream;
}

/* "key", and "range_end" if @range is a prefix. */
static json_t *json_range(const char *range)
{
	return range[strlen(range) - 1] == '.' ? etcd_json_below(range)
					       : json_pack("{s:o}", "key", etcd_json_key(range));
}

/*
 * The requests for all ranges, one after the other, as the gateway takes them from one stream;
 * owned by the caller.
 */
static char *json_requests(const struct etcd_watch *w)
{
	char *body = NULL;
	size_t size = 0, i, nr = w->nr_ranges;
	FILE *f = open_memstream(&body, &size);

	for (i = 0; f && i < nr; i++) {
		json_t *range = json_range(w->ranges[i]), *o;

		json_object_set_new(range, "filters", json_pack("[s]", "NODELETE"));
		o = json_pack("{s:o}", "create_request", range);
		if (!o || json_dumpf(o, f, JSON_COMPACT) || putc('\n', f) == EOF)
			nr = 0;
		json_decref(o);
	}
	if (f && !fclose(f) && i == w->nr_ranges)
		return body;
	free(body);
	return NULL;
}

static int start(struct etcd_watch *w, const struct etcd_awaited *keys, size_t nr)
{
	__cleanup_free char *body = NULL;
	size_t i;

	stop(w);
	w->ranges = calloc(nr, sizeof(*w->ranges));
	for (i = 0; w->ranges && i < nr; i++)
		if (!watches(w, keys[i].range))
			memcpy(w->ranges[w->nr_ranges++], keys[i].range, ETCD_KEY_MAX);
	w->to_begin = w->nr_ranges;
	w->listed = false;
	body = w->ranges ? json_requests(w) : NULL;
	w->stream = body ? etcd_stream_open(w->etcd, "watch", body) : NULL;
	w->asked_ns = clock_mono_ns();
	return w->stream ? 0 : -ENOMEM;
}

/* --- which keys exist --- */

/* Asks etcd which keys of @nr ranges exist. The ranges are @step bytes apart. */
static int list(struct etcd_watch *w, const char *ranges, size_t nr, size_t step, int wake)
{
	int err = 0;
	size_t i, n;

	for (i = 0; !err && i < nr; i += n) {
		json_t *queries = json_array();
		struct etcd_answer a;

		for (n = 0; n < QUERIES_MAX && i + n < nr; n++) {
			json_t *query = json_range(ranges + (i + n) * step);

			json_object_set_new(query, "keys_only", json_true());
			json_array_append_new(queries, json_pack("{s:o}", "request_range", query));
		}
		if (json_array_size(queries) < n) {
			json_decref(queries);
			return -ENOMEM;
		}
		err = etcd_ask(w->etcd, "kv/txn", json_pack("{s:o}", "success", queries), ETCD_TXN,
			       ETCD_OK, wake, &a);
		if (!err)
			err = add_all(w, &a, false);
		etcd_answer_finish(&a);
	}
	if (err != -ECANCELED)
		w->asked_ns = clock_mono_ns();
	return err;
}

static int list_keys(struct etcd_watch *w, const struct etcd_awaited *keys, size_t nr, int wake)
{
	return list(w, keys->key, nr, sizeof(*keys), wake);
}

/* --- waiting --- */

static bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return fd >= 0 && poll(&p, 1, 0) == 1;
}

/* Sleeps for @ns, or until @wake is readable or the deadline has passed. */
static void nap(int wake, uint64_t ns, uint64_t deadline_ns)
{
	struct pollfd p = {.fd = wake, .events = POLLIN};
	uint64_t now = clock_mono_ns(), until = now + ns;

	if (until > deadline_ns)
		until = deadline_ns > now ? deadline_ns : now;
	poll(&p, 1, (int)((until - now + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC));
}

static int take_line(struct etcd_watch *w, struct etcd_answer *a)
{
	if (a->created && w->to_begin)
		w->to_begin--;
	return a->canceled ? -EPIPE : add_all(w, a, true);
}

/*
 * Takes one answer of the stream, or asks etcd. -errno: the stream is of no use, or no member
 * answers.
 */
static int listen(struct etcd_watch *w, struct etcd_awaited *keys, size_t nr, int wake,
		  uint64_t deadline_ns)
{
	uint64_t until = w->asked_ns + (w->to_begin ? BEGIN_NS : TRUST_NS);
	struct etcd_answer a;
	int r;

	if (!w->to_begin && !w->listed) {
		r = list(w, w->ranges[0], w->nr_ranges, sizeof(*w->ranges), wake);
		w->listed = !r;
		return r;
	}
	r = etcd_stream_next(w->stream, wake, until < deadline_ns ? until : deadline_ns, &a);
	if (r == 1)
		r = take_line(w, &a);
	etcd_answer_finish(&a);
	if (r || clock_mono_ns() < until)
		return r;
	r = list_keys(w, keys, nr, wake);
	if (!r && any_is_there(w, keys, nr))
		w->nr_ranges = 0; /* the stream missed it: another one follows */
	return r;
}

int etcd_watch_wait(struct etcd_watch *w, struct etcd_awaited *keys, size_t nr, int wake,
		    uint64_t deadline_ns)
{
	int err;

	if (!nr) {
		stop(w);
		nap(wake, deadline_ns, deadline_ns);
	}
	while (nr) {
		if (any_is_there(w, keys, nr)) /* before start(), which forgets what was seen */
			return 1;
		err = watches_all(w, keys, nr) ? 0 : start(w, keys, nr);
		if (readable(wake) || clock_mono_ns() >= deadline_ns)
			return 0;
		if (!err)
			err = listen(w, keys, nr, wake, deadline_ns);
		if (!err || err == -ECANCELED)
			continue;
		/*
		 * Without a stream etcd is polled; the pause keeps a failing service from being
		 * asked all the time.
		 */
		stop(w);
		err = list_keys(w, keys, nr, wake);
		if (any_is_there(w, keys, nr))
			return 1;
		if (err != -ECANCELED)
			nap(wake, NAP_NS, deadline_ns);
		if (err == -EHOSTDOWN || err == -ENOMEM)
			return err;
	}
	return 0;
}
