/* SPDX-License-Identifier: MIT */
#include "engine/unit/journal_removal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/base/wait.h"
#include "engine/unit/journal_removal_impl.h"

#define LOOK_AGAIN_NS (200 * NSEC_PER_MSEC)

/* A name that was removed. */
struct hidden {
	struct table_node node; /* units->removed */
	struct list link;	/* part.hidden */
	const struct removal *removal;
	struct inode_id dir;
	char name[];
};

struct removal *removal_find_locked(struct units *us, const struct inode_id *dir, const char *name)
{
	struct list *l;

	list_for_each (l, &us->removals) {
		struct removal *r = container_of(l, struct removal, link);

		if (!r->replaced && same_inode(&r->dir_id, dir) && !strcmp(r->name, name))
			return r;
	}
	return NULL;
}

struct unit_place removal_place_of(const struct removal *r)
{
	return (struct unit_place){r->dir, r->dir_id, r->id, r->name, r->file};
}

struct part *removal_last_part(const struct removal *r)
{
	return container_of(r->parts.prev, struct part, link);
}

void removal_destroy_part(struct part *part)
{
	if (part->watched)
		jobs_unwatch(part->process);
	process_put(part->process);
	free(part);
}

void removal_destroy(struct removal *r)
{
	while (!list_empty(&r->parts)) {
		struct part *part = removal_last_part(r);

		list_del(&part->link);
		removal_destroy_part(part);
	}
	if (r->dir >= 0)
		close(r->dir);
	free(r);
}

static void unhide_locked(struct units *us, struct part *part)
{
	while (!list_empty(&part->hidden)) {
		struct hidden *h = container_of(part->hidden.next, struct hidden, link);

		/* First: a thread that misses it in the table sees the new number. */
		atomic_fetch_add(&us->unhidden, 1);
		table_del(&us->removed, &h->node);
		list_del(&h->link);
		free(h);
	}
}

void removal_list_remove_locked(struct units *us, struct removal *r)
{
	struct list *l;

	list_for_each (l, &r->parts)
		unhide_locked(us, container_of(l, struct part, link));
	list_del(&r->link);
	atomic_fetch_sub(&us->nr_removals, 1);
}

void removal_undo_locked(struct units *us, struct removal *r, struct part *part)
{
	unhide_locked(us, part);
	list_del(&part->link);
	r->whole = r->emptied = r->left = r->named = false;
}

void removal_let_go_locked(struct units *us, struct removal *r, bool done)
{
	busy_end(us, &r->busy, BUSY_APPLY);
	r->looked = false;
	r->again_ns = clock_mono_ns() + LOOK_AGAIN_NS;
	if (done)
		removal_list_remove_locked(us, r);
	waitq_wake(&us->commits);
}

bool removal_waits(struct units *us, const struct process *p, const struct inode_id *dir,
		   const char *name)
{
	struct list *l;

	if (p->world > 1)
		return true;
	LOCK_SCOPE(&us->lock);
	list_for_each (l, &us->checkpoints) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (cp->visible && same_inode(&cp->target.dir_id, dir) &&
		    strcmp(cp->target.name, name) && epoch_same(p, cp->maker))
			return true;
	}
	return p->tgid && known_find(&us->savers, p, hash_inode(dir));
}

void removal_note_saver_locked(struct units *us, struct process *p, const struct inode_id *dir)
{
	if (p->tgid)
		known_make(&us->savers, p, hash_inode(dir)); /* without memory: no saver */
}

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

static int hide_locked(struct units *us, struct removal *r, const struct inode_id *dir,
		       const char *name)
{
	size_t size = strlen(name) + 1;
	struct hidden *h = malloc(sizeof(*h) + size);

	if (!h)
		return -ENOMEM;
	h->removal = r;
	h->dir = *dir;
	memcpy(h->name, name, size);
	list_append(&removal_last_part(r)->hidden, &h->link);
	table_add(&us->removed, &h->node, hash_name(dir, name));
	r->changed_ns = clock_mono_ns();
	return 0;
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
			err = hide_locked(us, r, dir, name);
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

bool removals_any(struct units *us)
{
	return atomic_load(&us->nr_removals);
}

unsigned removals_unhidden(const struct units *us)
{
	return atomic_load(&us->unhidden);
}

bool removals_hide(struct units *us, const struct inode_id *dir, const char *name)
{
	struct list *l;

	if (!atomic_load(&us->nr_removals))
		return false;
	LOCK_SCOPE(&us->lock);
	table_for_each (l, &us->removed, hash_name(dir, name)) {
		const struct hidden *h = container_of(l, struct hidden, node.link);

		/* What a replaced removal hid is gone, and the names are another's. */
		if (!h->removal->replaced && same_inode(&h->dir, dir) && !strcmp(h->name, name))
			return true;
	}
	return false;
}

bool removals_next_seen(struct units *us, const struct inode_id *dir, struct dirwalk *w)
{
	while (dirwalk_next_visible(w))
		if (!removals_hide(us, dir, w->name))
			return true;
	return false;
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
