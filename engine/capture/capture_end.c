/* SPDX-License-Identifier: MIT */
/* The end of a capture: all of it has landed, or it fails, and the trainer is told. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/capture/session.h"

/* Takes over the tensor of @c. */
static void trace(struct session *s, struct capture *c)
{
	struct traced t = {.uid = s->uid,
			   .row = s->row,
			   .rank = s->rank,
			   .pid = s->pid,
			   .tensor = c->tensor,
			   .bytes = c->owed.promise.len,
			   .written_ns = c->written_ns,
			   .begin_ns = c->begin_ns,
			   .end_ns = c->end_ns,
			   .landed_ns = clock_mono_ns(),
			   .failed = c->failed};

	snprintf(t.staging, sizeof(t.staging), "%s", generation_staging(c->owed.generation));
	trace_add(&s->all->trace, &t);
	c->tensor = NULL;
}

/* Takes @c off its list, and its tensor away. */
static void detach_locked(struct session *s, struct capture *c)
{
	list_del(&c->link);
	s->counts.stats.pending--;
	s->counts.stats.pending_bytes -= c->owed.promise.len;
	trace(s, c);
}

static void tell_locked(struct session *s, struct capture *c, int err)
{
	c->notice->seq = c->seq;
	c->notice->err = -err;
	list_append(&s->notices, &c->notice->link);
	c->notice = NULL;
	waitq_wake_all(&s->changed);
}

void capture_end(struct capture *c)
{
	provided_end(&c->owed);
	free(c->notice);
	free(c);
}

void session_fail_locked(struct session *s, struct capture *c, int err, const char *why, bool known)
{
	c->failed = true;
	slots_void_locked(s, c, known);
	if (!known)
		tell_locked(s, c, err);
	detach_locked(s, c);
	s->counts.stats.failed++;
	lock_drop(&s->lock);
	provided_fail(&c->owed, err, why);
	lock_take(&s->lock);
	c->told = true;
	if (c->landing)
		return;
	lock_drop(&s->lock);
	capture_end(c);
	lock_take(&s->lock);
}

void session_fail_all_locked(struct session *s, int err, const char *why)
{
	while (!list_empty(&s->granted))
		session_fail_locked(s, container_of(s->granted.next, struct capture, link), err,
				    why, true);
	while (!list_empty(&s->waiting))
		session_fail_locked(s, container_of(s->waiting.next, struct capture, link), err,
				    why, true);
}

void session_landed_locked(struct session *s, struct capture *c, uint32_t len, int err)
{
	c->landing = false;
	c->nr_landed += len;
	s->counts.stats.landed_bytes += len;
	if (err && !c->failed) {
		session_fail_locked(s, c, err, strerror(-err), false);
		return;
	}
	if (c->failed ? !c->told : c->nr_landed < c->owed.promise.len)
		return;
	if (!c->failed)
		detach_locked(s, c);
	lock_drop(&s->lock);
	capture_end(c);
	lock_take(&s->lock);
}
