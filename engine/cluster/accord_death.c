/* SPDX-License-Identifier: MIT */
/*
 * A dead writer is a failure, but what had ended by then commits (V1 to V4 of gen/verdict.h). On
 * one node the order of the two is known. Several nodes cut the checkpoint, and no clock decides:
 *
 * - A node whose writer dies tells the nodes above at once, and lets no process change the
 *   checkpoint there any more: that is its cut. A process that would change it waits for the
 *   verdict, as for a commit: what is changed after the cut would be in what commits.
 * - When the root hears of a death, it ends the checkpoint for that (agreement_end). On `prepare`
 *   each node reports what is left to tell, and then no more: its *last* report, which stands for
 *   its whole subtree.
 * - When all nodes have sent their last report, the root gives the verdict (gen_verdict): the
 *   checkpoint has ended by what they told, or it fails.
 * - If the root sees the end before it hears of the death, it gives the verdict when it hears. The
 *   root does hear, for no node votes before it has told of a death. A death after the vote, or
 *   where the end is known, comes too late to matter.
 * - An heir (accord_heir.c) has not seen all that the root has: it obeys the verdict of the root,
 *   and without one it aborts.
 * - No end is seen, or known, while a process has ended and nobody knows yet how.
 */
#include "engine/cluster/accord_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/cluster/fail.h"
#include "engine/cluster/other_nodes.h"
#include "engine/coord/nodes.h"
#include "engine/record/events.h"

/* True if its end may still be seen. */
static bool is_open_locked(const struct accord *a)
{
	return a->a.state == AGREE_OPEN && a->cp->state == GENERATION_OPEN;
}

bool accord_knows_end(struct checkpoint *cp)
{
	return cp->accord && cp->accord->a.state >= AGREE_PREPARED &&
	       checkpoint_is_closed_locked(cp);
}

/*
 * The earliest of several deaths counts. The first death of a process without a rank is told, and
 * judged, once more.
 */
static void note_dead_writer_locked(struct accord *a, uint64_t at_ns, bool unranked)
{
	struct dead_writer *b = &a->dead_writer;

	b->since_ns = b->at_ns ? b->since_ns : clock_mono_ns();
	b->at_ns = b->at_ns && b->at_ns < at_ns ? b->at_ns : at_ns;
	if (!unranked || b->unranked)
		return;
	b->unranked = true;
	b->said = a->judged = false;
}

/* The first reason that is heard counts. */
static void take_reason_locked(struct accord *a, const char *node, const char *reason)
{
	struct dead_writer *b = &a->dead_writer;

	if (b->reason)
		return;
	b->reason = strndup(reason, MESSAGE_MAX - 1);
	b->node = node ? strndup(node, NODES_LABEL_MAX - 1) : NULL;
	accord_wake(a->cp);
}

bool accord_loses_writer(struct checkpoint *cp, const struct process *p)
{
	/* V4: with a file open, no verdict is asked for. */
	if (!cp->accord || !is_open_locked(cp->accord) || !accord_is_shared(cp) ||
	    !checkpoint_is_closed_here_locked(cp))
		return false;
	note_dead_writer_locked(cp->accord, p->lived_ns, p->rank < 0);
	cp->accord->dead_writer.here = true;
	return true;
}

/*
 * True if a death may soon take @cp away from @p, which is of its job or of a newer start of that.
 * When the death was need not be known: another rank of the old start may wait, too. What has
 * written to @cp does not, since the verdict may wait for its close.
 */
static bool may_vanish_locked(struct checkpoint *cp, const struct process *p)
{
	enum epoch_order order = epoch_order(p, cp->maker->key, EPOCH_LASTS);

	return (accord_awaits_verdict(cp) || accord_awaits_end_of_writer(cp)) && cp->maker->read &&
	       !p->weak && (order == EPOCH_SAME || order == EPOCH_NEWER) &&
	       !checkpoint_participant_of_locked(cp, p);
}

int accord_await_verdict(struct checkpoint *cp, const struct caller *c)
{
	struct units *us = cp->units;
	uint64_t until = clock_mono_ns() + us->commit_ns;
	struct process *p;
	int err = 0;
	{
		LOCK_SCOPE(&us->lock);
		if (!accord_awaits_verdict(cp) && !accord_awaits_end_of_writer(cp))
			return 0;
	}
	p = units_process(us, c);
	if (!p)
		return -ENOMEM;
	{
		LOCK_SCOPE(&us->lock);
		while (!err && may_vanish_locked(cp, p) && clock_mono_ns() < until)
			err = units_wait(us);
	}
	process_put(p);
	return err;
}

void accord_set_death_reason(struct checkpoint *cp, const char *reason)
{
	LOCK_SCOPE(&cp->units->lock);

	take_reason_locked(cp->accord, NULL, reason);
}

/* --- reports --- */

static bool have_said_last_locked(const struct accord *a)
{
	unsigned i;

	for (i = 0; i < a->a.nr_children; i++)
		if (!a->children[i].said_last && !agreement_has_all_of(&a->a, i))
			return false;
	return true;
}

bool accord_may_say_last(const struct accord *a)
{
	/*
	 * No node joins below any more, and no call is under way that may bring, or take, evidence.
	 */
	return a->a.state == AGREE_PREPARED && a->a.died && a->a.closed && !a->cp->nr_changing &&
	       have_said_last_locked(a);
}

bool accord_owes_word(const struct accord *a)
{
	const struct dead_writer *b = &a->dead_writer;

	if (agreement_is_root(&a->a))
		return false;
	return (b->at_ns && !b->said) || events_remove(a->events) ||
	       (a->a.state == AGREE_PREPARED && a->a.died && !a->said_last);
}

void accord_tell_of_death(struct accord *a, struct told *t, char label[NODES_LABEL_MAX])
{
	struct nodes *ns = a->cp->units->nodes;
	struct dead_writer *b = &a->dead_writer;

	t->died = b->reason;
	if (!t->died)
		return;
	t->death = (struct told_death){
		.reason = b->reason,
		.node = b->node ? b->node : nodes_label(ns, nodes_id(ns), label),
		.unranked = b->unranked,
		.age_us = (json_int_t)((clock_mono_ns() - b->at_ns) / NSEC_PER_USEC)};
}

uint64_t accord_ago(json_int_t age_us)
{
	uint64_t now = clock_mono_ns();

	if (age_us <= 0)
		return now;
	return (uint64_t)age_us < now / NSEC_PER_USEC ? now - (uint64_t)age_us * NSEC_PER_USEC : 0;
}

void accord_hear_of_death(struct accord *a, const struct told *t)
{
	if (!t->died || agreement_is_over(&a->a))
		return;
	note_dead_writer_locked(a, accord_ago(t->death.age_us), t->death.unranked);
	take_reason_locked(a, t->death.node, t->death.reason);
}

/* --- the verdict --- */

/* Drops the lock. Fails the checkpoint; the decision tells its readers the node of the death. */
static void fail_locked(struct accord *a)
{
	const char *reason = a->dead_writer.reason;
	struct checkpoint *cp = a->cp;

	reason = reason ? reason : "a process that wrote to it has died";
	if (a->a.heir && !a->dead_writer.node) {
		accord_give_reason(a, EIO, false, false, reason);
		return;
	}
	if (a->dead_writer.node) {
		accord_give_reason_of(a, a->dead_writer.node, EIO, reason);
		return;
	}
	lock_drop(&cp->units->lock);
	checkpoint_fail(cp, -EIO, reason); /* once set it stays */
	lock_take(&cp->units->lock);
}

/* On the root: a writer has died, and all nodes have told what counts. */
static void give_verdict_locked(struct accord *a)
{
	struct checkpoint *cp = a->cp;
	bool holds = !a->a.heir && checkpoint_verdict_locked(cp);

	a->judged = true;
	if (!holds)
		fail_locked(a);
}

void accord_give_verdict(struct accord *a)
{
	struct checkpoint *cp = a->cp;
	struct dead_writer *b = &a->dead_writer;

	if (!b->at_ns || !b->reason || a->judged || a->payloads[AGREE_OF_ABORT])
		return;
	if (!agreement_is_root(&a->a)) {
		/* Other nodes leave it to the root; they fail if the root stays out of reach. */
		if (is_open_locked(a) && clock_mono_ns() - b->since_ns > cp->units->commit_ns)
			fail_locked(a);
		return;
	}
	if (a->a.state == AGREE_OPEN && checkpoint_rests_in_locked(cp, GENERATION_OPEN)) {
		cp->closed_ns = a->heard_ns =
			clock_mono_ns(); /* from here on other nodes may be late */
		agreement_end(&a->a, true);
	}
	if (a->a.state != AGREE_PREPARED || !checkpoint_rests_locked(cp) ||
	    (a->a.heir && !a->a.at_end))
		return;
	if (cp->state == GENERATION_SEALED || accord_may_say_last(a))
		give_verdict_locked(a);
}
