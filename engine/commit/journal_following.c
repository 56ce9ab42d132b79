/* SPDX-License-Identifier: MIT */
#include "engine/commit/journal_following.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/lock.h"
#include "engine/calls/generation_impl.h"
#include "engine/calls/journal_held.h"
#include "engine/cluster/cluster.h"
#include "engine/commit/journal_removal_work.h"
#include "engine/commit/publish.h"
#include "engine/redo/order.h"
#include "engine/save/trash_queue.h"

static bool is_beside_locked(const struct target *t, const struct checkpoint *cp)
{
	return same_inode(&t->dir_id, &cp->target.dir_id);
}

bool following_rests_locked(struct checkpoint *cp)
{
	struct list *l;

	if (cp->following)
		return true;
	list_for_each (l, &cp->units->live.all) {
		struct generation *g = container_of(l, struct generation, link);

		if (!g->pointer || !is_beside_locked(&g->target, cp))
			continue;
		if (generation_is_held_locked(g) ||
		    (g->state == GENERATION_SEALED && !strcmp(g->waits_for, cp->staging) &&
		     (g->nr_changing || !content_rests(g->content) ||
		      held_is_taken_locked(cp->units, &g->target))))
			return false;
	}
	return true;
}

/* True if no thread changes or applies it. */
static bool rests(const struct pending *p)
{
	const struct generation *g = p->written;

	return g ? generation_rests_in(g, GENERATION_SEALED) && !g->abandoned &&
			       !(g->inherited && !g->changed)
		 : !p->held->busy;
}

/* Of two pointers of one name only the later one counts. False: that is not @p. */
static bool overtakes_locked(struct following *f, const struct pending *p)
{
	struct pending *old = f->taken, *end = f->taken + f->nr;

	while (old < end && strcmp(old->target->name, p->target->name))
		old++;
	if (old == end)
		return true;
	if (p->held && old->since_ns > p->since_ns)
		return false;
	if (old->written) {
		generation_set_state(old->written, GENERATION_SEALED);
		old->written->overtaken = true;
		old->written->refs--; /* the list has one */
	} else {
		busy_end(old->held->units, &old->held->busy, BUSY_APPLY);
		old->held->overtaken = true;
		old->held->refs--;
	}
	*old = f->taken[--f->nr];
	return true;
}

void following_take_locked(struct checkpoint *cp)
{
	struct pending p = {0};
	struct following *f = cp->following;

	if (f)
		return;
	f = cp->following = calloc(1, sizeof(*f));
	/* Without memory others apply all of it after the commit. */
	while (f && f->nr < ORDER_MAX && pending_next_locked(cp->units, &p)) {
		if (!rests(&p) || strcmp(p.waits_for, cp->staging) ||
		    !is_beside_locked(p.target, cp) || !overtakes_locked(f, &p))
			continue;
		if (p.written)
			generation_set_state(p.written, GENERATION_TAKEN);
		else
			busy_begin(&p.held->busy, BUSY_APPLY);
		pending_get_locked(&p);
		f->taken[f->nr++] = p;
	}
}

/* --- durable, and recorded --- */

/* Recovery believes only files of the checkpoint's owner: others are applied, but not recorded. */
static void list_pointer(struct checkpoint *cp, const struct target *t, const char *staging,
			 uint64_t written_ns)
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	struct order *o = &cp->following->order;
	struct order_pointer *p = &o->pointers[o->nr_pointers];
	struct statx stx;
	int err = backing_stat_at(&b, t->dir, staging, &stx);

	if (err || stx.stx_uid != cp->owner.uid ||
	    (accord_has_others(cp->units) && order_is_newer(&b, t->dir, t->name, written_ns)))
		return;
	if (order_look(&b, t->dir, t->name, p->was))
		return;
	snprintf(p->name, sizeof(p->name), "%s", t->name);
	snprintf(p->staging, sizeof(p->staging), "%s", staging);
	o->nr_pointers++;
}

/* Makes @p durable, except for its name. True: it stays taken. */
static bool prepare_taken(struct checkpoint *cp, struct pending *p)
{
	struct error e = {0};
	int err = p->written ? publish_whole(p->written, &e) : held_sync(p->held);

	if (!err)
		list_pointer(cp, p->target, p->staging,
			     p->written ? generation_written_ns(p->written)
					: p->held->since_wall_ns);
	if (!err || p->held)
		return true;
	publish_end(p->written, GENERATION_COMMITTED, err, false, e.text);
	pending_put(p);
	return false;
}

void following_prepare(struct checkpoint *cp)
{
	struct following *f = cp->following;
	size_t i, nr = 0;

	if (!f || f->recorded)
		return;
	memset(&f->order, 0, sizeof(f->order));
	for (i = 0; i < f->nr; i++)
		if (prepare_taken(cp, &f->taken[i]))
			f->taken[nr++] = f->taken[i];
	f->nr = nr;
	removals_list(cp, &f->order, false);
}

/* --- applying --- */

/* Gives @p its name, and puts it. True: that has to be done again. */
static bool point(struct pending *p)
{
	struct error e = {0};
	bool named;
	int err;

	if (p->written) {
		err = publish_name(p->written, &named, &e);
		publish_end(p->written, named ? GENERATION_COMMITTED : GENERATION_DROPPED, err,
			    named, e.text);
	} else {
		err = held_apply(p->held);
		LOCK_SCOPE(&p->held->units->lock);
		held_let_go_locked(p->held, !err);
	}
	pending_put(p);
	return err && err != (p->written ? -EBUSY : -ESTALE);
}

void following_point(struct checkpoint *cp)
{
	struct following *f = cp->following;
	size_t i;

	if (!f)
		return;
	for (i = 0; i < f->nr; i++)
		f->waits |= point(&f->taken[i]);
	f->nr = 0;
}

bool following_remove(struct checkpoint *cp)
{
	struct following *f = cp->following;
	bool waits;
	size_t i;

	if (!f)
		return true;
	for (i = 0; !f->waits && i < f->order.nr_removals; i++)
		removal_apply_due(cp->units, &cp->target.dir_id, f->order.removals[i].name);
	waits = f->waits;
	free(f);
	cp->following = NULL;
	return !waits;
}

void following_release(struct checkpoint *cp)
{
	struct following *f = cp->following;
	size_t i;

	if (!f)
		return;
	for (i = 0; i < f->nr; i++) {
		struct pending *p = &f->taken[i];

		if (p->written) {
			generation_let_go(p->written, 0);
		} else {
			LOCK_SCOPE(&cp->units->lock);
			held_let_go_locked(p->held, false);
		}
		pending_put(p);
	}
	free(f);
	cp->following = NULL;
}
