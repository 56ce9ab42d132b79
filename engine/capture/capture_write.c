/* SPDX-License-Identifier: MIT */
/*
 * Batches of captures that a trainer writes to a file. All of a batch, or none, is promised to the
 * file's content and then queued for grants. Promises are made without the lock of the session, in
 * the order of the file, so that two batches cannot wait for each other. No bytes are copied here.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/wait.h"
#include "engine/capture/session.h"

static int compare_offsets(const void *a, const void *b)
{
	const struct ckptfs_capture *x = a, *y = b;

	return x->file_off < y->file_off ? -1 : x->file_off > y->file_off;
}

/*
 * The captures of a batch in the order of the file, malloced. -EINVAL: two overlap, and one promise
 * would wait for the other.
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
	/* A capture that was reported, but has not landed yet, is over for the trainer. */
	if (s->counts.stats.pending + w->nr > CKPTFS_CAPTURES_MAX + s->loan->nr_slots)
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

/* Makes the capture @in a part of @g. If that fails, @g has nothing of it. */
static int begin(struct session *s, struct generation *g, uint64_t key,
		 const struct ckptfs_capture *in, struct capture **out)
{
	struct capture *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return -ENOMEM;
	*c = (struct capture){.seq = in->seq, .src_off = in->src_off};
	list_init(&c->link);
	list_init(&c->pieces);
	c->notice = calloc(1, sizeof(*c->notice));
	err = c->notice ? provided_begin(&c->owed, g, key, in->file_off, in->len) : -ENOMEM;
	if (err) {
		free(c->notice);
		free(c);
		return err;
	}
	{
		LOCK_SCOPE(&s->lock);
		c->tensor = tensor_find_locked(s, in->id);
		if (c->tensor)
			tensor_get(c->tensor);
		else
			err = -EBADF; /* unregistered meanwhile */
	}
	if (err)
		capture_end(c);
	else
		*out = c;
	return err;
}

/* Ends what was made of a batch that failed. */
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

/* Host memory comes before device memory; else the order of the writes counts. */
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
	s->counts.stats.pending_bytes += c->owed.promise.len;
}

/* The commit file of a checkpoint lists its tensors; a file by itself has no such list. */
static void promised(struct capture *c)
{
	const struct tensor_place at = {.at = c->owed.promise.off,
					.from = c->src_off,
					.bytes = c->owed.promise.len,
					.tensor = c->tensor};

	provided_certain(&c->owed, generation_checkpoint(c->owed.generation) ? &at : NULL);
}

/* The batch is complete. Captures without bytes are done, and stay in @made. */
static void take_in_locked(struct session *s, struct capture **made, unsigned nr)
{
	unsigned i;

	for (i = 0; i < nr; i++) {
		s->last_seq = made[i]->seq;
		if (made[i]->owed.promise.len) {
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
		if (session_check_alive_locked(s))
			err = -ENOENT;
		else if (first != s->last_seq + 1)
			err = -EINVAL; /* another thread of the session was quicker */
		else if (!captures_decide(s->all))
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
	__cleanup(session_put_at_end) struct session *s = session_find(cs, uid, w->session);
	__cleanup_free struct capture **made = NULL;
	int err;

	if (!s)
		return -ENOENT;
	{
		LOCK_SCOPE(&s->lock);
		err = session_check_alive_locked(s);
		if (!err)
			err = check_write_locked(s, w);
	}
	if (err)
		return err;
	made = calloc(w->nr, sizeof(struct capture *));
	return made ? write_all(s, g, key, w, made) : -ENOMEM;
}
