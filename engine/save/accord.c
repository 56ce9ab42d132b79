/* SPDX-License-Identifier: MIT */
#include "engine/save/accord_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/base/log.h"
#include "engine/coord/nodes.h"
#include "engine/record/events.h"

/*
 * The delay until an end is noticed. Too short: a process that was started after a death counts as
 * one of the incarnation that died.
 */
#define NOTICE_NS (NSEC_PER_SEC / 10)

bool accord_has_others(const struct units *us)
{
	return us->nodes && !nodes_alone(us->nodes);
}

bool accord_may_meet_others(const struct units *us)
{
	return us->nodes && !nodes_seem_alone(us->nodes);
}

bool accord_is_for(const struct units *us, const struct process *p)
{
	return accord_has_others(us) && p->read && p->spans;
}

struct backing accord_backing(const struct units *us, const struct process *p,
			      const struct caller *owner)
{
	return backing_shared(backing_owner(us->contents->backing, owner),
			      !p || accord_is_for(us, p));
}

const char *accord_generation(const struct checkpoint *cp)
{
	return staging_id(cp->staging);
}

struct checkpoint *accord_part(struct units *us, const char *gen)
{
	struct list *l;

	list_for_each (l, &us->accords) {
		struct checkpoint *cp = container_of(l, struct accord, link)->cp;

		if (!strcmp(accord_generation(cp), gen))
			return cp;
	}
	return NULL;
}

void accord_wake(struct checkpoint *cp)
{
	uint64_t one = 1;

	if (!cp || !cp->accord)
		return;
	cp->accord->stirred_ns = clock_mono_ns();
	if (write(cp->units->accord_wake, &one, sizeof(one)) < 0)
		log_debug("eventfd: %s", strerror(errno));
}

int accord_attach(struct checkpoint *cp, const char *root)
{
	struct units *us = cp->units;
	struct accord *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	a->events = json_array();
	a->cp = cp;
	a->heard_ns = clock_mono_ns();
	agreement_begin(&a->a, nodes_id(us->nodes), root, AGREE_FANOUT);
	a->a.guarded = us->coord->record_open;
	cp->accord = a;
	cp->refs++;
	list_append(&us->accords, &a->link);
	accord_wake(cp);
	return 0;
}

void accord_free(struct accord *a)
{
	unsigned i;

	if (!a)
		return;
	for (i = 0; i <= AGREE_ROOT; i++) {
		json_decref(a->children[i].open_on);
		json_decref(a->children[i].list);
	}
	json_decref(a->said_on);
	json_decref(a->list);
	free(a->for_heir);
	json_decref(a->seen_on);
	json_decref(a->events);
	free(a->dead_writer.reason);
	free(a->dead_writer.node);
	free(a->payloads[AGREE_OF_COMMIT]);
	free(a->payloads[AGREE_OF_ABORT]);
	free(a);
}

bool accord_is_shared(const struct checkpoint *cp)
{
	return cp->accord && (!agreement_is_root(&cp->accord->a) || cp->accord->a.nr_children);
}

bool accord_sees_end(const struct checkpoint *cp)
{
	return !cp->accord || agreement_is_root(&cp->accord->a);
}

bool accord_may_commit(const struct checkpoint *cp)
{
	const struct agreement *a = cp->accord ? &cp->accord->a : NULL;

	if (!a || (a->state == AGREE_COMMIT && agreement_is_decider(a)))
		return true;
	/* The verdict comes in a moment: a vote may be heard together with the death before it. */
	if (cp->accord->dead_writer.at_ns && !cp->accord->judged)
		return false;
	return agreement_is_root(a) && (agreement_may_vote(a) || a->state == AGREE_VOTED);
}

bool accord_has_left(const struct checkpoint *cp)
{
	const struct accord *a = cp->accord;

	return a && a->left && a->a.state == AGREE_VOTED && !a->a.vote;
}

const struct agreement *accord_agreement(const struct checkpoint *cp)
{
	return cp->accord ? &cp->accord->a : NULL;
}

unsigned accord_nodes(const struct checkpoint *cp)
{
	unsigned i, nr = 1;

	for (i = 0; cp->accord && i < cp->accord->a.nr_children; i++)
		nr += cp->accord->children[i].nodes;
	return nr;
}

uint64_t accord_heard_ns(const struct checkpoint *cp)
{
	return cp->accord ? cp->accord->heard_ns : 0;
}

void accord_event(struct checkpoint *cp, enum evidence_kind kind, const char *path, int rank)
{
	struct accord *a = cp->accord;

	if (!a)
		return;
	if (!agreement_is_root(&a->a))
		events_add(a->events, (int)kind, path, rank);
	accord_wake(cp);
}

void accord_tell_name(struct checkpoint *cp)
{
	if (!cp->accord)
		return;
	cp->accord->renames++;
	cp->units->renames++;
}

bool accord_has_open(const struct checkpoint *cp)
{
	unsigned i;

	for (i = 0; cp->accord && i < cp->accord->a.nr_children; i++)
		if (cp->accord->children[i].open && !cp->accord->a.children[i].voted)
			return true;
	return false;
}

bool accord_has_writers(const struct checkpoint *cp)
{
	unsigned i;

	for (i = 0; cp->accord && i < cp->accord->a.nr_children; i++)
		if (cp->accord->children[i].writers)
			return true;
	return false;
}

const json_t *accord_open_below(const struct checkpoint *cp, unsigned k)
{
	const struct accord *a = cp->accord;

	return a->children[k].open && !a->a.children[k].voted ? a->children[k].open_on : NULL;
}

bool accord_hears_of_removing(const struct checkpoint *cp)
{
	unsigned i;

	for (i = 0; cp->accord && i < cp->accord->a.nr_children; i++)
		if (cp->accord->children[i].removing)
			return true;
	return false;
}

void accord_forget_removing(struct checkpoint *cp)
{
	unsigned i;

	for (i = 0; cp->accord && i < cp->accord->a.nr_children; i++)
		cp->accord->children[i].removing = false;
}

bool accord_has_dead_writer(const struct checkpoint *cp)
{
	return cp->accord && cp->accord->dead_writer.at_ns;
}

bool accord_has_dead_unranked_writer(const struct checkpoint *cp)
{
	return cp->accord && cp->accord->dead_writer.unranked;
}

bool accord_awaits_verdict(const struct checkpoint *cp)
{
	/* A node that gives no verdict seals it for its vote; the decision has the verdict. */
	if (cp->state == GENERATION_SEALED && !accord_sees_end(cp) && cp->accord->a.died)
		return true;
	return accord_has_dead_writer(cp) && cp->state == GENERATION_OPEN &&
	       (cp->accord->a.state < AGREE_VOTED || cp->accord->a.state == AGREE_ABORT);
}

bool accord_is_cut(const struct checkpoint *cp)
{
	const struct accord *a = cp->accord;

	return a && (a->dead_writer.here || (a->a.state == AGREE_PREPARED && a->a.died));
}

uint64_t accord_cause_ns(const struct checkpoint *cp)
{
	if (accord_has_dead_writer(cp))
		return cp->accord->dead_writer.at_ns - NOTICE_NS;
	return cp->accord && cp->accord->cause_ns ? cp->accord->cause_ns : clock_mono_ns();
}

bool accord_awaits_end_of_writer(struct checkpoint *cp)
{
	struct list *l;

	if (!accord_is_shared(cp))
		return false;
	list_for_each (l, &cp->participants) {
		struct participant *part = container_of(l, struct participant, link);

		if (part->watched && !part->ended && process_is_ending(part->process))
			return true;
	}
	return false;
}

void accord_ended(struct checkpoint *cp)
{
	accord_wake(cp);
}

void accord_followed(struct checkpoint *cp, bool all)
{
	LOCK_SCOPE(&cp->units->lock);
	if (!cp->accord)
		return;
	cp->accord->followed = all;
	cp->accord->kept = !all;
	accord_wake(cp);
}

bool accord_is_decided_elsewhere(struct checkpoint *cp)
{
	const struct agreement *a = cp->accord ? &cp->accord->a : NULL;
	LOCK_SCOPE(&cp->units->lock);

	return a && agreement_is_over(a) && !(a->state == AGREE_COMMIT && agreement_is_decider(a));
}
