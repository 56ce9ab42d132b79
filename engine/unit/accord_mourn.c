/* SPDX-License-Identifier: MIT */
/*
 * A dead writer is a failure, but what had ended by then commits (DESIGN 2). On one node the order of the two is known. Here
 * the end may have been seen before on another node, whose report is on its way; and may be brought about there afterwards, by
 * those who do not know of the death yet. So:
 *
 * - Where a writer dies, nothing is done to the checkpoint any more, and those above are told at once. The root judges.
 * - A report says how long ago its last change was. After a death the root takes what was done before it, for a while. If it sees
 *   the end in that it commits; what comes later fails it, and so does the end of that while, which comes as soon as all nodes
 *   have told of a death: when a whole job is killed, that is.
 * - The root may see an end before it hears of the death, however long that takes. So `prepare` says how long ago the end was, and
 *   a node that has told of a death votes for no end that came later: no vote, no commit.
 * - What is not known to be before the death counts as later: the death is dated as early as it may have been, and an end as late.
 *   Nor is an end seen while a process has ended of which nobody knows yet how.
 */
#include "engine/base/lock.h"
#include "engine/unit/accord_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/coord/nodes.h"

/* For reports that are on their way to the root: their pause, and the record. */
#define MOURN_NS (3 * NSEC_PER_SEC)

/* For that judgement, on other nodes: so long a name is not shown to those whom it misleads. */
#define JUDGED_NS (3 * MOURN_NS)

/* What a record may take: of what two nodes do within that the order is not known. */
#define BLUR_NS (NSEC_PER_SEC / 2)

/* Who tells of ends does something for each, on the backing, which may hang. */
#define UNTOLD_NS (10 * NSEC_PER_SEC)

/* Until an end is noticed: who was started in that time was so after it. */
#define NOTICE_NS (NSEC_PER_SEC / 10)

/* True if its end may still be seen. */
static bool is_open_locked(const struct accord *a)
{
	return a->a.state == AGREE_OPEN && a->cp->state == GENERATION_OPEN;
}

bool accord_is_bereaved(const struct checkpoint *cp)
{
	return cp->accord && cp->accord->bereaved.at_ns;
}

bool accord_is_in_doubt(const struct checkpoint *cp)
{
	return accord_is_bereaved(cp) && cp->state == GENERATION_OPEN &&
	       (cp->accord->a.state < AGREE_VOTED || cp->accord->a.state == AGREE_ABORT);
}

bool accord_is_spoiled(const struct checkpoint *cp)
{
	const struct accord *a = cp->accord;

	return accord_is_bereaved(cp) &&
	       (a->payloads[AGREE_OF_ABORT] || cp->changed_ns > a->bereaved.at_ns);
}

uint64_t accord_judged_ns(const struct checkpoint *cp)
{
	return accord_is_bereaved(cp) ? cp->accord->bereaved.at_ns : clock_mono_ns();
}

uint64_t accord_cause_ns(const struct checkpoint *cp)
{
	if (accord_is_bereaved(cp))
		return cp->accord->bereaved.at_ns - NOTICE_NS;
	return cp->accord && cp->accord->cause_ns ? cp->accord->cause_ns : clock_mono_ns();
}

/* The first of several deaths counts. */
static void bereave_locked(struct accord *a, uint64_t at_ns)
{
	struct bereavement *b = &a->bereaved;

	b->since_ns = b->at_ns ? b->since_ns : clock_mono_ns();
	b->at_ns = b->at_ns && b->at_ns < at_ns ? b->at_ns : at_ns;
}

/* The first that is heard is told. */
static void take_reason_locked(struct accord *a, const char *node, const char *reason)
{
	struct bereavement *b = &a->bereaved;

	if (b->reason)
		return;
	b->reason = strndup(reason, MESSAGE_MAX - 1);
	b->node = node ? strndup(node, NODES_LABEL_MAX - 1) : NULL;
	accord_wake(a->cp);
}

bool accord_loses_writer(struct checkpoint *cp, uint64_t lived_ns)
{
	/* Nothing may be open at the end. */
	if (!cp->accord || !is_open_locked(cp->accord) || !accord_is_shared(cp) ||
	    !checkpoint_is_closed_here_locked(cp))
		return false;
	bereave_locked(cp->accord, lived_ns);
	return true;
}

/* Is @p of the same job as it was started again after the death? */
static bool is_reborn_locked(const struct checkpoint *cp, const struct process *p)
{
	const struct process *maker = cp->maker;

	if (!maker->read || !p->read || p->weak || maker->uid != p->uid)
		return false;
	return job_restarted(maker->key, p) ||
	       (!strcmp(maker->key, p->key) && !casualty_concerns(accord_cause_ns(cp), p));
}

int accord_await_judgement(struct checkpoint *cp, const struct caller *c)
{
	uint64_t until = clock_mono_ns() + JUDGED_NS;
	struct units *us = cp->units;
	struct process *p;
	int err = 0;
	{
		LOCK_SCOPE(&us->lock);
		if (!accord_is_in_doubt(cp))
			return 0;
	}
	p = units_process(us, c);
	if (!p)
		return -ENOMEM;
	{
		LOCK_SCOPE(&us->lock);
		while (!err && accord_is_in_doubt(cp) && is_reborn_locked(cp, p) &&
		       clock_mono_ns() < until)
			err = units_wait(us);
	}
	process_put(p);
	return err;
}

static bool has_ending_writer(const struct checkpoint *cp)
{
	struct list *l;

	list_for_each (l, &cp->participants) {
		struct participant *part = container_of(l, struct participant, link);

		if (part->watched && !part->ended && process_is_ending(part->process))
			return true;
	}
	return false;
}

bool accord_awaits_end_of_writer(struct checkpoint *cp)
{
	uint64_t now = clock_mono_ns();
	struct accord *a = cp->accord;

	if (!accord_is_shared(cp))
		return false;
	if (!has_ending_writer(cp)) {
		a->ending_ns = 0;
		return false;
	}
	if (!a->ending_ns)
		a->ending_ns = now;
	return now - a->ending_ns < UNTOLD_NS;
}

void accord_mourns(struct checkpoint *cp, const char *reason)
{
	LOCK_SCOPE(&cp->units->lock);

	take_reason_locked(cp->accord, NULL, reason);
}

/* Have all below told of a death, and so all that counts? Here nothing more is done. */
static bool have_told_locked(const struct accord *a)
{
	unsigned i;

	for (i = 0; i < a->a.nr_children; i++)
		if (!a->children[i].bereaved && !a->a.children[i].voted)
			return false;
	return true;
}

bool accord_has_death_to_tell(const struct accord *a)
{
	const struct bereavement *b = &a->bereaved;

	return b->reason && (!b->said || (!b->said_all && have_told_locked(a)));
}

json_t *accord_tell_of_death(struct accord *a)
{
	struct nodes *ns = a->cp->units->nodes;
	struct bereavement *b = &a->bereaved;
	char label[NODES_LABEL_MAX];

	if (!b->reason)
		return NULL;
	b->said = true;
	b->said_all = have_told_locked(a) && !a->more;
	return json_pack("{s:o, s:o, s:b, s:I}", "reason", json_text(b->reason), "node",
			 json_text(b->node ? b->node : nodes_label(ns, nodes_id(ns), label)), "all",
			 b->said_all, "age_us",
			 (json_int_t)((clock_mono_ns() - b->at_ns) / NSEC_PER_USEC));
}

uint64_t accord_ago(json_int_t age_us)
{
	uint64_t now = clock_mono_ns();

	if (age_us <= 0)
		return now;
	return (uint64_t)age_us < now / NSEC_PER_USEC ? now - (uint64_t)age_us * NSEC_PER_USEC : 0;
}

void accord_hear_of_death(struct accord *a, unsigned child, const json_t *dead)
{
	uint64_t now = clock_mono_ns(),
		 at_ns = accord_ago(json_get_int(dead, "age_us", 0)) + BLUR_NS;

	if (!json_is_object(dead) || !is_open_locked(a))
		return;
	a->children[child].bereaved = json_is_true(json_object_get(dead, "all"));
	bereave_locked(a, at_ns < now ? at_ns : now);
	take_reason_locked(a, json_get_text(dead, "node", "(unknown)"),
			   json_get_text(dead, "reason", "a process that wrote to it has died"));
}

uint64_t accord_time_of(const struct accord *a, json_int_t age_us)
{
	const struct bereavement *b = &a->bereaved;
	uint64_t at_ns = accord_ago(age_us);

	return b->at_ns && at_ns > b->at_ns && at_ns <= b->at_ns + BLUR_NS ? b->at_ns : at_ns;
}

char *accord_tell_of_end(struct accord *a)
{
	const struct checkpoint *cp = a->cp;
	bool steps = cp->rule && cp->done >= 0 && rule_is_of_steps(cp->rule, cp->done);
	uint64_t at_ns = steps ? cp->changed_ns : cp->closed_ns;
	const struct agree_prepare p = {.age_us = (clock_mono_ns() - at_ns) / NSEC_PER_USEC};
	char text[AGREE_HEAD_MAX];

	agreement_write_age(text, &p);
	return strdup(text);
}

void accord_hear_of_end(struct accord *a, const char *text)
{
	struct bereavement *b = &a->bereaved;
	struct agree_prepare p = {.age_us = 0};

	/* A node that does not tell has seen it just now. */
	agreement_read_prepare(text, &p);
	b->refused = b->at_ns && accord_ago((json_int_t)p.age_us) > b->at_ns + BLUR_NS;
}

/* Drops the lock. It is over: by whom is for those to read who are told. */
static void fail_locked(struct accord *a)
{
	const char *reason = a->bereaved.reason;
	struct checkpoint *cp = a->cp;

	reason = reason ? reason : "a process that wrote to it has died";
	if (a->bereaved.node) {
		accord_give_reason_of(a, a->bereaved.node, EIO, reason);
		return;
	}
	lock_drop(&cp->units->lock);
	checkpoint_fail(cp, -EIO, reason); /* once there it stays */
	lock_take(&cp->units->lock);
}

void accord_mourn(struct accord *a)
{
	struct checkpoint *cp = a->cp;
	struct bereavement *b = &a->bereaved;
	uint64_t patience;
	bool over;

	if (!b->at_ns || a->payloads[AGREE_OF_ABORT])
		return;
	checkpoint_look_for_end_locked(cp);
	if (b->refused && a->a.state == AGREE_PREPARED)
		fail_locked(a);
	if (b->refused || !is_open_locked(a))
		return;
	/* Others leave it to the root, which may be out of reach, and fail with that. */
	patience = cp->units->commit_ns;
	if (agreement_is_root(&a->a) && MOURN_NS < patience)
		patience = MOURN_NS;
	over = accord_is_spoiled(cp) || (agreement_is_root(&a->a) && have_told_locked(a));
	if ((b->reason && over) || clock_mono_ns() - b->since_ns > patience)
		fail_locked(a);
}
