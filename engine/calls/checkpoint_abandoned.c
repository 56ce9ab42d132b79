/* SPDX-License-Identifier: MIT */
/*
 * Open checkpoints that no process is going to complete, since one that writes them has died, or
 * the mount ends. One with nothing in it is dropped; another fails, with the reason.
 *
 * Takes the units' lock, and drops it to fail one or to ask other nodes. Where other nodes have a
 * part, accord_death.c judges whether a death came before the end.
 */
#include "engine/calls/checkpoint_impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "engine/base/lock.h"
#include "engine/base/wait.h"
#include "engine/cluster/cluster.h"
#include "engine/cluster/fail.h"
#include "engine/cluster/missing.h"
#include "engine/redo/trash.h"

/* Without locks. Drops @cp if it is nothing. */
static bool checkpoint_forget(struct checkpoint *cp)
{
	struct units *us = cp->units;
	struct backing b = backing_for(us->contents->backing, &cp->owner);
	{
		LOCK_SCOPE(&us->lock);
		if (!checkpoint_is_nothing_locked(cp))
			return false;
		checkpoint_end_locked(cp, GENERATION_DROPPED);
	}
	if (cp->accord) /* another node may just have found it, and put something there */
		backing_unlink(&b, cp->target.dir, cp->staging, true);
	else
		trash_remove(&b, us->contents, cp->target.dir, cp->staging);
	return true;
}

/* Referenced, or NULL. */
static struct checkpoint *one_open_locked(struct units *us)
{
	struct list *l;

	list_for_each (l, &us->checkpoints) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (checkpoint_rests_in_locked(cp, GENERATION_OPEN)) {
			cp->refs++;
			return cp;
		}
	}
	return NULL;
}

/* What other nodes have decided is OPEN here until the driver of its accord has concluded it. */
static void wait_for_its_end(struct checkpoint *cp)
{
	LOCK_SCOPE(&cp->units->lock);
	if (cp->state == GENERATION_OPEN)
		units_wait(cp->units);
}

unsigned checkpoints_leave_open(struct units *us, const char *mountpoint)
{
	unsigned nr = 0;

	for (;;) {
		char text[MESSAGE_MAX], path[PATH_MAX], words[RULE_WORDS_MAX];
		struct checkpoint *cp;
		{
			LOCK_SCOPE(&us->lock);
			cp = one_open_locked(us);
		}
		if (!cp)
			return nr;
		if (!checkpoint_forget(cp) && !accord_leave(cp)) {
			checkpoint_path(cp, path, sizeof(path));
			checkpoint_missing(cp, words, sizeof(words));
			MESSAGE(text, CHECKPOINT_LEFT, path, mountpoint, words, cp->staging);
			checkpoint_fail(cp, -ECANCELED, text);
			nr++;
		}
		wait_for_its_end(cp);
		checkpoint_put(cp);
	}
}

/*
 * Notes the end of @p for its part in @cp. True if @cp, whose own end was not seen, fails for it.
 */
static bool note_end_locked(struct checkpoint *cp, const struct process *p, struct writer_end end)
{
	struct participant *part = checkpoint_participant_of_locked(cp, p);

	if (!part || part->ended)
		return false;
	part->ended = true;
	part->end = end;
	cp->left_ns = clock_mono_ns();
	return cp->state == GENERATION_OPEN && end.fate == WRITER_DIED && !accord_knows_end(cp);
}

/*
 * The next one that fails by the end of @p, referenced. @awaits_verdict: unless other nodes say
 * that it had ended before.
 */
static struct checkpoint *next_victim_locked(struct units *us, const struct process *p,
					     struct writer_end end, bool *awaits_verdict)
{
	struct list *l;

	list_for_each (l, &us->checkpoints) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		checkpoint_look_for_end_locked(cp); /* what @p did before counts */
		if (note_end_locked(cp, p, end)) {
			*awaits_verdict = accord_loses_writer(cp, p);
			cp->refs++;
			return cp;
		}
	}
	return NULL;
}

void checkpoints_process_ended(void *units, const struct process *p, struct writer_end end)
{
	struct units *us = units;
	struct checkpoint *cp;

	if (FAULT(DEATH_IGNORED) && end.fate == WRITER_DIED)
		end = (struct writer_end){WRITER_EXITED_OK, 0};
	do {
		char text[MESSAGE_MAX], path[PATH_MAX], rank[24] = "";
		bool awaits_verdict;
		{
			LOCK_SCOPE(&us->lock);
			cp = next_victim_locked(us, p, end, &awaits_verdict);
			waitq_wake(&us->commits);
		}
		if (!cp)
			return;
		if (checkpoint_forget(cp)) {
			checkpoint_put(cp);
			continue;
		}
		checkpoint_path(cp, path, sizeof(path));
		if (p->rank >= 0)
			snprintf(rank, sizeof(rank), " (rank %d)", p->rank);
		if (end.code < 0)
			MESSAGE(text, CHECKPOINT_KILLED, path, (int)p->tgid, rank, -end.code,
				strsignal(-end.code), path);
		else
			MESSAGE(text, CHECKPOINT_EXITED, path, (int)p->tgid, rank, end.code, path);
		if (awaits_verdict)
			accord_set_death_reason(cp, text);
		else
			checkpoint_fail(cp, -EIO, text);
		checkpoint_put(cp);
	} while (cp);
}
