/* SPDX-License-Identifier: MIT */
#include "engine/unit/removal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/base/log.h"
#include "engine/base/wait.h"
#include "engine/unit/drain.h"
#include "engine/unit/internal.h"
#include "engine/unit/replace.h"
#include "engine/unit/room.h"
#include "engine/unit/rules.h"
#include "engine/unit/trash.h"

#define LOOK_AGAIN_NS (200 * NSEC_PER_MSEC)

/* A name that was removed. */
struct hidden {
	struct table_node node; /* units->removed */
	struct list link;	/* part.hidden */
	const struct removal *removal;
	struct inode_id dir;
	char name[];
};

/* What one job, or one person, has removed of it. */
struct part {
	struct list link; /* removal.parts */
	struct caller owner;
	struct process *process; /* who did so last, referenced */
	bool watched;		 /* that */
	struct list hidden;
};

struct removal {
	struct list link;
	struct list parts; /* of who has removed something last comes last */
	int dir;	   /* of the unit's parent */
	struct inode_id dir_id, id;
	char name[NAME_MAX + 1];
	bool file;     /* a checkpoint of one */
	bool whole;    /* its own name was removed, too */
	bool emptied;  /* no file is left in it, and it waits as if it were whole */
	bool due;      /* a newer one was committed */
	bool replaced; /* ... and has its name */
	bool named;    /* ... but a pointer names it, when that was looked at last */
	bool left;     /* who removed it has ended, and nothing newer was there then */
	unsigned busy; /* BUSY_APPLY: a thread is at it */
	uint64_t since_ns, changed_ns, again_ns;
	unsigned looked_at; /* by which removals_hasten last */
};

/* One whose name is another's by now is no longer a removal of that name. */
static struct removal *find_locked(struct units *us, const struct inode_id *dir, const char *name)
{
	struct list *l;

	list_for_each (l, &us->removals) {
		struct removal *r = container_of(l, struct removal, link);

		if (!r->replaced && same_inode(&r->dir_id, dir) && !strcmp(r->name, name))
			return r;
	}
	return NULL;
}

static struct unit_place place_of(const struct removal *r)
{
	return (struct unit_place){r->dir, r->dir_id, r->id, r->name, r->file};
}

/* Whose removal it is, if it is whole. Lock held, or it is taken. */
static struct part *last_part(const struct removal *r)
{
	return container_of(r->parts.prev, struct part, link);
}

/* Nothing is hidden for it. */
static void destroy_part(struct part *part)
{
	if (part->watched)
		jobs_unwatch(part->process);
	process_put(part->process);
	free(part);
}

/* Off the list, and nothing is hidden for it. */
static void destroy(struct removal *r)
{
	while (!list_empty(&r->parts)) {
		struct part *part = last_part(r);

		list_del(&part->link);
		destroy_part(part);
	}
	if (r->dir >= 0)
		close(r->dir);
	free(r);
}

static void unhide_locked(struct units *us, struct part *part)
{
	while (!list_empty(&part->hidden)) {
		struct hidden *h = container_of(part->hidden.next, struct hidden, link);

		table_del(&us->removed, &h->node);
		list_del(&h->link);
		free(h);
	}
}

static void list_remove_locked(struct units *us, struct removal *r)
{
	struct list *l;

	list_for_each (l, &r->parts)
		unhide_locked(us, container_of(l, struct part, link));
	list_del(&r->link);
	atomic_fetch_sub(&us->nr_removals, 1);
}

/* What was removed with that is there again, and no more than a part was. */
static void undo_locked(struct units *us, struct removal *r, struct part *part)
{
	unhide_locked(us, part);
	list_del(&part->link);
	r->whole = r->emptied = r->left = r->named = false;
}

/* Nobody is at it any more; @done: it is off the list. */
static void let_go_locked(struct units *us, struct removal *r, bool done)
{
	busy_end(us, &r->busy, BUSY_APPLY);
	r->again_ns = clock_mono_ns() + LOOK_AGAIN_NS;
	if (done)
		list_remove_locked(us, r);
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
		    strcmp(cp->target.name, name) && job_same(p, cp->maker))
			return true;
	}
	return p->tgid && known_find(&us->savers, p, hash_inode(dir));
}

void removal_note_saver_locked(struct units *us, struct process *p, const struct inode_id *dir)
{
	if (p->tgid)
		known_make(&us->savers, p, hash_inode(dir)); /* without memory it saves none */
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
	list_append(&last_part(r)->hidden, &h->link);
	table_add(&us->removed, &h->node, hash_name(dir, name));
	r->changed_ns = clock_mono_ns();
	return 0;
}

/* What is not committed yet of that name, but for @own. */
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
 * Drops the lock while it waits. What is being changed right now takes along what is not removed by
 * then. -ESTALE: a change of it is there, or was just committed, in which the name is to be
 * removed. -EINTR.
 */
static int await_rest_locked(struct units *us, const struct unit_place *u,
			     const struct checkpoint *own)
{
	bool changed = false;
	int err = 0;

	while (!err) {
		const struct checkpoint *change = find_change_locked(us, u, own);
		const struct removal *r = find_locked(us, &u->dir_id, u->name);

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
 * @new becomes a part of @r, or that of the same job goes on with its process. What is left over.
 */
static struct part *add_part_locked(struct removal *r, struct part *new)
{
	struct list *l;

	list_for_each (l, &r->parts) {
		struct part *part = container_of(l, struct part, link);

		if (!job_same(part->process, new->process))
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
		r = err ? NULL : find_locked(us, &u->dir_id, u->name);
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
		destroy_part(part);
	if (new)
		destroy(new);
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
		struct removal *r = find_locked(us, &u->dir_id, u->name);

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

bool removals_hide(struct units *us, const struct inode_id *dir, const char *name)
{
	struct list *l;

	if (!atomic_load(&us->nr_removals))
		return false;
	LOCK_SCOPE(&us->lock);
	table_for_each (l, &us->removed, hash_name(dir, name)) {
		const struct hidden *h = container_of(l, struct hidden, node.link);

		/* What one that was replaced has hidden is gone, and its name another's. */
		if (!h->removal->replaced && same_inode(&h->dir, dir) && !strcmp(h->name, name))
			return true;
	}
	return false;
}

bool removals_next_seen(struct units *us, const struct inode_id *dir, struct dirwalk *w)
{
	while (rules_next_visible(w))
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
	/* Without memory it is seen again. What was removed before waits as it did. */
}

/* --- when it is applied --- */

static bool is_it(void *removal, int pin, const struct statx *stx)
{
	const struct removal *r = removal;
	struct inode_id id = inode_id_of(stx);

	(void)pin;
	return same_inode(&id, &r->id);
}

/* What is left of it begins to replace it. */
static int change(struct units *us, const struct removal *r)
{
	const struct part *part = last_part(r);
	struct checkpoint *cp;
	int err = checkpoint_inherit_now(us, &part->owner, part->process,
					 &(struct place){r->dir, r->dir_id, r->name}, r->changed_ns,
					 r->emptied, &cp);

	checkpoint_put(cp);
	return err;
}

/* (O7) Leaves the backing: to trash, unless the name is another's by now. */
static int apply(struct units *us, struct removal *r)
{
	const struct caller *owner = &last_part(r)->owner;
	char id[STAGING_MAX];
	int err;

	if (!r->whole)
		return change(us, r);
	err = trash_put(us->contents->backing, owner, r->dir, r->name, is_it, r, id);
	if (err == 1)
		trash_empty_later(us, owner, r->dir, id);
	return err < 0 ? err : 0;
}

/* The same when it is due: not as long as a pointer names it, which may change, but not for ever. */
static int apply_due(struct units *us, struct removal *r)
{
	bool named = !r->replaced && clock_mono_ns() - r->since_ns < us->order_ns &&
		     order_is_named(us->contents->backing, us->rules, r->dir, r->name, NULL);
	{
		LOCK_SCOPE(&us->lock);
		r->named = named;
	}
	return named ? -EAGAIN : apply(us, r);
}

/* Is a new one about to get its name? */
static bool is_being_replaced_locked(struct units *us, const struct removal *r)
{
	const struct generation *g;
	struct list *l;

	live_for_each_of (g, &us->live, &r->dir_id, r->name)
		if (generation_is_held_locked(g))
			return true;

	list_for_each (l, &us->checkpoints) {
		const struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (checkpoint_is_held_locked(cp) && same_inode(&cp->target.dir_id, &r->dir_id) &&
		    !strcmp(cp->target.name, r->name))
			return true;
	}
	return false;
}

int removal_make_way(struct units *us, const struct inode_id *dir, const char *name)
{
	struct removal *r;
	int err = 0;
	{
		LOCK_SCOPE(&us->lock);
		while (!err && (r = find_locked(us, dir, name)) &&
		       (r->busy || (r->file && is_being_replaced_locked(us, r))))
			err = units_wait(us);
		if (err || !r || !r->whole)
			return err;
		busy_begin(&r->busy, BUSY_APPLY);
	}
	err = apply(us, r);
	{
		LOCK_SCOPE(&us->lock);
		let_go_locked(us, r, !err);
	}
	if (!err)
		destroy(r);
	return err;
}

int removal_of_file_makes_way(struct units *us, const struct inode_id *dir, const char *name)
{
	const struct removal *r;
	bool file;

	if (!atomic_load(&us->nr_removals))
		return 0;
	{
		LOCK_SCOPE(&us->lock);
		r = find_locked(us, dir, name);
		file = r && r->file;
	}
	return file ? removal_make_way(us, dir, name) : 0;
}

int removal_moved(struct units *us, const struct inode_id *from_dir, const char *from,
		  const struct place *at)
{
	struct removal *r;
	int err = 0, copy;

	if (!atomic_load(&us->nr_removals))
		return 0;
	copy = backing_dup(us->contents->backing, at->dir);
	if (copy < 0)
		return copy;
	{
		LOCK_SCOPE(&us->lock);
		while (!err && (r = find_locked(us, from_dir, from)) && r->busy)
			err = units_wait(us);
		if (!err && r && !r->whole) {
			int old = r->dir;

			r->dir = copy;
			copy = old;
			r->dir_id = at->id;
			snprintf(r->name, sizeof(r->name), "%s", at->name);
		}
	}
	close(copy);
	return err;
}

bool removal_is_applied_locked(struct units *us, const struct inode_id *dir, const char *name)
{
	const struct removal *r = find_locked(us, dir, name);

	return r && r->busy;
}

static bool is_for_locked(const struct removal *r, const struct checkpoint *cp)
{
	return !r->file && same_inode(&r->dir_id, &cp->target.dir_id) &&
	       job_same(last_part(r)->process, cp->maker);
}

/* The same of a checkpoint of one file: @name in @dir is, or will be, one of the job of @maker. */
static bool is_for_file_locked(struct units *us, const struct removal *r,
			       const struct process *maker, const struct inode_id *dir,
			       const char *name)
{
	const struct rule *rule = r->file ? rules_single(us->rules, name) : NULL;

	return rule && !rule_is_temp(rule, name) && rule == rules_single(us->rules, r->name) &&
	       same_inode(&r->dir_id, dir) && job_same(last_part(r)->process, maker);
}

/* In the record it is known by its generation. */
static void list_one(struct checkpoint *cp, const char name[NAME_MAX + 1],
		     const struct inode_id *id, struct order *order)
{
	struct backing *b = cp->units->contents->backing;
	struct order_removal *r = &order->removals[order->nr_removals];
	__cleanup_fd int pin = backing_pin(b, cp->target.dir, name);
	struct inode_id there;
	struct statx stx;

	if (pin < 0 || backing_stat(b, pin, &stx) || stx.stx_uid != cp->owner.uid)
		return;
	there = inode_id_of(&stx);
	if (!same_inode(&there, id) || unit_generation(b, pin, r->generation) ||
	    order_is_named(b, cp->units->rules, cp->target.dir, name, order))
		return;
	memcpy(r->name, name, sizeof(r->name));
	order->nr_removals++;
}

void removals_list(struct checkpoint *cp, struct order *order)
{
	struct {
		char name[NAME_MAX + 1];
		struct inode_id id;
	} found[ORDER_MAX];
	struct units *us = cp->units;
	size_t nr = 0, i;
	struct list *l;

	if (cp->follows || !atomic_load(&us->nr_removals))
		return;
	{
		LOCK_SCOPE(&us->lock);
		list_for_each (l, &us->removals) {
			const struct removal *r = container_of(l, struct removal, link);

			if (nr == ORDER_MAX)
				break;
			if (!r->whole || r->busy || r->replaced || !is_for_locked(r, cp) ||
			    !strcmp(r->name, cp->target.name))
				continue;
			memcpy(found[nr].name, r->name, sizeof(found[nr].name));
			found[nr++].id = r->id;
		}
	}
	for (i = 0; i < nr; i++)
		list_one(cp, found[i].name, &found[i].id, order);
}

void removal_apply_due(struct units *us, const struct inode_id *dir, const char *name)
{
	struct removal *r;
	int err;
	{
		LOCK_SCOPE(&us->lock);
		/* Whoever asks forgets the decision after that, by which it would be redone. */
		while ((r = find_locked(us, dir, name)) && r->busy)
			if (units_wait(us))
				return;
		if (!r || !r->due || !r->whole || is_being_replaced_locked(us, r))
			return; /* it was made way for, or will be */
		busy_begin(&r->busy, BUSY_APPLY);
	}
	err = apply_due(us, r);
	{
		LOCK_SCOPE(&us->lock);
		let_go_locked(us, r, !err);
	}
	if (!err)
		destroy(r);
}

void removals_committed_locked(struct units *us, const struct checkpoint *cp)
{
	struct list *l;

	list_for_each (l, &us->removals) {
		struct removal *r = container_of(l, struct removal, link);

		if (!cp->follows && is_for_locked(r, cp))
			r->due = true;
		if (same_inode(&r->dir_id, &cp->target.dir_id) && !strcmp(r->name, cp->target.name))
			r->replaced = r->due = r->whole = true;
	}
}

void removal_of_file_replaced_locked(struct units *us, const struct inode_id *dir, const char *name)
{
	struct removal *r = atomic_load(&us->nr_removals) ? find_locked(us, dir, name) : NULL;

	if (r && r->file)
		r->replaced = r->due = true;
}

void removals_published_locked(struct units *us, const struct process *maker,
			       const struct inode_id *dir, const char *name)
{
	struct list *l;

	removal_of_file_replaced_locked(us, dir, name);
	list_for_each (l, &us->removals) {
		struct removal *r = container_of(l, struct removal, link);

		r->due = r->due || (maker && is_for_file_locked(us, r, maker, dir, name));
	}
}

void removal_renamed_over(struct units *us, const struct process *maker, const struct inode_id *dir,
			  const char *name)
{
	if (!atomic_load(&us->nr_removals))
		return;
	LOCK_SCOPE(&us->lock);
	removals_published_locked(us, maker, dir, name);
	waitq_wake(&us->commits);
}

enum fate { WAIT, APPLY, LOOK, CHANGE, UNDO };

/*
 * Has who removes it died? A person's `rm` that exits with an error has said what it could not remove; a job
 * that does was not done.
 */
static bool remover_died(const struct part *part)
{
	struct writer_end end;

	return process_is_gone(part->process, &end) && end.fate == WRITER_DIED &&
	       (end.code < 0 || part->process->world > 1);
}

/* Of one who has removed it in part. */
static struct part *cut_short_locked(const struct removal *r)
{
	struct list *l;

	list_for_each (l, &r->parts)
		if (remover_died(container_of(l, struct part, link)))
			return container_of(l, struct part, link);
	return NULL;
}

/* May one that its job is saving be committed yet? */
static bool may_be_followed_locked(struct units *us, const struct removal *r)
{
	struct list *l;

	list_for_each (l, &us->checkpoints) {
		const struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (is_for_locked(r, cp))
			return true;
	}
	if (!r->file)
		return false;
	list_for_each (l, &us->live.all) {
		const struct generation *g = container_of(l, struct generation, link);

		/* A temporary name may yet be changed. */
		if (g->maker && same_inode(&r->dir_id, &g->target.dir_id) &&
		    job_same(last_part(r)->process, g->maker))
			return true;
	}
	return false;
}

/* Has one failed that its job saved on several nodes? Somebody of it may have died on another. */
static bool has_failed_locked(struct units *us, const struct removal *r)
{
	struct list *l;

	list_for_each (l, &us->wrecks.all) {
		const struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (cp->accord && is_for_locked(r, cp))
			return true;
	}
	return false;
}

/* Who removes it is gone, and his job, which did not come to its end, saves no other. */
static bool is_given_up_locked(struct units *us, const struct removal *r)
{
	const struct part *part = last_part(r);
	struct writer_end end;

	return process_is_gone(part->process, &end) &&
	       (remover_died(part) || has_failed_locked(us, r)) && !may_be_followed_locked(us, r);
}

/* It is in part, and stays so: have all who removed something ended, and well? */
static bool is_left_in_part_locked(const struct removal *r)
{
	struct writer_end end;
	struct list *l;

	list_for_each (l, &r->parts)
		if (!process_is_gone(container_of(l, struct part, link)->process, &end) ||
		    end.fate != WRITER_EXITED_OK)
			return false;
	return !r->whole && !r->emptied;
}

bool removals_any_in_part(struct units *us, const struct drain *d)
{
	struct list *l;

	list_for_each (l, &us->removals) {
		const struct removal *r = container_of(l, struct removal, link);

		if (is_left_in_part_locked(r) &&
		    drain_covers_locked(d, last_part(r)->process, last_part(r)->owner.uid))
			return true;
	}
	return false;
}

/* Does a drain wait for it? */
static bool is_drained_locked(const struct units *us, const struct removal *r)
{
	return is_left_in_part_locked(r) &&
	       drains_cover_locked(us, last_part(r)->process, last_part(r)->owner.uid);
}

static enum fate judge_locked(struct units *us, const struct removal *r, uint64_t now)
{
	struct writer_end end;

	if (!r->busy && !r->whole && cut_short_locked(r))
		return UNDO;
	if (r->busy || r->again_ns > now || is_being_replaced_locked(us, r))
		return WAIT;
	if (!r->whole && !r->emptied) /* it wanted to remove but some of it */
		return now - r->changed_ns > us->quiet_ns || is_drained_locked(us, r) ? CHANGE
										      : WAIT;
	if (r->due || FAULT(REMOVAL_EARLY))
		return APPLY;
	if (now - r->since_ns > us->order_ns ||
	    (!r->left && process_is_gone(last_part(r)->process, &end)) || is_given_up_locked(us, r))
		return LOOK;
	return WAIT;
}

/*
 * No other may come, as who removes it has ended, or has waited for too long: one that is newer already
 * will do. *@kept: there is none, and the time is over, or the job did not come to its end.
 */
static int apply_if_newer(struct units *us, struct removal *r, bool *kept)
{
	const struct unit_place u = place_of(r);

	if (unit_has_newer(us, &u))
		return apply_due(us, r);
	r->left = true;
	{
		LOCK_SCOPE(&us->lock);
		*kept = !r->due &&
			(clock_mono_ns() - r->since_ns > us->order_ns || is_given_up_locked(us, r));
	}
	return *kept ? 0 : -EAGAIN;
}

/* Is a file there that was not removed, in the directory @pin, which is taken over, or below? -errno: not known. */
static int has_file(struct units *us, int pin)
{
	struct backing *b = us->contents->backing;
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;
	struct inode_id id;
	struct statx stx;
	int has = pin < 0 ? pin : dirwalk_begin(&w, b, pin);

	if (pin >= 0)
		close(pin);
	if (!has)
		has = backing_stat(b, w.fd, &stx);
	if (has)
		return has;
	id = inode_id_of(&stx);
	while (!has && removals_next_seen(us, &id, &w)) {
		has = backing_stat_at(b, w.fd, w.name, &stx);
		if (!has)
			has = S_ISDIR(stx.stx_mode) ? has_file(us, backing_pin(b, w.fd, w.name))
						    : S_ISREG(stx.stx_mode);
	}
	return has ? has : w.err;
}

/* Of a job, which is not to be without its last one: that is not a change, but waits as if it were whole. */
static bool is_emptied(struct units *us, const struct removal *r)
{
	return removal_waits(us, last_part(r)->process, &r->dir_id, r->name) &&
	       !has_file(us, backing_pin(us->contents->backing, r->dir, r->name));
}

/* Kept, as nothing newer came; or else cut short: what was removed with @part is seen again. */
static void tell_undone(struct units *us, const struct part *part, const char *path, bool kept)
{
	char text[MESSAGE_MAX], how[64];
	struct writer_end end;

	if (kept) {
		MESSAGE(text, REMOVAL_KEPT, path);
	} else {
		process_is_gone(part->process, &end);
		if (end.code < 0)
			snprintf(how, sizeof(how), "was killed by signal %d", -end.code);
		else
			snprintf(how, sizeof(how), "exited with status %d", end.code);
		MESSAGE(text, REMOVAL_CUT_SHORT, path, (int)part->process->tgid, how);
	}
	failures_add(us->failures, part->owner.uid, "removal", path, ECANCELED, text);
}

/* --- what people are told --- */

/* What is said of one, taken with the lock held: its path is asked for without that. */
struct told {
	struct inode_id dir;
	char name[NAME_MAX + 1], waits_for[MESSAGE_MAX];
	struct process *process; /* referenced */
	const char *state;
	uid_t uid;
	uint64_t since_ns;
};

/* What it waits for, in words. */
static void waits_for_locked(const struct units *us, const struct removal *r, char *buf,
			     size_t size)
{
	uint64_t left = r->since_ns + us->order_ns - clock_mono_ns();

	if (!r->whole && !r->emptied)
		snprintf(buf, size,
			 "the rest of it to be removed, too; else that is a change to it, made "
			 "after %llu s of silence",
			 (unsigned long long)(us->quiet_ns / NSEC_PER_SEC));
	else if (!r->due)
		snprintf(buf, size,
			 "the commit of the next checkpoint of its job beside it; if none comes "
			 "within %llu s, it is kept",
			 (unsigned long long)(left > us->order_ns ? 0 : left / NSEC_PER_SEC));
	else if (r->named)
		snprintf(buf, size, "a pointer that still names it");
	else
		snprintf(buf, size, "its turn: a newer one of its job is committed");
}

static void tell_locked(const struct units *us, const struct removal *r, struct told *t)
{
	t->dir = r->dir_id;
	memcpy(t->name, r->name, sizeof(t->name));
	t->process = process_get(last_part(r)->process);
	t->state = r->whole ? "removed" : "removing";
	t->uid = last_part(r)->owner.uid;
	t->since_ns = r->since_ns;
	waits_for_locked(us, r, t->waits_for, sizeof(t->waits_for));
}

/* Lets go of @t. */
static json_t *describe(struct units *us, struct told *t)
{
	char path[PATH_MAX];
	json_t *o;

	units_path(us, &t->dir, t->name, path, sizeof(path));
	o = json_pack("{s:o, s:s, s:I, s:o, s:f, s:s}", "path", json_text(path), "state", t->state,
		      "uid", (json_int_t)t->uid, "job", json_text(t->process->key), "age_s",
		      (double)(clock_mono_ns() - t->since_ns) / NSEC_PER_SEC, "waits_for",
		      t->waits_for);
	process_put(t->process);
	return o;
}

json_t *removals_to_json(struct units *us, uid_t viewer, bool all)
{
	__cleanup_free struct told *told = NULL;
	json_t *list = json_array();
	struct list *l;
	size_t nr = 0, i;
	{
		LOCK_SCOPE(&us->lock);
		told = calloc(atomic_load(&us->nr_removals) + 1, sizeof(*told));
		list_for_each (l, &us->removals) {
			const struct removal *r = container_of(l, struct removal, link);

			if (told && !r->replaced && (all || last_part(r)->owner.uid == viewer))
				tell_locked(us, r, &told[nr++]);
		}
	}
	for (i = 0; i < nr; i++)
		json_array_append_new(list, describe(us, &told[i]));
	return list;
}

json_t *removal_describe(struct units *us, const struct inode_id *dir, const char *name)
{
	const struct removal *r;
	struct told t;
	{
		LOCK_SCOPE(&us->lock);
		r = find_locked(us, dir, name);
		if (!r || !r->whole)
			return NULL;
		tell_locked(us, r, &t);
	}
	return describe(us, &t);
}

bool removals_work_locked(struct units *us)
{
	uint64_t now = clock_mono_ns();
	struct removal *r = NULL;
	struct part *part = NULL;
	enum fate fate = WAIT;
	char path[PATH_MAX];
	bool kept = false, emptied = false;
	struct list *l;
	int err = 0;

	list_for_each (l, &us->removals) {
		r = container_of(l, struct removal, link);
		fate = judge_locked(us, r, now);
		if (fate != WAIT)
			break;
	}
	if (fate == WAIT)
		return false;
	busy_begin(&r->busy, BUSY_APPLY);
	part = last_part(r);
	lock_drop(&us->lock);
	units_path(us, &r->dir_id, r->name, path, sizeof(path));
	creds_on_behalf(&part->owner);
	if (fate == APPLY)
		err = apply_due(us, r);
	else if (fate == LOOK)
		err = apply_if_newer(us, r, &kept);
	else if (fate == CHANGE && is_emptied(us, r))
		emptied = true;
	else if (fate == CHANGE)
		err = change(us, r);
	creds_on_behalf(NULL);
	lock_take(&us->lock);
	if (kept && r->due) { /* a newer one was committed just now */
		kept = false;
		err = -EAGAIN;
	}
	part = kept ? part : fate == UNDO ? cut_short_locked(r) : NULL;
	if (part)
		undo_locked(us, r, part);
	r->emptied = r->emptied || emptied;
	if (emptied || (part && !list_empty(&r->parts)))
		err = -EAGAIN;
	let_go_locked(us, r, !err);
	if (!part && err)
		return true;
	lock_drop(&us->lock);
	if (part) {
		tell_undone(us, part, path, kept);
		destroy_part(part);
	}
	if (!err)
		destroy(r);
	lock_take(&us->lock);
	return true;
}

static struct removal *take_next_locked(struct units *us, unsigned round)
{
	struct list *l;

	list_for_each (l, &us->removals) {
		struct removal *r = container_of(l, struct removal, link);

		if (!r->whole || r->busy || r->looked_at == round ||
		    is_being_replaced_locked(us, r))
			continue;
		busy_begin(&r->busy, BUSY_APPLY);
		r->looked_at = round;
		return r;
	}
	return NULL;
}

bool removals_hasten(struct units *us,
		     bool (*may)(void *arg, const struct unit_place *u, uid_t uid, bool named),
		     void *arg)
{
	struct unit_place u;
	struct removal *r;
	bool done = false;
	unsigned round;
	{
		LOCK_SCOPE(&us->lock);
		round = ++us->room.rounds;
	}
	while (!done) {
		{
			LOCK_SCOPE(&us->lock);
			r = take_next_locked(us, round);
		}
		if (!r)
			return false;
		creds_on_behalf(&last_part(r)->owner);
		u = place_of(r);
		done = may(arg, &u, last_part(r)->owner.uid,
			   order_is_named(us->contents->backing, us->rules, r->dir, r->name,
					  NULL)) &&
		       !apply(us, r);
		creds_on_behalf(NULL);
		LOCK_SCOPE(&us->lock);
		let_go_locked(us, r, done);
	}
	log_info("'%s', which was removed, has left the backing before a newer one was committed: "
		 "there was no room",
		 r->name);
	destroy(r);
	return true;
}

void removals_finish(struct units *us)
{
	while (!list_empty(&us->removals)) {
		struct removal *r = container_of(us->removals.next, struct removal, link);
		const struct unit_place u = place_of(r);
		bool gone;

		creds_on_behalf(&last_part(r)->owner);
		gone = r->whole && (r->due || unit_has_newer(us, &u)) && !apply_due(us, r);
		creds_on_behalf(NULL);
		if (!gone)
			log_info("'%s' was removed in the mount, and is kept on the backing: no "
				 "newer checkpoint was committed beside it, or a pointer names it",
				 r->name);
		list_remove_locked(us, r);
		destroy(r);
	}
}
