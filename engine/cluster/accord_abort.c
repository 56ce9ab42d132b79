/* SPDX-License-Identifier: MIT */
/*
 * The abort of a checkpoint that several nodes write to: the reason, for the decision record. The
 * first reason of a node counts, and the first decision of all.
 *
 * Functions with an accord as argument are called with the units' lock; the others take it. When a
 * checkpoint is given up is decided elsewhere.
 */
#include "engine/cluster/accord_impl.h"

#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/coord/nodes.h"
#include "engine/record/refusal.h"

static void give_reason(struct accord *a, const char *node, int err, bool dropped, bool ordinary,
			const char *reason)
{
	struct refusal r = {.err = err,
			    .reason = reason,
			    .node = node,
			    .dropped = dropped,
			    .ordinary = ordinary};

	if (a->payloads[AGREE_OF_ABORT])
		return;
	if (accord_has_dead_writer(a->cp) || a->cause_ns)
		r.age_us = (json_int_t)((clock_mono_ns() - accord_cause_ns(a->cp)) / NSEC_PER_USEC);
	a->payloads[AGREE_OF_ABORT] = refusal_write(&r);
	agreement_abort(&a->a);
}

void accord_give_reason(struct accord *a, int err, bool dropped, bool ordinary, const char *reason)
{
	struct nodes *ns = a->cp->units->nodes;
	char label[NODES_LABEL_MAX];

	give_reason(a, nodes_label(ns, nodes_id(ns), label), err, dropped, ordinary, reason);
}

void accord_give_reason_of(struct accord *a, const char *node, int err, const char *reason)
{
	give_reason(a, node, err, false, false, reason);
}

void accord_blames_node(struct accord *a, const char *node)
{
	uint64_t lived_ns = nodes_lived_ns(a->cp->units->nodes, node);

	a->cause_ns = lived_ns ? lived_ns : a->cp->opened_ns;
}

bool accord_refuses(struct accord *a, int err, const char *reason)
{
	if (agreement_is_over(&a->a) || (!a->a.early && !a->a.root_voted))
		return false;
	accord_give_reason(a, err, false, false, reason);
	accord_wake(a->cp);
	return true;
}

bool accord_refuse(struct checkpoint *cp, int err, const char *reason)
{
	LOCK_SCOPE(&cp->units->lock);
	return cp->accord && accord_refuses(cp->accord, err, reason);
}
