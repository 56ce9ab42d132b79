/* SPDX-License-Identifier: MIT */
/*
 * Ends generations: takes one out of units->live, and adds it to the history. It does not publish
 * (publish.c), nor drop a generation because a program removed its name (generation_name.c).
 */

#include "engine/save/units.h"

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/wait.h"

/* @g has failed: the newest generation of its name that is left is shown. */
static void show_older_locked(const struct generation *g)
{
	const struct live *lv = &g->units->live;
	struct generation *o = live_newest(lv, &g->target.dir_id, g->target.name);

	while (o && (o == g || o->overtaken))
		o = live_older(lv, o);
	if (o)
		o->visible = true;
}

/* Drops the list's reference; the caller has another. */
void generation_end_locked(struct generation *g, enum generation_state state)
{
	generation_set_state(g, state);
	if (g->visible && state == GENERATION_FAILED)
		show_older_locked(g);
	g->visible = false;
	g->ended_ns = clock_mono_ns();
	if (state != GENERATION_DURABLE)
		history_note(&g->units->history, g);
	g->units->nr_committed += state == GENERATION_COMMITTED;
	g->units->nr_failed += state == GENERATION_FAILED;
	live_remove(&g->units->live, g);
	g->refs--;
	waitq_wake_all(&g->units->changed);
	if (g->checkpoint && list_empty(&g->checkpoint->files))
		waitq_wake(&g->units->commits); /* the checkpoint may have waited for this file */
}
