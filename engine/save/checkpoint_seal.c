/* SPDX-License-Identifier: MIT */
/*
 * Looks whether the end of a checkpoint is there, by the evidence (evidence.c) and by what is known
 * of its writers, and seals it. The judgement itself is pure (gen/verdict.h); no commit is made
 * here (commit.c).
 */
#include "engine/save/units.h"

#include <errno.h>

#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/base/wait.h"
#include "engine/gen/verdict.h"
#include "engine/save/accord.h"
#include "engine/save/drain.h"

/* True if all processes that wrote to it have ended, and well. */
static bool all_exited_0_locked(struct checkpoint *cp)
{
	struct list *l;

	list_for_each (l, &cp->participants) {
		struct participant *p = container_of(l, struct participant, link);

		if (!p->ended || p->end.fate != WRITER_EXITED_OK)
			return false;
	}
	return !list_empty(&cp->participants) && !accord_has_writers(cp);
}

/* The largest world that one of its writers knows; 0: none is known. */
int checkpoint_world_locked(struct checkpoint *cp)
{
	struct list *l;
	int world = 0;

	list_for_each (l, &cp->participants) {
		struct process *p = container_of(l, struct participant, link)->process;

		world = p->world > world ? p->world : world;
	}
	return world;
}

bool checkpoint_is_being_copied_locked(struct checkpoint *cp)
{
	struct list *l;

	list_for_each (l, &cp->participants) {
		struct participant *p = container_of(l, struct participant, link);

		if (p->copies && !p->ended)
			return true;
	}
	return false;
}

bool checkpoint_has_unseen_writer_locked(const struct checkpoint *cp)
{
	struct list *l;

	list_for_each (l, &cp->participants)
		if (!container_of(l, struct participant, link)->process->visible)
			return true;
	return false;
}

static bool is_quiet_locked(struct checkpoint *cp)
{
	struct units *us = cp->units;
	uint64_t now = clock_mono_ns();

	if (checkpoint_is_being_copied_locked(cp))
		return false;
	if (now > cp->changed_ns && now - cp->changed_ns >= us->quiet_ns)
		return true;
	return drains_cover_locked(us, cp->maker, cp->owner.uid) &&
	       (list_empty(&cp->participants) || all_exited_0_locked(cp));
}

bool checkpoint_is_follow_up_locked(const struct checkpoint *cp)
{
	return cp->follows && !cp->anew && (cp->nr_shared || cp->may_be_ordinary);
}

static struct gen_facts facts_of_locked(struct checkpoint *cp)
{
	return (struct gen_facts){
		.rule = cp->rule,
		.name = cp->target.name,
		.tally = checkpoint_tally_locked(cp),
		.world = checkpoint_world_locked(cp),
		.closed = checkpoint_is_closed_locked(cp),
		.quiet = is_quiet_locked(cp),
		.unseen = checkpoint_has_unseen_writer_locked(cp),
		.exited_0 = all_exited_0_locked(cp),
		.asked = cp->asked,
		.sibling = cp->has_sibling,
		.goes_on = cp->goes_on,
		.removing = checkpoint_is_losing_locked(cp),
		.follows = cp->follows,
		.keeps = checkpoint_is_follow_up_locked(cp),
		.died = accord_has_dead_writer(cp),
		.died_unranked = accord_has_dead_unranked_writer(cp),
	};
}

bool checkpoint_holds_locked(void *checkpoint, const struct evidence *ev)
{
	struct gen_facts facts = facts_of_locked(checkpoint);

	return gen_holds(&facts, ev);
}

/* Publishes its files at once, even while processes still have descriptors of them. */
static void hurry_files_locked(struct checkpoint *cp)
{
	struct list *l;

	list_for_each (l, &cp->files)
		container_of(l, struct generation, beside)->hurried = true;
	waitq_wake(&cp->units->work);
}

/* The end was seen, by the alternative @done of its rule; -1: by none. */
static void seal_locked(struct checkpoint *cp, int done)
{
	cp->done = done;
	if (!cp->closed_ns)
		cp->closed_ns = clock_mono_ns();
	checkpoint_set_state(cp, GENERATION_SEALED);
	hurry_files_locked(cp);
	accord_wake(cp);
	waitq_wake_all(&cp->units->changed);
	waitq_wake(&cp->units->commits);
}

void checkpoint_seal_locked(struct checkpoint *cp)
{
	seal_locked(cp, -1);
}

/* Seals it if all is there that its rule asks for. Whatever that is, nothing of it may be open. */
void checkpoint_look_for_end_locked(struct checkpoint *cp)
{
	struct gen_facts facts;
	int done;

	if (!accord_sees_end(cp) || accord_has_dead_writer(cp) ||
	    !checkpoint_rests_in_locked(cp, GENERATION_OPEN) || !checkpoint_is_closed_locked(cp))
		return;
	facts = facts_of_locked(cp);
	done = gen_end(&facts);
	if (done == GEN_NO_END)
		return;
	if (accord_awaits_end_of_writer(cp)) /* then a later call looks again */
		return;
	seal_locked(cp, done == GEN_NO_RULE ? -1 : done);
}

bool checkpoint_verdict_locked(struct checkpoint *cp)
{
	struct gen_facts facts = facts_of_locked(cp);
	int done = gen_verdict(&facts);

	if (done == GEN_NO_END)
		return false;
	done = done == GEN_NO_RULE ? -1 : done;
	if (cp->state == GENERATION_OPEN)
		seal_locked(cp, done);
	cp->done = done;
	return true;
}

bool checkpoint_stands_locked(struct checkpoint *cp)
{
	struct gen_facts facts = facts_of_locked(cp);

	return gen_stands(&facts, cp->done);
}

bool checkpoint_is_being_removed_locked(struct checkpoint *cp)
{
	return checkpoint_is_losing_locked(cp) && !is_quiet_locked(cp);
}

/*
 * Another job comes, and all writers have ended well: seals a change to some of a committed one.
 * That is whole then, and would wait for silence only for what else may be added.
 */
bool checkpoint_ends_with_writers_locked(struct checkpoint *cp)
{
	checkpoint_look_for_end_locked(cp);
	if (checkpoint_rests_in_locked(cp, GENERATION_OPEN) && checkpoint_is_follow_up_locked(cp) &&
	    !checkpoint_is_losing_locked(cp) && !accord_has_dead_writer(cp) &&
	    checkpoint_is_closed_locked(cp) &&
	    (list_empty(&cp->participants) || all_exited_0_locked(cp)))
		seal_locked(cp, -1);
	return cp->state != GENERATION_OPEN;
}

int checkpoint_ask(struct checkpoint *cp)
{
	LOCK_SCOPE(&cp->units->lock);
	if (!cp->rule && !cp->follows)
		return -EPROTO;
	cp->asked = true;
	cp->removing = false; /* the removal is over */
	accord_forget_removing(cp);
	waitq_wake(&cp->units->commits);
	return 0;
}
