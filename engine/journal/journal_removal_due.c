/* SPDX-License-Identifier: MIT */
/*
 * A commit makes removals due: those of the same job beside it, and that of its own name. Removals
 * that can be redone after a crash go into the decision record.
 *
 * Functions that end in _locked are for callers that hold the units' lock; the others take it, and
 * look at the backing without it. This file applies nothing (journal_removal_apply.c).
 */
#include "engine/journal/journal_removal_impl.h"

#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/lock.h"
#include "engine/base/wait.h"
#include "engine/redo/order.h"
#include "engine/redo/unit_header.h"

bool removal_is_for_locked(const struct removal *r, const struct checkpoint *cp)
{
	return !r->file && same_inode(&r->dir_id, &cp->target.dir_id) &&
	       epoch_same(removal_last_part(r)->process, cp->maker);
}

/* The same for a single-file checkpoint: the job of @maker saves, or will save, @name in @dir. */
static bool is_for_file_locked(struct units *us, const struct removal *r,
			       const struct process *maker, const struct inode_id *dir,
			       const char *name)
{
	const struct rule *rule = r->file ? rules_single(us->rules, name) : NULL;

	return rule && !rule_is_temp(rule, name) && rule == rules_single(us->rules, r->name) &&
	       same_inode(&r->dir_id, dir) && epoch_same(removal_last_part(r)->process, maker);
}

/* The record identifies it by its generation. */
static void list_one(struct checkpoint *cp, const char name[NAME_MAX + 1],
		     const struct inode_id *id, struct order *order, bool named)
{
	struct backing b = backing_for(cp->units->contents->backing, &cp->owner);
	struct order_removal *r = &order->removals[order->nr_removals];
	__cleanup_fd int pin = backing_pin(&b, cp->target.dir, name);
	struct inode_id there;
	struct statx stx;

	if (pin < 0 || backing_stat(&b, pin, &stx) || stx.stx_uid != cp->owner.uid)
		return;
	there = inode_id_of(&stx);
	if (!same_inode(&there, id) || unit_generation(&b, pin, r->generation))
		return;
	if (!named && order_is_named(&b, cp->units->rules, cp->target.dir, name, order))
		return;
	memcpy(r->name, name, sizeof(r->name));
	order->nr_removals++;
}

void removals_list(struct checkpoint *cp, struct order *order, bool named)
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
			if (!r->whole || r->busy || r->replaced || !removal_is_for_locked(r, cp) ||
			    !strcmp(r->name, cp->target.name))
				continue;
			memcpy(found[nr].name, r->name, sizeof(found[nr].name));
			found[nr++].id = r->id;
		}
	}
	for (i = 0; i < nr; i++)
		list_one(cp, found[i].name, &found[i].id, order, named);
}

void removals_committed_locked(struct units *us, const struct checkpoint *cp)
{
	struct list *l;

	list_for_each (l, &us->removals) {
		struct removal *r = container_of(l, struct removal, link);

		if (!cp->follows && removal_is_for_locked(r, cp))
			r->due = true;
		if (same_inode(&r->dir_id, &cp->target.dir_id) && !strcmp(r->name, cp->target.name))
			r->replaced = r->due = r->whole = true;
	}
}

void removal_of_file_replaced_locked(struct units *us, const struct inode_id *dir, const char *name)
{
	struct removal *r =
		atomic_load(&us->nr_removals) ? removal_find_locked(us, dir, name) : NULL;

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
