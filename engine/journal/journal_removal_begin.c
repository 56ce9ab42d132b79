/* SPDX-License-Identifier: MIT */
/*
 * Begins removals: a process removes names of a committed checkpoint, and at last its own.
 *
 * Takes the units' lock, and drops it while it waits. Does not say when the removal is applied.
 */
#include "engine/journal/journal_removal_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/lock.h"

static struct part *make_part(const struct caller *c, struct process *p)
{
	struct part *part = calloc(1, sizeof(*part));

	if (!part)
		return NULL;
	part->owner = *c;
	part->process = process_get(p);
	part->watched = !jobs_watch(p);
	list_init(&part->hidden);
	return part;
}

static struct removal *make(struct units *us, const struct unit_place *u)
{
	struct removal *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	list_init(&r->parts);
	r->dir = backing_dup(us->contents->backing, u->dir);
	r->dir_id = u->dir_id;
	r->id = u->id;
	r->file = u->file;
	r->since_ns = clock_mono_ns();
	snprintf(r->name, sizeof(r->name), "%s", u->name);
	return r;
}

/* Finds an unfinished checkpoint of that name, except @own. */
static const struct checkpoint *find_change_locked(struct units *us, const struct unit_place *u,
						   const struct checkpoint *own)
{
	struct list *l;

	list_for_each (l, &us->checkpoints) {
		const struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (cp != own && cp->visible && same_inode(&cp->target.dir_id, &u->dir_id) &&
		    !strcmp(cp->target.name, u->name))
			return cp;
	}
	return NULL;
}

/*
 * Waits, with the lock dropped, for threads that are changing or removing the unit. A change
 * inherits all names that are not removed by then. -ESTALE: a change exists, or was just committed,
 * and the name is to be removed in it. -EINTR.
 */
static int await_rest_locked(struct units *us, const struct unit_place *u,
			     const struct checkpoint *own)
{
	bool changed = false;
	int err = 0;

	while (!err) {
		const struct checkpoint *change = find_change_locked(us, u, own);
		const struct removal *r = removal_find_locked(us, &u->dir_id, u->name);

		changed = changed || change;
		if (change && checkpoint_rests_in_locked(change, GENERATION_OPEN))
			break;
		if (!change && !(us->busy & BUSY_INHERIT) && !(r && r->busy))
			break;
		err = units_wait(us);
	}
	return err ? err : changed ? -ESTALE : 0;
}

/*
 * Makes @new a part of @r; or gives the part of the same job the process of @new. Returns the part
 * that is left over.
 */
static struct part *add_part_locked(struct removal *r, struct part *new)
{
	struct list *l;

	list_for_each (l, &r->parts) {
		struct part *part = container_of(l, struct part, link);

		if (!epoch_same(part->process, new->process))
			continue;
		list_del(&part->link);
		list_append(&part->hidden, &new->hidden);
		list_del(&part->hidden); /* the names are in the other's list */
		list_append(&r->parts, &new->link);
		return part;
	}
	list_append(&r->parts, &new->link);
	return NULL;
}

static int note(struct units *us, const struct caller *c, struct process *p,
		const struct unit_place *u, const struct inode_id *dir, const char *name,
		const struct checkpoint *own)
{
	struct removal *new = make(us, u), *r;
	struct part *part = new ? make_part(c, p) : NULL;
	int err = part ? 0 : -ENOMEM;

	if (!err) {
		LOCK_SCOPE(&us->lock);
		err = await_rest_locked(us, u, own);
		r = err ? NULL : removal_find_locked(us, &u->dir_id, u->name);
		if (!err && !r) {
			r = new;
			new = NULL;
			list_append(&us->removals, &r->link);
			atomic_fetch_add(&us->nr_removals, 1);
		}
		if (!err) {
			part = add_part_locked(r, part);
			err = removal_hide_locked(us, r, dir, name);
		}
	}
	if (part)
		removal_destroy_part(part);
	if (new)
		removal_destroy(new);
	return err;
}

int removal_note(struct units *us, const struct caller *c, struct process *p,
		 const struct unit_place *u, const struct inode_id *dir, const char *name)
{
	return note(us, c, p, u, dir, name, NULL);
}

void removal_complete(struct units *us, const struct process *p, const struct unit_place *u)
{
	{
		LOCK_SCOPE(&us->lock);
		struct removal *r = removal_find_locked(us, &u->dir_id, u->name);

		if (r)
			r->whole = true;
	}
	if (!removal_waits(us, p, &u->dir_id, u->name))
		removal_make_way(us, &u->dir_id, u->name);
}

void removal_of_replaced(struct checkpoint *cp, const struct caller *c, struct process *p)
{
	struct units *us = cp->units;
	const struct unit_place u = {.dir = cp->target.dir,
				     .dir_id = cp->target.dir_id,
				     .id = cp->replaced,
				     .name = cp->target.name};
	bool removed = removals_hide(us, &u.dir_id, u.name);

	if (!note(us, c, p, &u, &u.dir_id, u.name, cp) && !removed)
		removal_complete(us, p, &u);
	/* Without memory it reappears. What was removed before waits as it did. */
}
