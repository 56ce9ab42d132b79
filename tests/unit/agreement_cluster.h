/* SPDX-License-Identifier: MIT */
/*
 * A small cluster of nodes that agree: its records, its nodes, and all that can happen to it next.
 * Each node's beliefs are checked as they change.
 */
#ifndef TESTS_UNIT_AGREEMENT_CLUSTER_H
#define TESTS_UNIT_AGREEMENT_CLUSTER_H

#include "tests/unit/unit.h"

#include "engine/coord/agreement.h"

#define HELPER	    __attribute__((unused)) static
#define NODES_MAX   4
#define RECORDS_MAX 40
#define TEXT_MAX    64

static const char *const ids[NODES_MAX] = {"a", "b", "c", "d"};

struct record_made {
	char kind[16];
	char text[TEXT_MAX];
};

struct member {
	struct agreement a;
	bool begun, dead, suspected, in_flight, leaves;
	bool wrote, closed;
	unsigned char reports, votes; /* heard; the own vote, final */
	unsigned char believed;	      /* what a commit is of, if this node believes it */
	struct agree_op op;	      /* in flight: its answer */
	bool ours, found;
	char text[TEXT_MAX];
};

struct world {
	struct member m[NODES_MAX];
	struct record_made records[RECORDS_MAX];
	unsigned nr;
	unsigned char end; /* it was seen */
	unsigned char
		decision; /* the first, while that counted: 0x80: commit, of what; 0x40: abort */
	unsigned char forgetting; /* how far somebody has cleared up */
	unsigned char crashes, suspicions, losses, failures, leaves;
	bool excused; /* somebody was taken for dead, or has failed, before all had voted */
};

static unsigned long
	nr_inherited; /* how often a node has decided for the commit in the place of the root */

static struct setting {
	unsigned nodes, fanout;
	unsigned crashes, suspicions, losses, failures, leaves;
	bool every; /* the end needs reports of all; else it is asked for, at any time */
	bool clear; /* somebody clears up */
	bool guarded;
	bool late; /* who crashes, or is taken for dead, is so once the root has voted early */
} set;

/* --- records --- */

HELPER struct record_made *find_record(struct world *w, const char *kind)
{
	unsigned i;

	for (i = 0; i < w->nr; i++)
		if (!strcmp(w->records[i].kind, kind))
			return &w->records[i];
	return NULL;
}

HELPER struct record_made *make_record(struct world *w, const char *kind, const char *text)
{
	struct record_made *r = &w->records[w->nr++];

	assert_true(w->nr <= RECORDS_MAX);
	memset(r, 0, sizeof(*r));
	snprintf(r->kind, sizeof(r->kind), "%s", kind);
	snprintf(r->text, sizeof(r->text), "%s", text);
	return r;
}

HELPER void remove_records(struct world *w, const char *kind, bool begins)
{
	unsigned i = 0;

	while (i < w->nr) {
		if (begins ? !strncmp(w->records[i].kind, kind, strlen(kind))
			   : !strcmp(w->records[i].kind, kind))
			w->records[i] = w->records[--w->nr];
		else
			i++;
	}
	memset(&w->records[w->nr], 0, (RECORDS_MAX - w->nr) * sizeof(*w->records));
}

/* --- a node --- */

HELPER unsigned bit(unsigned i)
{
	return 1u << i;
}

HELPER unsigned own(const struct world *w, unsigned i)
{
	return w->m[i].wrote ? bit(i) : 0;
}

HELPER void take_news(struct member *m, const struct agree_news *news)
{
	unsigned mask;

	if (!news->any)
		return;
	mask = (unsigned)strtoul(news->payload, NULL, 16);
	assert_true(news->child != AGREE_ROOT || news->entry == AGREE_VOTE);
	if (news->entry == AGREE_REPORT && mask & ~m->reports) {
		m->reports |= (unsigned char)mask;
		agreement_report(&m->a);
	}
	if (news->entry == AGREE_VOTE)
		m->votes |= (unsigned char)mask;
}

HELPER void tell(const struct world *w)
{
	static const char *const names[] = {"joining", "open",	"prepared", "voted",
					    "commit",  "abort", "late"};
	unsigned i;

	for (i = 0; i < set.nodes; i++)
		print_message("  %s%s%s: %s, slot %u, %s %s reports %x votes %x\n", ids[i],
			      w->m[i].dead ? " (dead)" : "",
			      w->m[i].suspected ? " (suspected)" : "",
			      w->m[i].begun ? names[w->m[i].a.state] : "not begun", w->m[i].a.slot,
			      w->m[i].wrote ? "wrote" : "-", w->m[i].closed ? "closed" : "-",
			      w->m[i].reports, w->m[i].votes);
	for (i = 0; i < w->nr; i++)
		print_message("  %s: %s\n", w->records[i].kind, w->records[i].text);
}

HELPER void check_belief(struct world *w, unsigned i)
{
	struct member *m = &w->m[i];
	unsigned j;

	if (m->a.state != AGREE_COMMIT && m->a.state != AGREE_ABORT)
		return;
	assert_int_equal(w->decision & 0xc0, m->a.state == AGREE_COMMIT ? 0x80 : 0x40);
	if (m->a.state != AGREE_COMMIT)
		return;
	assert_true(w->end);
	m->believed = w->decision & 0x3f;
	for (j = 0; j < set.nodes; j++) {
		if (!w->m[j].wrote)
			continue;
		if (m->believed & bit(j))
			continue;
		tell(w);
		fail_msg("what %s has written is not in the commit", ids[j]);
	}
	if (set.every)
		assert_int_equal(m->believed, bit(set.nodes) - 1);
}

/* Does the log of the root have all votes, so that nobody's life matters any more? */
HELPER bool all_voted(struct world *w)
{
	unsigned joined = 0, voted = 0, i;
	bool closed = false, root = false;
	char kind[COORD_KIND_MAX];
	struct record_made *r;

	for (i = 0; snprintf(kind, sizeof(kind), "log.0.%u", i), (r = find_record(w, kind)); i++) {
		joined += !closed && !strncmp(r->text, "join ", 5);
		closed = closed || !strncmp(r->text, "closed ", 7);
		root = root || !strncmp(r->text, "vote 0 ", 7);
		voted += !strncmp(r->text, "vote ", 5) && strncmp(r->text, "vote 0 ", 7) != 0;
	}
	return root && voted == joined;
}

/* An heir has read all that nodes have said to the root. */
HELPER void check_read(struct world *w, const struct member *m)
{
	unsigned i, at;

	for (i = 0; m->a.heir && i < w->nr; i++)
		if (sscanf(w->records[i].kind, "log.0.%u", &at) == 1 && at >= m->a.next &&
		    strncmp(w->records[i].text, "heir ", 5) != 0) {
			tell(w);
			fail_msg("%s has not read all", m->a.node);
		}
}

HELPER void note_decision(struct world *w, const struct record_made *r)
{
	struct agree_decision d;

	if (strcmp(r->kind, "decision") || !find_record(w, "open") || w->decision)
		return;
	assert_true(agreement_read_decision(r->text, &d));
	nr_inherited += d.commit && strncmp(r->text, "commit a ", 9) != 0;
	if (d.commit)
		check_read(w, &w->m[r->text[7] - 'a']);
	if (!d.commit && !w->excused && all_voted(w)) {
		tell(w);
		fail_msg("all have voted, and it is aborted");
	}
	w->decision = d.commit ? 0x80 | (unsigned char)strtoul(d.payload, NULL, 16) : 0x40;
}

/* Is none of the two there; or both, by this node? */
HELPER bool together(struct world *w, const struct agree_op *op)
{
	const struct record_made *r = find_record(w, op->kind), *also = find_record(w, op->also);

	if (!r || strcmp(r->text, op->head) != 0)
		return r || !also;
	return also && !strncmp(also->text, op->also_head, strlen(op->also_head));
}

HELPER void do_op(struct world *w, unsigned i, bool lost)
{
	struct member *m = &w->m[i];
	struct agree_op op;
	struct record_made *r;
	char text[TEXT_MAX + AGREE_HEAD_MAX], also_text[TEXT_MAX + AGREE_HEAD_MAX];
	bool ours = false;

	agreement_next(&m->a, &op);
	if (op.payload == AGREE_OF_REPORT)
		snprintf(text, sizeof(text), "%s %x", op.head,
			 (m->closed ? bit(i) : 0) | m->reports);
	else if (op.payload == AGREE_OF_VOTE && m->a.early)
		snprintf(text, sizeof(text), "%s %x", op.head, own(w, i));
	else if (op.payload == AGREE_OF_VOTE || op.payload == AGREE_OF_COMMIT)
		snprintf(text, sizeof(text), "%s %x", op.head, m->votes);
	else
		snprintf(text, sizeof(text), "%s", op.head);
	if (*op.also && !together(w, &op)) /* one by one */
		op.also[0] = '\0';
	r = find_record(w, op.kind);
	if (op.what == AGREE_RECORD && *op.also && !r && find_record(w, "open")) {
		snprintf(also_text, sizeof(also_text), "%s %x", op.also_head, m->votes);
		make_record(w, op.also, also_text);
	}
	if (op.what == AGREE_RECORD) {
		if (!r && (!set.guarded || find_record(w, "open")))
			r = make_record(w, op.kind, text);
		if (r)
			note_decision(w, r);
		ours = r && !strcmp(r->text, text);
	}
	if (lost)
		return;
	m->op = op;
	m->ours = ours;
	m->found = r != NULL;
	snprintf(m->text, sizeof(m->text), "%s", r ? r->text : "");
	m->in_flight = true;
}

HELPER void answer(struct world *w, unsigned i)
{
	struct member *m = &w->m[i];
	struct agree_news news;

	agreement_answer(&m->a, &m->op, m->ours, m->found ? m->text : NULL, &news);
	take_news(m, &news);
	m->in_flight = m->ours = m->found = false;
	memset(&m->op, 0, sizeof(m->op));
	memset(m->text, 0, sizeof(m->text));
	check_belief(w, i);
}

/* --- all that can happen --- */

/*
 * Each of these performs the @*n-th thing of its kind that can happen; false: there are fewer, and
 * @*n is what is left to count. *@calamity: it need not happen.
 */
#define POSSIBLE(condition) ((condition) && !(*n)--)

/* It may come at any time, or not at all, where not all are needed. */
HELPER bool comes(struct world *w, unsigned i, unsigned *n, bool *calamity)
{
	struct member *m = &w->m[i];

	if (!POSSIBLE(i))
		return false;
	m->begun = true;
	agreement_begin(&m->a, ids[i], ids[0], set.fanout);
	m->a.guarded = set.guarded;
	*calamity = !set.every;
	return true;
}

HELPER bool makes_records(struct world *w, unsigned i, unsigned *n, bool *calamity)
{
	struct member *m = &w->m[i];
	struct agree_op op;

	agreement_next(&m->a, &op);
	if (POSSIBLE(!m->in_flight && op.what != AGREE_IDLE)) {
		do_op(w, i, false);
		return true;
	}
	if (POSSIBLE(!m->in_flight && op.what == AGREE_RECORD && w->losses < set.losses)) {
		w->losses++;
		do_op(w, i, true);
		*calamity = true;
		return true;
	}
	if (POSSIBLE(m->in_flight)) {
		answer(w, i);
		return true;
	}
	return false;
}

HELPER bool sees_records(struct world *w, unsigned i, unsigned *n)
{
	struct member *m = &w->m[i];
	char kinds[AGREE_AWAITS][COORD_KIND_MAX];
	unsigned nr = m->in_flight ? 0 : agreement_awaits(&m->a, kinds), k;

	for (k = 0; k < nr; k++) {
		struct record_made *r = find_record(w, kinds[k]);
		struct agree_news news;

		if (POSSIBLE(r)) {
			agreement_saw(&m->a, kinds[k], r->text, &news);
			take_news(m, &news);
			check_belief(w, i);
			return true;
		}
	}
	return false;
}

HELPER bool saves(struct world *w, unsigned i, unsigned *n, bool *calamity)
{
	struct member *m = &w->m[i];

	if (POSSIBLE(!m->wrote && !m->leaves && !m->a.ready && !m->a.early && !m->a.root_voted &&
		     !m->a.heir && (m->a.state == AGREE_OPEN || m->a.state == AGREE_PREPARED))) {
		m->wrote = true;
		*calamity = !set.every;
		return true;
	}
	if (POSSIBLE(m->wrote && !m->closed)) {
		m->closed = true;
		agreement_report(&m->a);
		return true;
	}
	if (POSSIBLE(!i && m->a.state == AGREE_OPEN &&
		     (!set.every || (own(w, 0) | m->reports) == bit(set.nodes) - 1))) {
		agreement_end(&m->a, false);
		w->end = 1;
		return true;
	}
	return false;
}

HELPER bool votes(struct world *w, unsigned i, unsigned *n)
{
	struct member *m = &w->m[i];

	if (POSSIBLE(agreement_may_vote(&m->a) && (!m->wrote || m->closed)) ||
	    POSSIBLE(agreement_may_close(&m->a) && (!m->wrote || m->closed))) {
		m->votes |= (unsigned char)(m->a.heir ? 0 : own(w, i));
		agreement_vote(&m->a);
		return true;
	}
	if (POSSIBLE(agreement_may_vote_early(&m->a) && (!m->wrote || m->closed))) {
		agreement_vote_early(&m->a);
		return true;
	}
	if (POSSIBLE(agreement_may_stand_in(&m->a))) {
		agreement_stand_in(&m->a);
		m->votes = 0;
		return true;
	}
	return false;
}

HELPER bool leaves(struct world *w, unsigned i, unsigned *n, bool *calamity)
{
	struct member *m = &w->m[i];

	/* What it has is closed, and it is needed for nothing more. */
	if (POSSIBLE(i && w->leaves < set.leaves && m->a.state == AGREE_OPEN &&
		     (m->wrote || !set.every) && m->closed == m->wrote)) {
		agreement_leave(&m->a);
		if (m->a.state == AGREE_PREPARED) {
			w->leaves++;
			m->leaves = true;
		}
		*calamity = true;
		return true;
	}
	if (POSSIBLE(!i && w->leaves < set.leaves && m->a.root_voted)) {
		w->leaves++;
		m->dead = true;
		*calamity = true;
		return true;
	}
	if (POSSIBLE(m->leaves && m->a.state == AGREE_VOTED && !m->a.vote)) {
		m->dead = true;
		*calamity = true;
		return true;
	}
	return false;
}

HELPER bool gives_up(struct world *w, unsigned i, unsigned *n, bool *calamity)
{
	struct member *m = &w->m[i];

	/* Who has died before it joined is missed only by the time that passes. */
	if (POSSIBLE(!i && m->a.state == AGREE_OPEN && !m->a.abort && w->crashes)) {
		agreement_abort(&m->a);
		return true;
	}
	if (POSSIBLE(w->failures < set.failures && !agreement_is_over(&m->a))) {
		w->failures++;
		w->excused = true;
		agreement_abort(&m->a);
		*calamity = true;
		return true;
	}
	if (POSSIBLE(!find_record(w, "open") && !m->a.doubt && !agreement_is_over(&m->a) &&
		     m->a.state != AGREE_JOINING)) {
		agreement_doubt(&m->a);
		return true;
	}
	return false;
}

/* As the driver does before it takes a node for dead: what that has said by then counts. */
HELPER void looks(struct world *w, unsigned i)
{
	struct member *m = &w->m[i];
	char kinds[AGREE_AWAITS][COORD_KIND_MAX];
	struct agree_news news;
	struct record_made *r;
	unsigned nr, k, at;
	bool any = true;

	while (any) {
		nr = agreement_awaits(&m->a, kinds);
		for (any = false, k = 0; k < nr && !any; k++) {
			r = find_record(w, kinds[k]);
			if (!r || m->a.decided)
				continue;
			agreement_saw(&m->a, kinds[k], r->text, &news);
			take_news(m, &news);
			any = true;
		}
	}
	for (at = m->a.next + 1; at <= m->a.next + AGREE_BEHIND; at++) {
		snprintf(kinds[0], COORD_KIND_MAX, "log.%u.%u", m->a.slot, at);
		r = find_record(w, kinds[0]);
		if (!r)
			continue;
		agreement_saw_behind(&m->a, r->text, &news);
		take_news(m, &news);
	}
}

HELPER bool sees_dead(struct world *w, unsigned i, unsigned *n, bool *calamity)
{
	struct member *m = &w->m[i];
	const char *watched[AGREE_FANOUT + 1];
	unsigned nr = m->in_flight ? 0 : agreement_watches(&m->a, watched), j, k;

	for (k = 0; k < nr; k++) {
		j = (unsigned)(watched[k][0] - 'a');
		if (POSSIBLE(w->m[j].dead || w->m[j].suspected)) {
			looks(w, i);
			agreement_dead(&m->a, ids[j]);
			check_belief(w, i);
			*calamity = !w->m[j].dead;
			return true;
		}
	}
	return false;
}

HELPER bool is_lost(struct world *w, unsigned i, unsigned *n, bool *calamity)
{
	struct member *m = &w->m[i];
	bool may = !set.late || w->m[0].a.root_voted;

	if (POSSIBLE(may && w->crashes < set.crashes)) {
		w->crashes++;
		m->dead = true;
		*calamity = true;
		return true;
	}
	if (POSSIBLE(may && w->suspicions < set.suspicions && !m->suspected)) {
		w->suspicions++;
		w->excused = w->excused || !all_voted(w);
		m->suspected = true;
		*calamity = true;
		return true;
	}
	return false;
}

/* Somebody clears up, once all know who are not taken for dead. */
HELPER bool clears_up(struct world *w, unsigned *n, bool *calamity)
{
	static const char *const steps[] = {"open", "log.", "prepare", "decision"};
	unsigned i, k;

	for (i = 0, k = set.clear; i < set.nodes; i++)
		if (w->m[i].begun && !w->m[i].dead && !w->m[i].suspected &&
		    !agreement_is_over(&w->m[i].a))
			k = 0;
	if (!POSSIBLE(k && w->forgetting < 4 && (w->forgetting || find_record(w, "decision"))))
		return false;
	do {
		remove_records(w, steps[w->forgetting], w->forgetting == 1);
		w->forgetting++;
	} while (set.guarded && w->forgetting < 4);
	*calamity = true;
	return true;
}

/* Performs the @n-th thing that can happen; false: there are fewer. *@calamity: it need not. */
HELPER bool happen(struct world *w, unsigned n, bool *calamity)
{
	unsigned i;

	*calamity = false;
	for (i = 0; i < set.nodes; i++) {
		if (w->m[i].dead)
			continue;
		if (!w->m[i].begun) {
			if (comes(w, i, &n, calamity))
				return true;
			continue;
		}
		if (makes_records(w, i, &n, calamity) || sees_records(w, i, &n) ||
		    saves(w, i, &n, calamity) || votes(w, i, &n) || leaves(w, i, &n, calamity) ||
		    gives_up(w, i, &n, calamity) || sees_dead(w, i, &n, calamity) ||
		    is_lost(w, i, &n, calamity))
			return true;
	}
	return clears_up(w, &n, calamity);
}

#endif
