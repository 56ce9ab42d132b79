/* SPDX-License-Identifier: MIT */
/*
 * Judges waiting removals: a removal is applied now, kept, turned into a change to the checkpoint,
 * or undone because its process died. Does not move anything itself (journal_removal_apply.c).
 */
#include "engine/commit/journal_removal_work.h"

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/journal/journal_pending.h"
#include "engine/journal/newer.h"
#include "engine/redo/order.h"
#include "engine/save/drain.h"

/*
 * True if the remover died. A person's `rm` that exits with an error has reported what it could not
 * remove, and counts as done; the removal of a job does not.
 */
static bool remover_died(const struct part *part)
{
	struct writer_end end;

	return process_is_gone(part->process, &end) && end.fate == WRITER_DIED &&
	       (end.code < 0 || part->process->world > 1);
}

struct part *removal_cut_short_locked(const struct removal *r)
{
	struct list *l;

	list_for_each (l, &r->parts)
		if (remover_died(container_of(l, struct part, link)))
			return container_of(l, struct part, link);
	return NULL;
}

/* True if its job is still saving a checkpoint that may be committed. */
static bool may_be_followed_locked(struct units *us, const struct removal *r)
{
	struct list *l;

	list_for_each (l, &us->checkpoints) {
		const struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (removal_is_for_locked(r, cp))
			return true;
	}
	if (!r->file)
		return false;
	list_for_each (l, &us->live.all) {
		const struct generation *g = container_of(l, struct generation, link);

		/* The file may still be renamed from a temporary name. */
		if (g->maker && same_inode(&r->dir_id, &g->target.dir_id) &&
		    epoch_same(removal_last_part(r)->process, g->maker))
			return true;
	}
	return false;
}

/* True if a checkpoint that its job saved on several nodes failed: perhaps by a death elsewhere. */
static bool has_failed_locked(struct units *us, const struct removal *r)
{
	struct list *l;

	list_for_each (l, &us->wrecks.all) {
		const struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (cp->accord && removal_is_for_locked(r, cp))
			return true;
	}
	return false;
}

/* True if the remover is gone, and its job failed and saves no other checkpoint. */
static bool is_given_up_locked(struct units *us, const struct removal *r)
{
	const struct part *part = removal_last_part(r);
	struct writer_end end;

	return process_is_gone(part->process, &end) &&
	       (remover_died(part) || has_failed_locked(us, r)) && !may_be_followed_locked(us, r);
}

/* True if the removal is partial and stays so: every remover has exited, with status 0. */
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
		    drain_covers_locked(d, removal_last_part(r)->process,
					removal_last_part(r)->owner.uid))
			return true;
	}
	return false;
}

/* True if a drain waits for it. */
static bool is_drained_locked(const struct units *us, const struct removal *r)
{
	return is_left_in_part_locked(r) && drains_cover_locked(us, removal_last_part(r)->process,
								removal_last_part(r)->owner.uid);
}

enum fate removal_fate_locked(struct units *us, const struct removal *r, bool hurry)
{
	uint64_t now = clock_mono_ns();
	struct writer_end end;
	const struct fate_facts f = {
		.awaited = r->due		       ? GENERATION_COMMITTED
			   : is_given_up_locked(us, r) ? GENERATION_FAILED
						       : GENERATION_OPEN,
		.late = now - r->since_ns > us->order_ns,
		.in_part = !r->whole && !r->emptied,
		.cut_short = !r->whole && removal_cut_short_locked(r),
		.quiet = now - r->changed_ns > us->quiet_ns || is_drained_locked(us, r),
		.ended =
			hurry || (!r->left && process_is_gone(removal_last_part(r)->process, &end)),
		.looked = r->looked,
		.newer = r->newer,
		.named = r->named,
	};

	return fate_of(&f);
}

void removal_look(struct units *us, struct removal *r)
{
	const struct caller *owner = &removal_last_part(r)->owner;
	struct backing b = backing_for(us->contents->backing, owner);
	const struct unit_place u = removal_place_of(r);
	bool minds, named, newer;
	{
		LOCK_SCOPE(&us->lock);
		newer = r->due;
		minds = !r->replaced && clock_mono_ns() - r->since_ns <= us->order_ns;
		/* Before the look at the backing, which shows what arrives in between. */
		named = minds && pointers_will_name_locked(us, &r->dir_id, r->name);
	}
	newer = newer || unit_has_newer(us, owner, &u);
	named = named || (minds && order_is_named(&b, us->rules, r->dir, r->name, NULL));
	LOCK_SCOPE(&us->lock);
	r->looked = true;
	r->newer = newer;
	r->named = named;
}
