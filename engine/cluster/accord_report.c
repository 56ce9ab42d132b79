/* SPDX-License-Identifier: MIT */
/*
 * Reports while a checkpoint is open: what this node tells the nodes above, such as evidence, open
 * files, a rename or a death; and what it takes from its children. All with the units' lock, which
 * is not dropped. What a child says may be malformed, and is not judged here (checkpoint_seal.c).
 */
#include "engine/cluster/accord_impl.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/wait.h"
#include "engine/cluster/others.h"
#include "engine/coord/nodes.h"
#include "engine/record/events.h"
#include "engine/record/vote.h"

#define REPORT_MAX	(COORD_TEXT_MAX - 8192) /* bytes of events; the rest of a report is small */
#define STALE_NS	(NSEC_PER_SEC / 2)	/* until a change of the open files is reported */
#define PAUSE_NS	(10 * NSEC_PER_MSEC)	/* between reports, times agreement_pause */
#define CORRECTIONS_MAX 8

bool accord_has_living(struct checkpoint *cp)
{
	struct list *l;

	list_for_each (l, &cp->participants) {
		struct participant *part = container_of(l, struct participant, link);

		if (!part->ended || part->end.fate != WRITER_EXITED_OK)
			return true;
	}
	return accord_has_writers(cp);
}

bool accord_has_news(struct accord *a)
{
	return a->said_open == checkpoint_is_closed_locked(a->cp) ||
	       a->said_writers != accord_has_living(a->cp) || a->said_rule != a->cp->rule ||
	       a->said_removing != checkpoint_is_losing_locked(a->cp) ||
	       a->said_renames != a->renames || json_array_size(a->events) > a->sending ||
	       (a->dead_writer.reason && !a->dead_writer.said) ||
	       (accord_may_say_last(a) && !a->said_last);
}

/* The earliest time for the next report. */
static uint64_t may_say_ns_locked(const struct accord *a)
{
	return a->said_ns + agreement_pause(a->said) * PAUSE_NS;
}

/*
 * True if the open files differ from what was reported, and have for STALE_NS. People want to know
 * what a stalled save waits for; of a save that goes on, not every step needs a record.
 */
static bool is_stale_locked(struct accord *a)
{
	json_t *now;

	if (agreement_is_root(&a->a) || !a->said_open || a->corrections == CORRECTIONS_MAX ||
	    a->a.reports != a->a.reported)
		return false;
	now = others_open(a->cp);
	if (!json_equal(now, a->seen_on)) {
		json_decref(a->seen_on);
		a->seen_on = now;
		a->seen_ns = clock_mono_ns();
		return false;
	}
	json_decref(now);
	if (clock_mono_ns() - a->seen_ns < STALE_NS || json_equal(a->seen_on, a->said_on))
		return false;
	a->corrections++;
	return true;
}

char *accord_compose_report(struct accord *a)
{
	struct checkpoint *cp = a->cp;
	char label[NODES_LABEL_MAX], *text;
	struct told t = {0};

	a->said_open = !checkpoint_is_closed_locked(cp);
	a->said_writers = accord_has_living(cp);
	a->said_rule = cp->rule;
	a->said_removing = checkpoint_is_losing_locked(cp);
	a->sending = events_tell(a->events, REPORT_MAX, &t.events);
	a->more = a->sending < json_array_size(a->events);
	a->saying_last = accord_may_say_last(a) && !a->more;
	a->saying_death = a->dead_writer.reason;
	a->saying_unranked = a->dead_writer.unranked;
	a->saying_renames = a->renames;
	json_decref(a->said_on);
	a->said_on = others_open(cp);
	t.open = a->said_open;
	t.writers = a->said_writers;
	t.last = a->saying_last;
	t.removing = a->said_removing;
	t.rule = cp->rule ? cp->rule->name : NULL;
	t.name = a->said_renames != a->renames ? cp->target.name : NULL;
	t.open_on = a->said_open ? a->said_on : NULL;
	accord_tell_of_death(a, &t, label);
	text = told_write(&t);
	json_decref(t.events);
	return text;
}

/* A node below has renamed the checkpoint, within its directory. */
static void take_name_locked(struct accord *a, const char *name)
{
	if (agreement_is_over(&a->a) || a->a.heir || name_is_reserved(name) ||
	    checkpoint_is_held_locked(a->cp))
		return;
	snprintf(a->cp->target.name, sizeof(a->cp->target.name), "%s", name);
	a->renames++;
}

/*
 * If the end was seen, the root looks again when all have voted (accord_decide). An heir has not
 * seen what the root has, and aborts.
 */
static void hear_of_removal_locked(struct accord *a)
{
	if (a->a.heir && a->a.closed)
		accord_give_reason(a, ECANCELED, true, false, REMOVED_MEANWHILE);
	else if (agreement_is_root(&a->a) && a->a.state == AGREE_PREPARED)
		a->removed = true;
}

/* Takes a child's report, which may be malformed. */
static void take_report_locked(struct accord *a, unsigned k, const struct told *t)
{
	struct checkpoint *cp = a->cp;
	const struct rule *rule = t->rule ? rules_find(cp->units->rules, t->rule) : NULL;
	/* is of this node only: the order of what two nodes do is not known */
	const bool removing = cp->removing;
	struct told_event e;
	json_t *events;
	bool removed;
	size_t i;

	a->children[k].open = t->open;
	a->children[k].writers = t->writers;
	a->children[k].removing = t->removing;
	json_decref(a->children[k].open_on);
	a->children[k].open_on = json_incref(t->open_on);
	cp->changed_ns = clock_mono_ns();
	if (t->name)
		take_name_locked(a, t->name);
	accord_hear_of_death(a, t);
	a->children[k].said_last |= t->last;
	events = events_heard(t->events);
	removed = events_remove(events);
	if (cp->state != GENERATION_OPEN && !accord_owes_word(a) && !removed) {
		json_decref(events);
		return;
	}
	if (rule && !cp->rule && !cp->follows)
		checkpoint_takes_rule_locked(cp, rule);
	for (i = 0; events_get(events, i, &e); i++) {
		if (e.kind == EVIDENCE_CLOSE || e.kind == EVIDENCE_RENAME ||
		    e.kind == EVIDENCE_UNLINK)
			checkpoint_hear_event_locked(cp, (enum evidence_kind)e.kind, e.path,
						     e.rank);
		else if (e.kind == NR_EVIDENCE_KINDS)
			checkpoint_vanishes(cp, e.path);
	}
	json_decref(events);
	cp->removing = removing;
	if (removed)
		hear_of_removal_locked(a);
}

/* For an heir: takes over what the root's vote tells. */
static void take_root_vote_locked(struct accord *a, struct for_heir *h)
{
	free(a->for_heir);
	a->for_heir = h;
	a->judged = h && h->judged;
	if (h && !a->cp->rule)
		a->cp->rule = h->rule;
}

/* Takes a child's vote, or, as an heir, the root's. */
static void take_vote_locked(struct accord *a, unsigned k, const char *payload)
{
	struct child *c = &a->children[k];
	struct for_heir *for_heir;
	json_t *list;

	c->open = false;
	c->nodes =
		vote_parse(payload, &list, a->cp->units->rules, k == AGREE_ROOT ? &for_heir : NULL);
	if (k == AGREE_ROOT)
		take_root_vote_locked(a, for_heir);
	if (c->list)
		json_decref(list);
	else
		c->list = list;
}

void accord_take_news(struct accord *a, const struct agree_news *news)
{
	struct told t;

	if (!news->any)
		return;
	if (news->entry == AGREE_JOIN) {
		nodes_heard(a->cp->units->nodes, a->a.children[news->child].node);
		return;
	}
	a->heard_ns = clock_mono_ns();
	a->nr_heard++;
	if (news->entry == AGREE_REPORT) {
		told_read(&t, news->payload);
		take_report_locked(a, news->child, &t);
		told_finish(&t);
	} else {
		take_vote_locked(a, news->child, news->payload);
	}
	waitq_wake(&a->cp->units->commits); /* the end may be there, or all votes */
}

/*
 * True if something was written since the last look, here or below, for a report that only says so:
 * commit_timeout_s counts from the last progress. Looks four times in commit_timeout_s.
 */
static bool goes_on_locked(struct accord *a)
{
	struct checkpoint *cp = a->cp;
	uint64_t now = clock_mono_ns(), mark = cp->filed.nr + a->nr_heard;
	struct list *l;

	if (agreement_is_root(&a->a) || a->a.state > AGREE_PREPARED ||
	    now - a->marked_ns < cp->units->commit_ns / 4)
		return false;
	a->marked_ns = now;
	list_for_each (l, &cp->files) {
		struct generation *g = container_of(l, struct generation, beside);

		mark += g->touched_ns - content_dirty_bytes(g->content);
	}
	if (mark == a->mark)
		return false;
	a->mark = mark;
	return true;
}

bool accord_is_pausing(struct accord *a)
{
	return !agreement_is_root(&a->a) && a->a.state <= AGREE_PREPARED && accord_has_news(a);
}

bool accord_may_report(struct accord *a)
{
	return goes_on_locked(a) || ((clock_mono_ns() >= may_say_ns_locked(a) || a->more ||
				      a->leaving || accord_owes_word(a)) &&
				     (accord_has_news(a) || is_stale_locked(a)));
}
