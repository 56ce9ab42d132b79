/* SPDX-License-Identifier: MIT */
/*
 * Waits until closed generations are published: for fsync and close of a program that asked for
 * durability, and before a program uses a name or a directory otherwise.
 *
 * Takes the units' lock, and drops it while it waits. It hurries the publishers, and publishes
 * nothing itself.
 */
#include "engine/calls/generation_impl.h"

#include <errno.h>
#include <string.h>

#include "engine/base/lock.h"
#include "engine/base/wait.h"
#include "engine/journal/journal_written.h"

bool generation_asked_durable(struct generation *g)
{
	LOCK_SCOPE(&g->units->lock);
	return g->durable_calls;
}

void generation_ask_durable(struct generation *g, bool rankless)
{
	LOCK_SCOPE(&g->units->lock);
	/* A checkpoint is committed by its rule, which may need this very program. */
	g->durable_calls = !g->checkpoint;
	g->rankless = g->rankless || rankless;
}

bool generation_is_pending(struct generation *g)
{
	LOCK_SCOPE(&g->units->lock);
	return !state_is_over(g->checkpoint ? g->checkpoint->state : g->state);
}

/* Hurries @g and the older generations of its name. */
static void hurry_up_to_locked(struct generation *g)
{
	struct generation *o;

	for (o = live_has(g) ? g : NULL; o; o = live_older(&g->units->live, o))
		o->hurried = true;
}

bool generation_is_going_locked(const struct generation *g)
{
	if (g->state != GENERATION_SEALED && !generation_is_held_locked(g))
		return false;
	return !g->pointer || !fate_waits(pointer_fate(g));
}

int generation_wait(struct generation *g)
{
	struct units *us = g->units;
	int err = 0;
	LOCK_SCOPE(&us->lock);

	hurry_up_to_locked(g);
	waitq_wake(&us->work);
	while (!err && generation_is_going_locked(g))
		err = units_wait(us);
	return err ? err : g->state == GENERATION_FAILED ? g->err : 0;
}

/* Hurries and finds closed generations of a name; or, @name NULL, those to be durable. */
static struct generation *any_closed_locked(struct units *us, const struct inode_id *dir,
					    const char *name)
{
	struct generation *any = NULL;
	struct list *l;

	list_for_each (l, &us->live.all) {
		struct generation *g = container_of(l, struct generation, link);

		if (!generation_is_going_locked(g) || !same_inode(&g->target.dir_id, dir) ||
		    (name ? strcmp(g->target.name, name) : !g->durable_calls))
			continue;
		g->hurried = true;
		any = g;
	}
	if (any)
		waitq_wake(&us->work);
	return any;
}

int units_settle_name(struct units *us, const struct inode_id *dir, const char *name)
{
	int err = 0;
	LOCK_SCOPE(&us->lock);

	while (!err && any_closed_locked(us, dir, name))
		err = units_wait(us);
	return err;
}

int units_settle_dir(struct units *us, const struct inode_id *dir)
{
	struct generation *g;
	int first = 0, err;

	do {
		{
			LOCK_SCOPE(&us->lock);
			g = any_closed_locked(us, dir, NULL);
			if (g)
				g->refs++;
		}
		err = g ? generation_wait(g) : 0;
		generation_put(g);
		first = first ? first : err;
	} while (g && err != -EINTR);
	return first;
}
