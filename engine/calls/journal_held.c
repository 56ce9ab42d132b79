/* SPDX-License-Identifier: MIT */
#include "engine/calls/journal_held.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/wait.h"
#include "engine/calls/generation_impl.h"
#include "engine/calls/journal_resolve.h"
#include "engine/calls/pointers.h"
#include "engine/flush/flush.h"
#include "engine/journal/journal_pending.h"
#include "engine/journal/journal_removal.h"
#include "engine/journal/journal_written.h"
#include "engine/redo/order.h"

#define AGAIN_NS (200 * NSEC_PER_MSEC)
#define ASK_NS	 NSEC_PER_SEC

/* --- arrival --- */

static struct held *make(struct units *us, const struct caller *c, const struct place *at,
			 const char *names)
{
	struct held *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->units = us;
	h->owner = *c;
	h->refs = 1;
	h->pin = -1;
	list_init(&h->link);
	snprintf(h->names, sizeof(h->names), "%s", names);
	snprintf(h->target.name, sizeof(h->target.name), "%s", at->name);
	h->target.dir_id = at->id;
	h->target.dir = backing_dup(us->contents->backing, at->dir);
	if (h->target.dir < 0 || staging_new(h->staging)) {
		held_put(h);
		return NULL;
	}
	return h;
}

/* Resolves what @h waits for. True if that is a unit, or unknown. Only the caller works on @h. */
static bool resolve_target(struct held *h)
{
	char unit[STAGING_MAX];
	enum pointed what =
		pointer_find(h->units, &h->owner, &h->writer, &h->target, h->names, unit);
	LOCK_SCOPE(&h->units->lock);

	h->asks = what == POINTED_UNKNOWN;
	memcpy(h->waits_for, unit, sizeof(unit));
	return what != POINTED_NOTHING;
}

/* Puts @h, which lies in staging, on the list. */
static int hold(struct held *h)
{
	struct backing b = backing_for(h->units->contents->backing, &h->owner);
	struct statx stx;
	int err;

	h->pin = backing_pin(&b, h->target.dir, h->staging);
	err = h->pin < 0 ? h->pin : backing_stat(&b, h->pin, &stx);
	if (err)
		return err;
	h->id = inode_id_of(&stx);
	h->type = stx.stx_mode & S_IFMT;
	LOCK_SCOPE(&h->units->lock);
	h->since_ns = clock_mono_ns();
	h->since_wall_ns = clock_wall_ns();
	list_append(&h->units->held, &h->link);
	atomic_fetch_add(&h->units->nr_held, 1);
	return 0;
}

int held_link(struct units *us, const struct caller *c, const struct place *at, const char *target)
{
	struct backing b = backing_as(us->contents->backing, c);
	char names[NAME_MAX + 1];
	struct statx stx;
	struct held *h;
	int err;

	if (!rules_link_names(target, names))
		return 0;
	h = make(us, c, at, names);
	if (!h)
		return -ENOMEM;
	err = resolve_target(h) ? backing_stat_at(&b, at->dir, at->name, &stx) : 1;
	if (err != -ENOENT) {
		held_put(h);
		return err == 1 ? 0 : err ? err : -EEXIST;
	}
	err = backing_symlink(&b, target, at->dir, h->staging);
	if (!err) {
		err = hold(h);
		if (err)
			backing_unlink(&b, at->dir, h->staging, false);
	}
	if (!err)
		return 1; /* the list takes over the reference */
	held_put(h);
	return err;
}

/* Over nothing, as far as the backing can promise that. */
static void rename_back(struct backing *b, int dir, const char *staging, int to, const char *name)
{
	struct statx stx;
	int err = backing_rename(b, dir, staging, to, name, RENAME_NOREPLACE);

	if (err == -EINVAL && backing_stat_at(b, to, name, &stx) == -ENOENT)
		backing_rename(b, dir, staging, to, name, 0);
}

int held_rename(struct units *us, const struct caller *c, int from_dir, const char *from,
		const struct place *at, const char *names, struct inode_id *id)
{
	struct backing b = backing_as(us->contents->backing, c);
	struct held *h = make(us, c, at, names);
	int err;

	if (!h)
		return -ENOMEM;
	if (!resolve_target(h)) {
		held_put(h);
		return 0;
	}
	err = backing_rename(&b, from_dir, from, at->dir, h->staging, 0);
	if (!err) {
		err = hold(h);
		if (err)
			rename_back(&b, at->dir, h->staging, from_dir, from);
	}
	*id = h->id;
	if (!err)
		return 1;
	held_put(h);
	return err;
}

/* The newest of that name that is not overtaken. */
static struct held *find_locked(struct units *us, const struct inode_id *dir, const char *name)
{
	struct list *l;

	for (l = us->held.prev; l != &us->held; l = l->prev) {
		struct held *h = container_of(l, struct held, link);

		if (!h->overtaken && same_inode(&h->target.dir_id, dir) &&
		    !strcmp(h->target.name, name))
			return h;
	}
	return NULL;
}

/* Drops the lock while it waits. *@out: referenced, and busy with a rename. -ENOENT, -EINTR. */
static int take_locked(struct units *us, const struct inode_id *dir, const char *name,
		       struct held **out)
{
	struct held *h;
	int err = 0;

	while (!err && (h = find_locked(us, dir, name)) && h->busy)
		err = units_wait(us);
	if (err || !h)
		return err ? err : -ENOENT;
	busy_begin(&h->busy, BUSY_RENAME);
	h->refs++;
	*out = h;
	return 0;
}

int held_move(struct units *us, const struct caller *c, const struct inode_id *from_id,
	      const char *from, const struct place *at, struct inode_id *id)
{
	struct backing b = backing_as(us->contents->backing, c);
	int copy, err;
	struct held *h;
	bool applied;

	if (!atomic_load(&us->nr_held))
		return -ENOENT;
	copy = backing_dup(us->contents->backing, at->dir);
	if (copy < 0)
		return copy;
	{
		LOCK_SCOPE(&us->lock);
		err = take_locked(us, from_id, from, &h);
	}
	if (err) {
		close(copy);
		return err;
	}
	if (!same_inode(from_id, &at->id))
		err = backing_rename(&b, h->target.dir, h->staging, at->dir, h->staging, 0);
	{
		LOCK_SCOPE(&us->lock);
		if (!err) {
			int old = h->target.dir;

			h->target.dir = copy;
			copy = old;
			h->target.dir_id = at->id;
			snprintf(h->target.name, sizeof(h->target.name), "%s", at->name);
			h->since_ns = clock_mono_ns();
			h->since_wall_ns = clock_wall_ns();
			list_del(&h->link);
			list_append(&us->held, &h->link);
		}
	}
	applied = !err && !resolve_target(h); /* in its new directory it names no unit to come */
	close(copy);
	*id = h->id;
	if (applied)
		err = held_apply(h);
	{
		LOCK_SCOPE(&us->lock);
		held_let_go_locked(h, applied && !err);
	}
	held_put(h);
	return err;
}

int held_pin(struct units *us, const struct inode_id *dir, const char *name)
{
	struct held *h;

	if (!atomic_load(&us->nr_held))
		return -ENOENT;
	LOCK_SCOPE(&us->lock);
	h = find_locked(us, dir, name);
	return h ? backing_dup(us->contents->backing, h->pin) : -ENOENT;
}

/* --- departure --- */

void held_overtake_locked(struct units *us, const struct target *t, uint64_t since_ns)
{
	struct list *l;

	list_for_each (l, &us->held) {
		struct held *h = container_of(l, struct held, link);

		if (h->since_ns < since_ns && same_inode(&h->target.dir_id, &t->dir_id) &&
		    !strcmp(h->target.name, t->name))
			h->overtaken = true;
	}
}

/* @t has the inode @id, from a pointer written at @since_ns: older pointers are overtaken. */
static void pointer_applied(struct units *us, const struct target *t, const struct inode_id *id,
			    uint64_t since_ns)
{
	struct generation *g;

	removal_of_file_replaced_locked(us, &t->dir_id, t->name);
	held_overtake_locked(us, t, since_ns);
	live_for_each_of (g, &us->live, &t->dir_id, t->name) {
		if (same_inode(&g->id, id))
			continue;
		g->replaces = true;
		g->replaced = *id;
		g->overtaken = g->overtaken || g->opened_ns < since_ns;
	}
}

/* Drops what is held as @name. Waits for one that is being applied. True if there was one. */
static bool drop_held(struct units *us, const struct inode_id *dir, const char *name)
{
	struct list *l;
	bool any = false;
	int err = 0;

	if (!atomic_load(&us->nr_held))
		return false;
	LOCK_SCOPE(&us->lock);
	for (l = us->held.next; l != &us->held; l = l->next) {
		struct held *h = container_of(l, struct held, link);

		if (!same_inode(&h->target.dir_id, dir) || strcmp(h->target.name, name))
			continue;
		if (h->busy & BUSY_MOVE) {
			err = units_wait(us);
			if (err)
				return any;
			l = &us->held; /* from the beginning */
			continue;
		}
		any = any || !h->overtaken;
		h->overtaken = true;
	}
	waitq_wake(&us->commits);
	return any;
}

/* A pointer of that name that is not visible, referenced. */
static struct generation *one_unseen_locked(struct units *us, const struct inode_id *dir,
					    const char *name)
{
	struct generation *g;

	live_for_each_of (g, &us->live, dir, name)
		if (g->pointer && !g->visible) {
			g->refs++;
			return g;
		}
	return NULL;
}

bool pointers_drop(struct units *us, const struct inode_id *dir, const char *name)
{
	while (rules_is_pointer(us->rules, name)) {
		struct generation *g;
		int err;
		{
			LOCK_SCOPE(&us->lock);
			g = one_unseen_locked(us, dir, name);
		}
		if (!g)
			break;
		err = generation_drop_one(g);
		generation_put(g);
		if (err && err != -EEXIST)
			break; /* the caller was interrupted */
	}
	return drop_held(us, dir, name);
}

/* Takes @h off the list. The caller has a reference. */
static void take_off_locked(struct held *h)
{
	list_del(&h->link);
	atomic_fetch_sub(&h->units->nr_held, 1);
	h->refs--;
}

void held_let_go_locked(struct held *h, bool applied)
{
	struct units *us = h->units;

	busy_end(us, &h->busy, h->busy);
	if (applied) {
		take_off_locked(h);
		pointer_applied(us, &h->target, &h->id, h->since_ns);
	}
	waitq_wake_all(&us->changed);
	waitq_wake(&us->commits);
}

/* True if nothing has the name, or something of the same owner. */
static bool may_replace(struct held *h, struct backing *b)
{
	struct statx stx;
	int err = backing_stat_at(b, h->target.dir, h->target.name, &stx);

	return err == -ENOENT || (!err && stx.stx_uid == h->owner.uid);
}

static int remove_staged(struct held *h)
{
	struct backing b = backing_owner(h->units->contents->backing, &h->owner);
	int err = backing_unlink(&b, h->target.dir, h->staging, false);

	return err == -ENOENT ? 0 : err;
}

/* True if a later pointer was applied, here or by another node. */
static bool came_too_late(struct held *h)
{
	struct units *us = h->units;
	struct backing b = backing_for(us->contents->backing, &h->owner);
	bool late = accord_has_others(us) &&
		    order_is_newer(&b, h->target.dir, h->target.name, h->since_wall_ns);
	LOCK_SCOPE(&us->lock);

	h->overtaken = h->overtaken || late;
	if (!h->overtaken)
		busy_begin(&h->busy, BUSY_MOVE);
	return h->overtaken;
}

int held_sync(struct held *h)
{
	struct backing b = backing_owner(h->units->contents->backing, &h->owner);
	__cleanup_fd int fd = -1;

	if (!S_ISREG(h->type))
		return 0;
	fd = backing_reopen(&b, h->pin, O_RDONLY);
	return fd < 0 ? fd : backing_sync(&b, fd, false);
}

int held_apply(struct held *h)
{
	struct units *us = h->units;
	struct backing b = backing_for(us->contents->backing, &h->owner);
	struct backing as = backing_as(&b, &h->owner);
	struct inode_id there;
	struct statx stx;
	int err;

	err = held_sync(h);
	if (err)
		return err == -ESTALE ? -ENOENT : err; /* it was removed on the backing */
	if (came_too_late(h))
		return -ESTALE;
	err = backing_rename(&as, h->target.dir, h->staging, h->target.dir, h->target.name, 0);
	if ((err == -EACCES || err == -EPERM) && may_replace(h, &b))
		err = backing_rename(&b, h->target.dir, h->staging, h->target.dir, h->target.name,
				     0);
	if (err && !backing_stat_at(&b, h->target.dir, h->target.name, &stx)) {
		there = inode_id_of(&stx); /* the answer may have been lost */
		err = same_inode(&there, &h->id) ? 0 : err;
	}
	return err ? err : backing_sync_dir(&b, h->target.dir);
}

/* True if a written pointer is just getting that name: of two at once the older might come last. */
static bool is_contended_locked(const struct held *h)
{
	struct generation *g;

	live_for_each_of (g, &h->units->live, &h->target.dir_id, h->target.name)
		if (generation_is_held_locked(g))
			return true;
	return false;
}

bool held_is_taken_locked(struct units *us, const struct target *t)
{
	struct list *l;

	list_for_each (l, &us->held) {
		const struct held *h = container_of(l, struct held, link);

		if (h->busy && same_inode(&h->target.dir_id, &t->dir_id) &&
		    !strcmp(h->target.name, t->name))
			return true;
	}
	return false;
}

bool held_any_due_locked(struct units *us)
{
	struct list *l;

	list_for_each (l, &us->held)
		if (held_fate_locked(container_of(l, struct held, link)) != FATE_WAIT)
			return true;
	return false;
}

/* Its name is evidence for the unit that it names, even if that is known here only now. */
static void tell_pointed(struct held *h)
{
	struct units *us = h->units;

	checkpoints_note_beside(us, &h->target.dir_id, EVIDENCE_RENAME, h->target.name);
	if (S_ISREG(h->type) && rules_is_pointer(us->rules, h->target.name))
		checkpoints_note_pointed(us, &h->target.dir_id, h->names, h->target.name);
}

static void ask_again(struct held *h)
{
	resolve_target(h);
	if (!h->asks)
		tell_pointed(h);
}

static bool is_overtaken(struct held *h)
{
	LOCK_SCOPE(&h->units->lock);

	return h->overtaken;
}

/* @h could not get its name, for @err: gives up, and tells people, if retrying is hopeless. */
static void give_up(struct held *h, int err)
{
	struct units *us = h->units;
	uint64_t now = clock_mono_ns();
	char path[PATH_MAX], text[MESSAGE_MAX];

	h->failing_ns = h->failing_ns ? h->failing_ns : now;
	if (is_overtaken(h) || us->ending ||
	    (flush_error_may_pass(err) &&
	     now - h->failing_ns < flush_patience_ns(err, us->retry_ns)))
		return;
	target_path(h->units, &h->target, path, sizeof(path));
	MESSAGE(text, PUBLISH_FAILED, path, "giving it its name", strerror(-err), path);
	failures_add(us->failures, h->owner.uid, "pointer", path, -err, text);
	LOCK_SCOPE(&us->lock);
	h->overtaken = true;
}

/* @h is not applied: tells people, unless a later pointer was applied, or waits. */
static void drop(struct held *h)
{
	struct units *us = h->units;
	char path[PATH_MAX];
	bool overtaken;
	{
		LOCK_SCOPE(&us->lock);
		overtaken = h->overtaken ||
			    find_locked(us, &h->target.dir_id, h->target.name) != h ||
			    live_newest(&us->live, &h->target.dir_id, h->target.name);
	}
	target_path(h->units, &h->target, path, sizeof(path));
	if (!overtaken)
		pointer_tell_dropped(us, h->owner.uid, path, h->names, h->waits_for);
}

/* One that is due, and its fate: FATE_LOOK if @ask, else neither that nor FATE_WAIT. */
static struct held *choose_locked(struct units *us, bool ask, enum fate *fate)
{
	uint64_t now = clock_mono_ns();
	struct list *l;

	list_for_each (l, &us->held) {
		struct held *h = container_of(l, struct held, link);

		if (h->busy || h->again_ns > now || is_contended_locked(h))
			continue;
		*fate = held_fate_locked(h);
		if (ask ? *fate == FATE_LOOK : !fate_waits(*fate))
			return h;
	}
	return NULL;
}

bool held_work_locked(struct units *us, bool ask)
{
	uint64_t now = clock_mono_ns();
	enum fate fate;
	struct held *h = choose_locked(us, ask, &fate);
	int err = 0;

	if (!h)
		return false;
	busy_begin(&h->busy, BUSY_APPLY);
	h->refs++;
	lock_drop(&us->lock);
	if (ask)
		ask_again(h);
	else
		err = fate == FATE_APPLY ? held_apply(h) : remove_staged(h);
	if (err)
		give_up(h, err);
	else if (fate == FATE_DROP)
		drop(h);
	lock_take(&us->lock);
	h->again_ns = now + AGAIN_NS;
	if (ask)
		h->again_ns = h->asks ? clock_mono_ns() + ASK_NS : 0;
	if (fate == FATE_DROP && (!err || h->overtaken))
		take_off_locked(h);
	held_let_go_locked(h, fate == FATE_APPLY && !err);
	lock_drop(&us->lock);
	held_put(h);
	lock_take(&us->lock);
	return true;
}

void held_finish(struct units *us)
{
	while (!list_empty(&us->held)) {
		struct held *h = container_of(us->held.next, struct held, link);

		list_del(&h->link);
		held_put(h);
	}
}
