/* SPDX-License-Identifier: MIT */
/*
 * Opens that a generation expects, and handles; whether these and its writers keep it OPEN, or it
 * is SEALED. Takes the units' lock, except in functions that end in _locked.
 */
#include "engine/calls/generation_impl.h"

#include <stdlib.h>

#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/base/wait.h"
#include "engine/journal/journal_written.h"

bool generation_expect_locked(struct generation *g, pid_t pid)
{
	struct opener *o;

	if (!generation_rests_in(g, GENERATION_OPEN))
		return false;
	o = generation_opener_of_locked(g, pid);
	if (!o) {
		o = calloc(1, sizeof(*o));
		if (!o)
			return false;
		o->pid = pid;
		list_append(&g->expected, &o->link);
		g->nr_handles++;
	}
	o->since_ns = clock_mono_ns();
	return true;
}

/* True if no writer or expected open keeps @g open: it may be published. */
static bool is_closed_locked(const struct generation *g)
{
	struct list *l;

	if (!g->nr_handles)
		return true;
	if (list_empty(&g->writers) || !list_empty(&g->expected))
		return false;
	list_for_each (l, &g->writers)
		if (!container_of(l, struct writer, link)->closed)
			return false;
	return true;
}

void generation_settle_locked(struct generation *g)
{
	/* An open whose program never got the answer is no save: the publishers give it up. */
	bool closed = is_closed_locked(g) && (g->flushed || !list_empty(&g->writers));

	if (generation_rests_in(g, GENERATION_OPEN) && closed) {
		generation_set_state(g, GENERATION_SEALED);
		g->closed_ns = clock_mono_ns();
		content_hurry(g->content);
		if (g->pointer)
			pointer_closed(g);
		if (g->checkpoint)
			checkpoint_event_locked(g->checkpoint, EVIDENCE_CLOSE, g->rel, g->rank);
		waitq_wake(&g->units->work);
	} else if (generation_rests_in(g, GENERATION_SEALED) && !closed) {
		generation_set_state(g, GENERATION_OPEN);
	}
	waitq_wake_all(&g->units->changed);
}

/*
 * A file of a checkpoint may be opened again until the checkpoint is committed. Then the earlier
 * writers, which have closed it, do not count any more.
 */
static void reopen_sealed_locked(struct generation *g)
{
	while (!list_empty(&g->writers)) {
		struct list *w = g->writers.next;

		list_del(w);
		free(container_of(w, struct writer, link));
	}
	g->flushed = false;
	generation_set_state(g, GENERATION_OPEN);
}

bool generation_open(struct generation *g, pid_t pid)
{
	struct opener *o;
	LOCK_SCOPE(&g->units->lock);

	if (g->checkpoint && generation_rests_in(g, GENERATION_SEALED))
		reopen_sealed_locked(g);
	if (!generation_rests_in(g, GENERATION_OPEN))
		return false;
	g->nr_handles++;
	o = generation_opener_of_locked(g, pid);
	if (o)
		generation_miss_locked(g, o);
	return true;
}

bool generation_expect(struct generation *g, pid_t pid)
{
	LOCK_SCOPE(&g->units->lock);
	return generation_expect_locked(g, pid);
}

bool generation_expect_in(struct generation *g, pid_t pid, bool emptied)
{
	LOCK_SCOPE(&g->units->lock);
	if (generation_rests_in(g, GENERATION_SEALED))
		reopen_sealed_locked(g);
	if (!generation_expect_locked(g, pid))
		return false;
	g->changed = g->changed || emptied;
	return true;
}

void generation_miss_locked(struct generation *g, struct opener *o)
{
	list_del(&o->link);
	free(o);
	g->nr_handles--;
}
