/* SPDX-License-Identifier: MIT */
#include "engine/unit/following.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/lock.h"
#include "engine/unit/accord.h"
#include "engine/unit/held.h"
#include "engine/unit/internal.h"
#include "engine/unit/removal.h"
#include "engine/unit/reserved_names.h"
#include "engine/unit/trash.h"

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

/* Of two pointers of one name only the later one counts. */
static void replace_older_locked(struct following *f, const char *name)
{
	size_t i;

	for (i = 0; i < f->nr_written; i++)
		if (!strcmp(f->written[i]->target.name, name)) {
			generation_set_state(f->written[i], GENERATION_SEALED);
			f->written[i]->overtaken = true;
			f->written[i]->refs--; /* the list has one */
			f->written[i] = f->written[--f->nr_written];
			return;
		}
}

static void take_written(struct checkpoint *cp, struct following *f)
{
	struct list *l;

	list_for_each (l, &cp->units->live.all) {
		struct generation *g = container_of(l, struct generation, link);

		if (!g->pointer || !generation_rests_in(g, GENERATION_SEALED) || g->overtaken ||
		    g->abandoned || (g->inherited && !g->changed) ||
		    strcmp(g->waits_for, cp->staging) || !is_beside_locked(&g->target, cp))
			continue;
		replace_older_locked(f, g->target.name);
		if (f->nr_written == ORDER_MAX)
			return;
		generation_set_state(g, GENERATION_TAKEN);
		g->refs++;
		f->written[f->nr_written++] = g;
	}
}

/* True if a pointer of that name was written after @h came. One that came before is dropped. */
static bool is_overtaken_locked(struct following *f, struct held *h)
{
	size_t i;

	for (i = 0; i < f->nr_written; i++)
		if (!strcmp(f->written[i]->target.name, h->target.name) &&
		    f->written[i]->opened_ns > h->since_ns)
			return true;
	for (i = 0; i < f->nr_held; i++)
		if (!strcmp(f->held[i]->target.name, h->target.name)) {
			busy_end(h->units, &f->held[i]->busy, BUSY_APPLY);
			f->held[i]->overtaken = true;
			f->held[i]->refs--;
			f->held[i] = f->held[--f->nr_held];
			break;
		}
	replace_older_locked(f, h->target.name);
	return false;
}

static void take_held(struct checkpoint *cp, struct following *f)
{
	struct list *l;

	list_for_each (l, &cp->units->held) {
		struct held *h = container_of(l, struct held, link);

		if (h->busy || h->overtaken || strcmp(h->waits_for, cp->staging) ||
		    !is_beside_locked(&h->target, cp) || is_overtaken_locked(f, h))
			continue;
		if (f->nr_written + f->nr_held == ORDER_MAX)
			return;
		busy_begin(&h->busy, BUSY_APPLY);
		h->refs++;
		f->held[f->nr_held++] = h;
	}
}

void following_take_locked(struct checkpoint *cp)
{
	if (cp->following)
		return;
	cp->following = calloc(1, sizeof(*cp->following));
	if (!cp->following)
		return; /* then others apply all of it after the commit */
	take_written(cp, cp->following);
	take_held(cp, cp->following);
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

static void prepare_written(struct checkpoint *cp, struct following *f)
{
	size_t i, nr = 0;

	for (i = 0; i < f->nr_written; i++) {
		struct generation *g = f->written[i];
		struct error e = {0};
		int err = publish_whole(g, &e);

		if (err) {
			publish_end(g, GENERATION_COMMITTED, err, false, e.text);
			generation_put(g);
			continue;
		}
		list_pointer(cp, &g->target, g->staging, publish_written_ns(g));
		f->written[nr++] = g;
	}
	f->nr_written = nr;
}

static void prepare_held(struct checkpoint *cp, struct following *f)
{
	size_t i;

	for (i = 0; i < f->nr_held; i++)
		if (!held_sync(f->held[i]))
			list_pointer(cp, &f->held[i]->target, f->held[i]->staging,
				     f->held[i]->since_wall_ns);
}

/* Stages a file or link of this node's that says what @q does, durable except for its name. */
static int stage(struct checkpoint *cp, const struct left_pointer *q, char staging[STAGING_MAX])
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	struct backing as = backing_as(&b, &cp->owner);
	const struct timespec at = {.tv_sec = (time_t)(q->written_ns / NSEC_PER_SEC),
				    .tv_nsec = (long)(q->written_ns % NSEC_PER_SEC)};
	const struct timespec times[2] = {at, at};
	int dir = cp->target.dir, err = units_new_id(staging);
	__cleanup_fd int fd = -1;
	ssize_t n;
	bool created;

	if (err || q->link)
		return err ? err : backing_symlink(&as, q->text, dir, staging);
	fd = backing_create(&as, dir, staging, O_WRONLY | O_EXCL, q->mode, &created);
	if (fd < 0)
		return fd;
	n = backing_write(&b, fd, q->text, strlen(q->text), 0, 0);
	err = n < 0 ? (int)n : backing_utimens(&b, fd, times);
	return err ? err : backing_sync(&b, fd, false);
}

static bool lists_removal(const struct order *o, const char *name)
{
	size_t i;

	for (i = 0; i < o->nr_removals; i++)
		if (!strcmp(o->removals[i].name, name))
			return true;
	return false;
}

static void prepare_left(struct checkpoint *cp, struct following *f)
{
	__cleanup_free struct left_pointer *left = calloc(LEFT_POINTERS_MAX, sizeof(*left));
	__cleanup_free struct order *removals = calloc(1, sizeof(*removals));
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	struct order *o = &f->order;
	char staging[STAGING_MAX];
	size_t nr, i;

	f->own_pointers = o->nr_pointers;
	f->own_removals = o->nr_removals;
	if (!left || !removals)
		return;
	nr = accord_left_pointers(cp, left, removals);
	for (i = 0; i < nr && o->nr_pointers < ORDER_MAX; i++) {
		struct target t = cp->target;
		size_t before = o->nr_pointers;

		memcpy(t.name, left[i].name, sizeof(t.name));
		*staging = '\0';
		if (order_has_pointer(o, t.name))
			continue;
		if (!stage(cp, &left[i], staging))
			list_pointer(cp, &t, staging, left[i].written_ns);
		if (o->nr_pointers == before && *staging)
			backing_unlink(&b, t.dir, staging, false);
	}
	for (i = 0; i < removals->nr_removals && o->nr_removals < ORDER_MAX; i++)
		if (!lists_removal(o, removals->removals[i].name))
			o->removals[o->nr_removals++] = removals->removals[i];
}

void following_prepare(struct checkpoint *cp)
{
	struct following *f = cp->following;

	if (!f || f->recorded)
		return;
	memset(&f->order, 0, sizeof(f->order));
	prepare_written(cp, f);
	prepare_held(cp, f);
	removals_list(cp, &f->order);
	prepare_left(cp, f);
}

/* --- applying --- */

static struct order_place place_of(struct checkpoint *cp, struct backing *b)
{
	return (struct order_place){.backing = b,
				    .owner = &cp->owner,
				    .rules = cp->units->rules,
				    .dir = cp->target.dir,
				    .unit = cp->target.name,
				    .id = cp->staging + strlen(STAGING_PREFIX)};
}

void following_point(struct checkpoint *cp)
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	const struct order_place p = place_of(cp, &b);
	struct following *f = cp->following;
	size_t i;

	if (!f)
		return;
	for (i = 0; i < f->nr_written; i++) {
		struct error e = {0};
		bool named;
		int err = publish_name(f->written[i], &named, &e);

		f->waits = f->waits || (err && err != -EBUSY);
		publish_end(f->written[i], named ? GENERATION_COMMITTED : GENERATION_DROPPED, err,
			    named, e.text);
		generation_put(f->written[i]);
	}
	f->nr_written = 0;
	for (i = 0; i < f->nr_held; i++) {
		struct held *h = f->held[i];
		int err = held_apply(h);

		f->waits = f->waits || (err && err != -ESTALE);
		{
			LOCK_SCOPE(&cp->units->lock);
			held_let_go_locked(h, !err);
		}
		held_put(h);
	}
	f->nr_held = 0;
	for (i = f->own_pointers; i < f->order.nr_pointers; i++)
		f->waits |= order_point(&p, &f->order.pointers[i]) < 0;
	if (f->own_pointers < f->order.nr_pointers)
		f->waits |= backing_sync_dir(&b, p.dir) != 0;
}

bool following_remove(struct checkpoint *cp)
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	const struct order_place p = place_of(cp, &b);
	struct following *f = cp->following;
	char trash[STAGING_MAX];
	bool waits;
	size_t i;
	int err;

	if (!f)
		return true;
	for (i = 0; !f->waits && i < f->own_removals; i++)
		removal_apply_due(cp->units, &cp->target.dir_id, f->order.removals[i].name);
	for (; !f->waits && i < f->order.nr_removals; i++) {
		err = order_remove(&p, &f->order.removals[i], trash);
		if (err == 1)
			trash_empty_later(cp->units, &cp->owner, p.dir, trash);
		f->waits = err < 0;
	}
	waits = f->waits;
	free(f);
	cp->following = NULL;
	return !waits;
}

/* Removes what stage() made, unless the decision may refer to it. */
static void remove_left(struct checkpoint *cp, struct following *f)
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	size_t i;

	if (f->recorded && !accord_is_decided_elsewhere(cp))
		return;
	for (i = f->own_pointers; i < f->order.nr_pointers; i++)
		backing_unlink(&b, cp->target.dir, f->order.pointers[i].staging, false);
}

void following_release(struct checkpoint *cp)
{
	struct following *f = cp->following;
	size_t i;

	if (!f)
		return;
	for (i = 0; i < f->nr_written; i++) {
		generation_let_go(f->written[i], 0);
		generation_put(f->written[i]);
	}
	for (i = 0; i < f->nr_held; i++) {
		{
			LOCK_SCOPE(&cp->units->lock);
			held_let_go_locked(f->held[i], false);
		}
		held_put(f->held[i]);
	}
	remove_left(cp, f);
	free(f);
	cp->following = NULL;
}
