/* SPDX-License-Identifier: MIT */
/*
 * A process is about to change a checkpoint. This file counts the changes that are under way, adds
 * participants, and refuses or supersedes what belongs to another job.
 *
 * Takes the units' lock, and drops it while it waits for a commit or for another process to end.
 * The rule by which a checkpoint goes is decided elsewhere (checkpoint_claim.c).
 */
#include "engine/calls/checkpoint_impl.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/cluster/cluster.h"
#include "engine/cluster/fail.h"
#include "engine/journal/journal_removal.h"

/* The incarnation of @p, as seen from the one that saves @cp. */
static enum epoch_order epoch_of(const struct checkpoint *cp, const struct process *p)
{
	return cp->maker->read ? epoch_order(p, cp->maker->key, EPOCH_LASTS) : EPOCH_UNKNOWN;
}

/*
 * True if @cp is known to be a unit, which only its job may change. Its rule may be known on other
 * nodes alone, since nodes that only look do not tell each other. Then the job of @p, started
 * again, takes its place.
 */
static bool is_taken_locked(const struct checkpoint *cp, const struct process *p)
{
	return cp->rule || cp->follows || (accord_is_shared(cp) && epoch_of(cp, p) == EPOCH_NEWER);
}

enum others { NO_OTHERS, OTHERS_ENDING, OTHERS_LIVE };

/*
 * Whether a live process of another job than that of @p writes to @cp; one that is not visible
 * counts as none. OTHERS_ENDING: one has exited, perhaps just before the job of @p began, and its
 * exit is still being processed.
 */
static enum others others_of_locked(struct checkpoint *cp, const struct process *p)
{
	enum others found = NO_OTHERS;
	struct list *l;

	list_for_each (l, &cp->participants) {
		struct participant *part = container_of(l, struct participant, link);

		if (part->ended || !part->process->visible || epoch_same(part->process, p))
			continue;
		if (!part->watched || !process_has_ended(part->process))
			return OTHERS_LIVE;
		found = OTHERS_ENDING;
	}
	return found;
}

/* True if the job of @p has a part in @cp. */
static bool is_of_job_locked(struct checkpoint *cp, const struct process *p)
{
	struct list *l;

	list_for_each (l, &cp->participants)
		if (epoch_same(container_of(l, struct participant, link)->process, p))
			return true;
	return epoch_same(cp->maker, p);
}

/*
 * No process that wrote to @cp is left: the job of @p begins it anew, from what the name had
 * before. -ESTALE: done; 1: the end of @cp was seen just now.
 */
static int supersede(struct checkpoint *cp, struct process *p)
{
	struct backing b = backing_for(cp->units->contents->backing, &cp->owner);
	struct caller c = {.uid = p->uid, .gid = cp->owner.gid};
	char text[MESSAGE_MAX], path[PATH_MAX];
	struct checkpoint *new = NULL;
	struct statx stx;
	bool hidden;
	int err;

	checkpoint_path(cp, path, sizeof(path));
	MESSAGE(text, CHECKPOINT_SUPERSEDED, path, cp->maker->key, p->key);
	if (!checkpoint_fail_if(cp, true, -ESTALE, text))
		return 1;
	hidden = removals_hide(cp->units, &cp->target.dir_id, cp->target.name);
	if (!backing_stat_at(&b, cp->target.dir, cp->target.name, &stx) && !hidden)
		return -ESTALE; /* the name shows that again */
	err = backing_stat(&b, cp->fd, &stx);
	if (!err)
		err = checkpoint_begin(
			cp->units, &c, p,
			&(struct place){cp->target.dir, cp->target.dir_id, cp->target.name},
			stx.stx_mode & 07777, &new);
	checkpoint_put(new);
	return !err || err == -EEXIST ? -ESTALE : err;
}

/* -EBUSY, and says why. */
static int refuse(struct checkpoint *cp, const struct process *p)
{
	char text[MESSAGE_MAX], path[PATH_MAX];

	checkpoint_path(cp, path, sizeof(path));
	MESSAGE(text, CHECKPOINT_BUSY, path, cp->maker->key, p->key);
	failures_add(cp->units->failures, cp->owner.uid, "save", path, EBUSY, text);
	return -EBUSY;
}

/* True if @cp failed for a cause before @p was started, or in another job than that of @p. */
static bool is_nothing_to_locked(struct checkpoint *cp, const struct process *p)
{
	return cp->state == GENERATION_FAILED && !checkpoint_participant_of_locked(cp, p) &&
	       (!is_of_job_locked(cp, p) || !epoch_started_before(p, accord_cause_ns(cp)));
}

/*
 * As checkpoint_hold_still_locked, for @p: a process that the failure does not concern gets
 * -ESTALE, and looks the name up again.
 */
static int hold_still_for_locked(struct checkpoint *cp, const struct process *p)
{
	int err = checkpoint_hold_still_locked(cp);

	return err && p && is_nothing_to_locked(cp, p) ? -ESTALE : err;
}

/* True if @p was started after @cp was begun, and does not write to it yet. */
static bool is_latecomer(struct checkpoint *cp, const struct process *p)
{
	LOCK_SCOPE(&cp->units->lock);
	return cp->accord && !checkpoint_participant_of_locked(cp, p) &&
	       !epoch_started_before(p, cp->opened_ns);
}

/* True if a later incarnation of the job of @p saves @cp: then @p must not change it. */
static bool is_former_locked(const struct checkpoint *cp, const struct process *p)
{
	return cp->accord && epoch_of(cp, p) == EPOCH_OLDER;
}

/*
 * True if the call of @p, which gets @err, may tell what has failed: by the error of @cp itself, or
 * before @p has written to @cp. In the middle of a save @p would stop, and what it has saved might
 * be committed when it exits.
 */
static bool may_be_told_locked(struct checkpoint *cp, const struct process *p, int err)
{
	if (err)
		return err == cp->err && err != -ESTALE;
	return !checkpoint_participant_of_locked(cp, p);
}

int checkpoint_enter(struct checkpoint *cp, struct process *p)
{
	struct units *us = cp->units;
	enum others others;
	bool other, busy;
	int err, told;

	err = p && is_latecomer(cp, p) ? accord_check_open(cp) : 0;
	if (err)
		return err;
	{
		LOCK_SCOPE(&us->lock);
		do {
			err = hold_still_for_locked(cp, p);
			told = p && may_be_told_locked(cp, p, err)
				       ? units_tell_casualty_locked(us, p)
				       : 0;
			err = err ? err : told;
			others = !err && p && is_taken_locked(cp, p) ? others_of_locked(cp, p)
								     : NO_OTHERS;
			busy = others == OTHERS_LIVE || (!err && p && is_former_locked(cp, p));
			other = !err && !others && p && is_taken_locked(cp, p) &&
				!is_of_job_locked(cp, p);
			if (others == OTHERS_ENDING)
				err = units_wait(us);
		} while (!err && (others == OTHERS_ENDING ||
				  (other && checkpoint_ends_with_writers_locked(cp))));
		if (!err && !busy && !other) {
			cp->nr_changing++;
			cp->changed_ns = clock_mono_ns();
		}
	}
	if (busy)
		return refuse(cp, p);
	err = other ? supersede(cp, p) : err;
	return err == 1 ? checkpoint_enter(cp, p) : err;
}

int checkpoint_enter_open(struct checkpoint *cp)
{
	char text[MESSAGE_MAX], path[PATH_MAX];
	int err = checkpoint_enter(cp, NULL);
	{
		LOCK_SCOPE(&cp->units->lock);
		if (err != -EEXIST || cp->state != GENERATION_COMMITTED)
			return err;
	}
	checkpoint_path(cp, path, sizeof(path));
	MESSAGE(text, CHECKPOINT_STALE, path);
	failures_add(cp->units->failures, cp->owner.uid, "write", path, ESTALE, text);
	return -ESTALE;
}

int checkpoint_join(struct checkpoint *cp, struct process *p)
{
	struct participant *part = calloc(1, sizeof(*part));
	struct units *us = cp->units;
	LOCK_SCOPE(&us->lock);
	if (!part || checkpoint_participant_of_locked(cp, p)) {
		free(part);
		return part ? 0 : -ENOMEM;
	}
	part->process = process_get(p);
	part->watched = !jobs_watch(p); /* its end is told with the lock held */
	list_append(&cp->participants, &part->link);
	removal_note_saver_locked(us, p, &cp->target.dir_id);
	return 0;
}

void checkpoint_copied_by(struct checkpoint *cp, const struct process *p)
{
	LOCK_SCOPE(&cp->units->lock);
	struct participant *part = checkpoint_participant_of_locked(cp, p);

	if (part && p->rank < 0 && p->visible)
		part->copies = true;
}
