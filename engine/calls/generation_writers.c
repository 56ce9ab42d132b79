/* SPDX-License-Identifier: MIT */
/*
 * The writers of a generation: processes that changed it. Whether they have closed it decides
 * whether the generation is OPEN or SEALED (generation_settle.c). A writer that dies fails it.
 *
 * Takes the units' lock, except in functions that end in _locked. It does not find out how a
 * process ended (engine/liveness), and does not write bytes (engine/content).
 */
#include "engine/calls/generation_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/base/wait.h"
#include "engine/calls/journal_resolve.h"
#include "engine/cluster/fail.h"

void generation_released(struct generation *g)
{
	LOCK_SCOPE(&g->units->lock);
	g->nr_handles--;
	generation_settle_locked(g);
}

static struct writer *writer_of(struct generation *g, uint64_t key, bool make)
{
	struct writer *w;
	struct list *l;

	list_for_each (l, &g->writers) {
		w = container_of(l, struct writer, link);
		if (w->key == key)
			return w;
	}
	w = make ? calloc(1, sizeof(*w)) : NULL;
	if (w) {
		w->key = key;
		list_push(&g->writers, &w->link);
	}
	return w;
}

/* Drops the lock while waiting. */
static int begin_change_locked(struct generation *g)
{
	int err = 0;

	while (!err && generation_is_held_locked(g))
		err = units_wait(g->units);
	if (err)
		return err;
	if (g->state == GENERATION_FAILED)
		return g->err;
	if (g->state == GENERATION_COMMITTED || g->state == GENERATION_DURABLE)
		return -EEXIST;
	g->changed = true;
	g->nr_changing++;
	return 0;
}

void generation_changed(struct generation *g)
{
	LOCK_SCOPE(&g->units->lock);
	g->touched_ns = clock_mono_ns();
	if (--g->nr_changing || g->state != GENERATION_SEALED)
		return;
	content_hurry(g->content); /* also what was written since the close */
	waitq_wake(&g->units->work);
}

int generation_change(struct generation *g)
{
	LOCK_SCOPE(&g->units->lock);
	return begin_change_locked(g);
}

int generation_write(struct generation *g, uint64_t key)
{
	struct writer *w;
	int err;
	LOCK_SCOPE(&g->units->lock);

	err = begin_change_locked(g);
	if (err)
		return err;
	w = writer_of(g, key, true);
	if (!w) {
		g->nr_changing--;
		return -ENOMEM;
	}
	w->closed = false;
	if (g->state == GENERATION_SEALED)
		generation_settle_locked(g);
	return 0;
}

bool generation_is_open(struct generation *g)
{
	LOCK_SCOPE(&g->units->lock);
	return generation_rests_in(g, GENERATION_OPEN);
}

static bool has_died(struct writer_end end)
{
	return end.fate == WRITER_DIED || end.fate == WRITER_EXIT_UNKNOWN;
}

static void fail_by_end(struct generation *g, struct writer_end end)
{
	char text[MESSAGE_MAX], path[PATH_MAX];

	generation_path(g, path, sizeof(path));
	if (end.fate == WRITER_EXIT_UNKNOWN)
		MESSAGE(text, WRITER_VANISHED, path, path);
	else if (end.code < 0)
		MESSAGE(text, WRITER_KILLED, path, -end.code, strsignal(-end.code), path);
	else
		MESSAGE(text, WRITER_EXITED, path, end.code, path);
	generation_fail(g, -EIO, text);
}

/* @w has ended well. Another process may get its key soon, and end differently. */
static void retire_locked(struct generation *g, struct writer *w)
{
	struct writer *gone = writer_of(g, 0, false);

	if (gone) {
		list_del(&w->link);
		free(w);
	} else {
		w->key = 0;
	}
}

void generation_give_up(struct generation *g, int err, const char *why)
{
	char text[MESSAGE_MAX], path[PATH_MAX];

	generation_path(g, path, sizeof(path));
	MESSAGE(text, CAPTURE_FAILED, path, why);
	generation_fail(g, err, text);
}

void generation_cut_off(struct generation *g)
{
	bool others;
	{
		LOCK_SCOPE(&g->units->lock);
		others = g->flushed || !list_empty(&g->writers);
	}
	if (others) /* else nothing was saved, and the publishers give @g up */
		fail_by_end(g, (struct writer_end){.fate = WRITER_EXIT_UNKNOWN});
}

void generation_closed(struct generation *g, uint64_t key, struct writer_end end)
{
	bool wrote;

	if (g->pointer)
		pointer_read(g);
	{
		LOCK_SCOPE(&g->units->lock);
		struct writer *w = writer_of(g, key, false);

		wrote = w != NULL;
		if (wrote && !has_died(end)) {
			w->closed = true;
			if (end.fate == WRITER_EXITED_OK)
				retire_locked(g, w);
			generation_settle_locked(g);
		}
	}
	if (wrote && has_died(end))
		fail_by_end(g, end);
}

void generation_flushed(struct generation *g, uint64_t key, struct writer_end end)
{
	bool wrote;

	if (g->pointer)
		pointer_read(g);
	{
		LOCK_SCOPE(&g->units->lock);
		struct writer *w = writer_of(g, key, false);

		/* A process that dies before its first write has created or truncated the file. */
		wrote = w || (list_empty(&g->writers) && (g->changed || !g->inherited));
		if (!has_died(end))
			g->flushed = true;
		if (w && !has_died(end)) {
			w->closed = true;
			generation_settle_locked(g);
		}
	}
	if (wrote && has_died(end))
		fail_by_end(g, end);
}
