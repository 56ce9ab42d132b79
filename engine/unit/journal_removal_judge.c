/* SPDX-License-Identifier: MIT */
/*
 * Judges waiting removals: a removal is applied now, kept, turned into a change to the checkpoint,
 * or undone because its process died. The committers call this.
 *
 * For callers that hold the units' lock, which is dropped for the backing and for messages. Does
 * not move anything itself (journal_removal_apply.c).
 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/redo/order.h"
#include "engine/unit/drain.h"
#include "engine/unit/journal_pending.h"
#include "engine/unit/journal_removal_impl.h"
#include "engine/unit/room.h"

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

/* Finds the part of a remover that died. */
static struct part *cut_short_locked(const struct removal *r)
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
		.cut_short = !r->whole && cut_short_locked(r),
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

/*
 * 1: the directory @pin, which is taken over, or one below has a file that was not removed. 0:
 * none. -errno: unknown.
 */
static int has_file(struct units *us, struct backing *b, int pin)
{
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
			has = S_ISDIR(stx.stx_mode) ? has_file(us, b, backing_pin(b, w.fd, w.name))
						    : S_ISREG(stx.stx_mode);
	}
	return has ? has : w.err;
}

/*
 * True if a job has removed every file. So that the job keeps its last checkpoint, the removal does
 * not become a change, but waits as if whole.
 */
static bool is_emptied(struct units *us, const struct removal *r)
{
	struct backing b = backing_for(us->contents->backing, &removal_last_part(r)->owner);

	return removal_waits(us, removal_last_part(r)->process, &r->dir_id, r->name) &&
	       !has_file(us, &b, backing_pin(&b, r->dir, r->name));
}

/* Tells people that what was removed with @part reappears: none newer (@kept), or a death. */
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

/* One that is due, and its fate. */
static struct removal *choose_locked(struct units *us, enum fate *fate)
{
	uint64_t now = clock_mono_ns();
	struct list *l;

	list_for_each (l, &us->removals) {
		struct removal *r = container_of(l, struct removal, link);

		if (r->busy || r->again_ns > now || removal_is_being_replaced_locked(us, r))
			continue;
		*fate = removal_fate_locked(us, r, false);
		if (*fate != FATE_WAIT)
			return r;
	}
	return NULL;
}

static enum fate look(struct units *us, struct removal *r)
{
	removal_look(us, r);
	LOCK_SCOPE(&us->lock);
	r->left = !r->newer;
	return removal_fate_locked(us, r, false);
}

/* Does what @fate says on the backing. True: @r is done. */
static bool act(struct units *us, struct removal *r, enum fate fate)
{
	if (fate == FATE_APPLY)
		return !removal_apply(us, r);
	if (fate != FATE_CHANGE)
		return false;
	if (!is_emptied(us, r))
		return !removal_change(us, r);
	LOCK_SCOPE(&us->lock);
	r->emptied = true;
	return false;
}

bool removals_work_locked(struct units *us)
{
	struct part *part = NULL;
	enum fate fate = FATE_WAIT;
	struct removal *r = choose_locked(us, &fate);
	bool done, kept = false;
	char path[PATH_MAX];

	if (!r)
		return false;
	busy_begin(&r->busy, BUSY_APPLY);
	lock_drop(&us->lock);
	units_path(us, &r->dir_id, r->name, path, sizeof(path));
	if (fate == FATE_LOOK)
		fate = look(us, r);
	done = act(us, r, fate);
	lock_take(&us->lock);
	/* Perhaps a newer checkpoint was committed just now. */
	if (fate == FATE_DROP && removal_fate_locked(us, r, false) == FATE_DROP) {
		part = r->whole ? NULL : cut_short_locked(r);
		kept = !part;
		part = part ? part : removal_last_part(r);
		removal_undo_locked(us, r, part);
		done = list_empty(&r->parts);
	}
	removal_let_go_locked(us, r, done);
	lock_drop(&us->lock);
	if (part) {
		tell_undone(us, part, path, kept);
		removal_destroy_part(part);
	}
	if (done)
		removal_destroy(r);
	lock_take(&us->lock);
	return true;
}
