/* SPDX-License-Identifier: MIT */
/*
 * Judges waiting removals: a removal is applied now, kept, turned into a change to the checkpoint,
 * or undone because its process died. The committers call this.
 *
 * For callers that hold the units' lock, which is dropped for the backing and for messages. Does
 * not move anything itself (removal_apply.c).
 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/base/lock.h"
#include "engine/unit/drain.h"
#include "engine/unit/removal_impl.h"
#include "engine/unit/room.h"

enum fate { WAIT, APPLY, LOOK, CHANGE, UNDO };

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

static enum fate judge_locked(struct units *us, const struct removal *r, uint64_t now)
{
	struct writer_end end;

	if (!r->busy && !r->whole && cut_short_locked(r))
		return UNDO;
	if (r->busy || r->again_ns > now || removal_is_being_replaced_locked(us, r))
		return WAIT;
	if (!r->whole && !r->emptied) /* the program wanted to remove a part only */
		return now - r->changed_ns > us->quiet_ns || is_drained_locked(us, r) ? CHANGE
										      : WAIT;
	if (r->due || FAULT(REMOVAL_EARLY))
		return APPLY;
	if (now - r->since_ns > us->order_ns ||
	    (!r->left && process_is_gone(removal_last_part(r)->process, &end)) ||
	    is_given_up_locked(us, r))
		return LOOK;
	return WAIT;
}

/*
 * After the remover has ended, or order_timeout_s has passed, no further commit may come: an
 * existing newer checkpoint suffices. *@kept: there is none, and the time is over or the job has
 * failed.
 */
static int apply_if_newer(struct units *us, struct removal *r, bool *kept)
{
	const struct unit_place u = removal_place_of(r);

	if (unit_has_newer(us, &removal_last_part(r)->owner, &u))
		return removal_apply_one_due(us, r);
	r->left = true;
	{
		LOCK_SCOPE(&us->lock);
		*kept = !r->due &&
			(clock_mono_ns() - r->since_ns > us->order_ns || is_given_up_locked(us, r));
	}
	return *kept ? 0 : -EAGAIN;
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
	part = removal_last_part(r);
	lock_drop(&us->lock);
	units_path(us, &r->dir_id, r->name, path, sizeof(path));
	if (fate == APPLY)
		err = removal_apply_one_due(us, r);
	else if (fate == LOOK)
		err = apply_if_newer(us, r, &kept);
	else if (fate == CHANGE && is_emptied(us, r))
		emptied = true;
	else if (fate == CHANGE)
		err = removal_change(us, r);
	lock_take(&us->lock);
	if (kept && r->due) { /* a newer checkpoint was committed just now */
		kept = false;
		err = -EAGAIN;
	}
	part = kept ? part : fate == UNDO ? cut_short_locked(r) : NULL;
	if (part)
		removal_undo_locked(us, r, part);
	r->emptied = r->emptied || emptied;
	if (emptied || (part && !list_empty(&r->parts)))
		err = -EAGAIN;
	removal_let_go_locked(us, r, !err);
	if (!part && err)
		return true;
	lock_drop(&us->lock);
	if (part) {
		tell_undone(us, part, path, kept);
		removal_destroy_part(part);
	}
	if (!err)
		removal_destroy(r);
	lock_take(&us->lock);
	return true;
}
