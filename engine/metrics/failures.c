/* SPDX-License-Identifier: MIT */
#include "engine/metrics/failures.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/lock.h"
#include "engine/base/log.h"

struct failure {
	uint64_t first_ns, last_ns, count;
	char *op, *path, *message;
	int err;
	uid_t uid;
};

static __thread int explained; /* the last errno recorded in this request */

struct failures {
	struct lock lock;
	struct failure ring[FAILURES_KEPT]; /* lock: lock; slot n % FAILURES_KEPT */
	uint64_t nr;			    /* lock: lock; slots ever used */
	uint64_t total;			    /* lock: lock */
};

struct failures *failures_create(void)
{
	struct failures *f = calloc(1, sizeof(*f));

	if (f)
		lock_init(&f->lock, LOCK_FAILURES);
	return f;
}

static void failure_clear(struct failure *x)
{
	free(x->op);
	free(x->path);
	free(x->message);
	memset(x, 0, sizeof(*x));
}

void failures_destroy(struct failures *f)
{
	size_t i;

	if (!f)
		return;
	for (i = 0; i < FAILURES_KEPT; i++)
		failure_clear(&f->ring[i]);
	lock_finish(&f->lock);
	free(f);
}

/* The entry equal to this failure, or NULL. */
static struct failure *find_like_locked(struct failures *f, uid_t uid, const char *op,
					const char *path, int err)
{
	size_t i;

	for (i = 0; i < FAILURES_KEPT; i++) {
		struct failure *x = &f->ring[i];

		if (x->count && x->uid == uid && x->err == err && !strcmp(x->op, op) &&
		    !strcmp(x->path, path))
			return x;
	}
	return NULL;
}

static bool record(struct failures *f, uid_t uid, const char *op, const char *path, int err,
		   const char *message)
{
	uint64_t now = clock_wall_ns();
	LOCK_SCOPE(&f->lock);
	struct failure *x = find_like_locked(f, uid, op, path, err);

	f->total++;
	if (x) {
		x->count++;
		x->last_ns = now;
		return false;
	}
	x = &f->ring[f->nr % FAILURES_KEPT];
	failure_clear(x);
	*x = (struct failure){now, now, 1, strdup(op), strdup(path), strdup(message), err, uid};
	if (!x->op || !x->path || !x->message)
		failure_clear(x); /* no memory: the log has it, the list does not */
	else
		f->nr++;
	return true;
}

void failures_add(struct failures *f, uid_t uid, const char *op, const char *path, int err,
		  const char *message)
{
	explained = err;
	if (record(f, uid, op, path, err, message))
		log_error("%s", message);
	else
		log_debug("again: %s", message);
}

void failures_notice(struct failures *f, uid_t uid, const char *op, const char *path,
		     const char *message)
{
	if (record(f, uid, op, path, 0, message))
		log_warn("%s", message);
}

bool failures_noticed(struct failures *f, uid_t uid, const char *op, const char *path)
{
	LOCK_SCOPE(&f->lock);
	return find_like_locked(f, uid, op, path, 0);
}

void failures_begin(void)
{
	explained = 0;
}

bool failures_explained(int err)
{
	return err && explained == err;
}

uint64_t failures_total(struct failures *f)
{
	LOCK_SCOPE(&f->lock);
	return f->total;
}

json_t *failures_to_json(struct failures *f, uid_t viewer, bool all)
{
	json_t *list = json_array();
	uint64_t i;
	LOCK_SCOPE(&f->lock);

	for (i = f->nr > FAILURES_KEPT ? f->nr - FAILURES_KEPT : 0; i < f->nr; i++) {
		struct failure *x = &f->ring[i % FAILURES_KEPT];
		bool shown = all || x->uid == viewer;

		json_array_append_new(list, json_pack("{s:I, s:I, s:I, s:I, s:s, s:o, s:s, s:o}",
						      "time_ns", (json_int_t)x->first_ns, "last_ns",
						      (json_int_t)x->last_ns, "count",
						      (json_int_t)x->count, "uid",
						      (json_int_t)x->uid, "op", x->op, "path",
						      shown ? json_text(x->path) : json_null(),
						      "errno", strerrorname_np(x->err), "message",
						      shown ? json_text(x->message) : json_null()));
	}
	return list;
}
