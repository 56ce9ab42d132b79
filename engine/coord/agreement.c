/* SPDX-License-Identifier: MIT */
#include "engine/base/fault.h"
#include "engine/coord/agreement.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TO(state) MACHINE_TO(AGREE_##state)

/* agreement.h draws this diagram. */
const struct machine agreement_machine = {
	.what = "agreement",
	.nr_states = AGREE_LATE + 1,
	.names = {"JOINING", "OPEN", "PREPARED", "VOTED", "COMMIT", "ABORT", "LATE"},
	.next =
		{
			[AGREE_JOINING] = TO(OPEN) | TO(COMMIT) | TO(ABORT) | TO(LATE),
			[AGREE_OPEN] = TO(PREPARED) | TO(COMMIT) | TO(ABORT) | TO(LATE),
			[AGREE_PREPARED] = TO(VOTED) | TO(COMMIT) | TO(ABORT) | TO(LATE),
			[AGREE_VOTED] = TO(PREPARED) | TO(COMMIT) | TO(ABORT) | TO(LATE),
		},
};

static void set_state_by(struct agreement *a, enum agree_state state, const char *who)
{
	MACHINE_CHECK(&agreement_machine, a->state, state, who, "of node %s, slot %u", a->node,
		      a->slot);
	a->state = state;
}
#define set_state(a, state) set_state_by(a, state, __func__)

void agreement_begin(struct agreement *a, const char *node, const char *root, unsigned fanout)
{
	memset(a, 0, sizeof(*a));
	snprintf(a->node, sizeof(a->node), "%s", node);
	snprintf(a->above[0], sizeof(a->above[0]), "%s", root);
	a->fanout = fanout < 1 ? 1 : fanout > AGREE_FANOUT ? AGREE_FANOUT : fanout;
	if (!strcmp(node, root))
		set_state(a, AGREE_OPEN);
}

/* --- what is there --- */

static uint32_t first_child(const struct agreement *a)
{
	return a->slot * a->fanout + 1;
}

static uint32_t parent_of(const struct agreement *a)
{
	return (a->slot - 1) / a->fanout;
}

/* --- joining --- */

/* The child slot that a node descends to from a full slot. A hash of the node spreads them. */
static unsigned way_down(const struct agreement *a)
{
	uint32_t h = 2166136261u + a->depth;
	const char *p;

	for (p = a->node; *p; p++)
		h = (h ^ (unsigned char)*p) * 16777619u;
	return (h ^ h >> 16) % a->fanout;
}

static void descend(struct agreement *a)
{
	unsigned k = (way_down(a) + a->turns) % a->fanout;
	uint64_t slot = (uint64_t)first_child(a) + k;

	if (slot > AGREE_SLOT_MAX / AGREE_FANOUT || a->depth + 2 >= AGREE_DEPTH_MAX) {
		set_state(a, AGREE_LATE); /* more nodes than any cluster has */
		return;
	}
	a->depth++;
	memcpy(a->above[a->depth], a->children[k].node, COORD_NODE_MAX);
	a->slot = (uint32_t)slot;
	a->next = 0;
	a->nr_children = 0;
}

/*
 * The log of this slot is closed: the end was seen, or that node leaves. The sibling slots may
 * still be open.
 */
static void turn_back(struct agreement *a)
{
	if (!a->slot || ++a->turns >= a->fanout) {
		set_state(a, AGREE_LATE);
		return;
	}
	a->depth--;
	a->slot = parent_of(a);
	a->next = 0;
	a->nr_children = 0;
}

/* While this node joins: takes an entry of the log of @slot that another node made. */
static void passed(struct agreement *a, enum agree_entry what, const char *node)
{
	a->next++;
	if (what == AGREE_CLOSED)
		turn_back(a);
	if (what != AGREE_JOIN)
		return;
	memcpy(a->children[a->nr_children++].node, node, COORD_NODE_MAX);
	if (a->nr_children == a->fanout)
		descend(a);
}

static void has_joined(struct agreement *a)
{
	a->joined = true;
	a->up_next = a->next + 1;
	a->turns = 0;
	a->slot = first_child(a) + a->nr_children;
	a->watched = a->depth;
	a->depth++;
	a->next = 0;
	a->nr_children = 0;
	memset(a->children, 0, sizeof(a->children));
}

/* --- the log of this node --- */

static void heard(struct agreement *a, const char *text, struct agree_news *news)
{
	char node[COORD_NODE_MAX] = "";
	const char *payload;
	enum agree_entry what;
	uint32_t slot, k;

	a->next++;
	if (!agreement_read_entry(text, &what, &slot, node, &payload))
		return;
	if (what == AGREE_CLOSED) {
		a->closed = true;
		return;
	}
	if (what == AGREE_VOTE && !slot && a->heir && !strcmp(node, a->above[0])) {
		a->root_voted = true;
		*news = (struct agree_news){true, what, AGREE_ROOT, payload};
		return;
	}
	if (what == AGREE_VOTE && !slot && !a->slot && !strcmp(node, a->node)) {
		a->root_voted = true; /* the answer to our vote was lost */
		a->early = false;
		return;
	}
	if (what == AGREE_JOIN) {
		if (a->closed || a->nr_children >= a->fanout)
			return;
		a->ready = false;
		memcpy(a->children[a->nr_children].node, node, COORD_NODE_MAX);
		*news = (struct agree_news){true, what, a->nr_children++, payload};
		return;
	}
	k = slot - first_child(a);
	if (slot < first_child(a) || k >= a->nr_children || strcmp(a->children[k].node, node))
		return;
	if (what == AGREE_VOTE) {
		a->children[k].voted = true;
		a->children[k].ahead = false;
	}
	*news = (struct agree_news){true, what, k, payload};
}

static void decided(struct agreement *a, const char *text)
{
	struct agree_decision d;

	if (!agreement_read_decision(text, &d))
		return;
	a->decided = true;
	memcpy(a->decider, d.node, sizeof(a->decider));
	a->commit = d.commit || FAULT(ABORT_IGNORED);
	if (a->guarded)
		set_state(a, a->commit ? AGREE_COMMIT : AGREE_ABORT);
}

static void has_voted(struct agreement *a)
{
	a->reported = a->reports;
	set_state(a, AGREE_VOTED);
}

/* --- what is to be done --- */

static void ask(struct agree_op *op, int what, const char *kind)
{
	op->what = what;
	snprintf(op->kind, sizeof(op->kind), "%s", kind);
}

static void append(struct agree_op *op, const struct agreement *a, uint32_t slot, uint32_t nr,
		   enum agree_entry entry)
{
	op->what = AGREE_RECORD;
	coord_log_kind(op->kind, slot, nr);
	agreement_write_entry(op->head, entry, a->slot, a->node);
}

static void decide(struct agree_op *op, const struct agreement *a, bool commit)
{
	ask(op, AGREE_RECORD, COORD_DECISION);
	agreement_write_decision(op->head, commit, a->node);
	op->payload = commit ? AGREE_OF_COMMIT : AGREE_OF_ABORT;
}

/* A bit for each child that has voted: at `prepare`, for those that left. */
static unsigned voters(const struct agreement *a)
{
	unsigned mask = 0, k;

	for (k = 0; k < AGREE_FANOUT; k++)
		if (k < a->nr_children && a->children[k].voted)
			mask |= 1u << k;
	return mask;
}

bool agreement_has_all_of(const struct agreement *a, unsigned k)
{
	return a->children[k].voted && !a->children[k].ahead;
}

static bool all_voted(const struct agreement *a)
{
	unsigned i;

	for (i = 0; i < a->nr_children; i++)
		if (!agreement_has_all_of(a, i))
			return false;
	return true;
}

static uint32_t vote_entry(const struct agreement *a)
{
	uint32_t next = a->slot ? a->up_next : a->next;

	return a->vote_at > next ? a->vote_at : next;
}

void agreement_next(const struct agreement *a, struct agree_op *op)
{
	struct agree_prepare prepare = {.died = a->died};

	memset(op, 0, sizeof(*op));
	if (agreement_is_over(a))
		return;
	if (a->decided || a->doubt) {
		ask(op, AGREE_READ, COORD_OPEN);
	} else if (a->abort) {
		decide(op, a, false);
	} else if (a->state == AGREE_JOINING && !a->joined) {
		append(op, a, a->slot, a->next, AGREE_JOIN);
	} else if (a->state == AGREE_JOINING) {
		ask(op, AGREE_READ, a->undecided ? COORD_OPEN : COORD_DECISION);
	} else if (a->state == AGREE_PREPARED && !a->slot && a->nr_children && !a->prepared) {
		/*
		 * `prepare` comes first: a writer that dies on another node after it is too late to
		 * spoil the generation.
		 */
		ask(op, AGREE_RECORD, COORD_PREPARE);
		prepare.length = a->next;
		prepare.voted = voters(a);
		memcpy(prepare.node, a->node, sizeof(prepare.node));
		agreement_write_prepare(op->head, &prepare);
	} else if (a->heir && a->state == AGREE_PREPARED && !a->at_end &&
		   (!a->closed || all_voted(a))) {
		append(op, a, 0, a->next, AGREE_HEIR);
	} else if (a->state == AGREE_PREPARED && !a->closed && !a->heir) {
		append(op, a, a->slot, a->next, AGREE_CLOSED);
		if (!a->ready)
			return;
		coord_log_kind(op->also, parent_of(a), vote_entry(a));
		agreement_write_entry(op->also_head, AGREE_VOTE, a->slot, a->node);
	} else if (a->vote && !a->slot) {
		decide(op, a, true);
	} else if (a->early) {
		append(op, a, 0, vote_entry(a), AGREE_VOTE);
		op->payload = AGREE_OF_VOTE;
	} else if (a->vote || a->reports != a->reported) {
		append(op, a, parent_of(a), a->vote ? vote_entry(a) : a->up_next,
		       a->vote ? AGREE_VOTE : AGREE_REPORT);
		op->payload = a->vote ? AGREE_OF_VOTE : AGREE_OF_REPORT;
		op->report = a->reports;
	}
}

/*
 * `prepare` tells the children of the root where to vote. The root's own vote goes behind theirs
 * (agreement_vote_early), where it is in nobody's way.
 */
static void is_prepared(struct agreement *a, const char *text)
{
	struct agree_prepare p;

	a->prepared = true;
	if (agreement_read_prepare(text, &p))
		a->vote_at = p.length + 1 - (unsigned)__builtin_popcount(p.voted);
}

/*
 * Takes the answer to a read of `open` or `decision`, made after this node joined, or after it
 * found a decision. The node that clears up removes `open` first and the decision last. So "no
 * decision" counts only if `open` stands afterwards.
 */
static void looked(struct agreement *a, const char *kind, const char *text)
{
	if (!strcmp(kind, COORD_OPEN)) {
		a->doubt = false;
		if (!text)
			set_state(a, AGREE_LATE);
		else if (a->decided)
			set_state(a, a->commit ? AGREE_COMMIT : AGREE_ABORT);
		else if (a->state == AGREE_JOINING)
			set_state(a, AGREE_OPEN);
	} else {
		a->undecided = true;
		if (text)
			decided(a, text);
	}
}

void agreement_answer(struct agreement *a, const struct agree_op *op, bool ours, const char *text,
		      struct agree_news *news)
{
	char node[COORD_NODE_MAX];
	const char *payload;
	enum agree_entry what;
	uint32_t slot;

	memset(news, 0, sizeof(*news));
	if (op->what == AGREE_READ) {
		looked(a, op->kind, text);
	} else if (!text) {
		set_state(a, AGREE_LATE);
	} else if (!strcmp(op->kind, COORD_DECISION)) {
		decided(a, text);
	} else if (!strcmp(op->kind, COORD_PREPARE)) {
		is_prepared(a, text);
	} else if (a->state == AGREE_JOINING && ours) {
		has_joined(a);
	} else if (a->state == AGREE_JOINING) {
		if (agreement_read_entry(text, &what, &slot, node, &payload))
			passed(a, what, node);
		else
			a->next++;
	} else if (op->payload == AGREE_NONE) {
		heard(a, text, news); /* our entry, or the one that has its place */
		if (ours && *op->also)
			has_voted(a);
		if (ours && a->heir) {
			a->at_end = true;
			a->abort = a->abort || !a->root_voted;
		}
	} else if (op->payload == AGREE_OF_VOTE) {
		a->vote_at = vote_entry(a) + 1;
		if (ours && !a->slot) {
			a->root_voted = true;
			a->early = false;
		} else if (ours) {
			a->vote = false;
		}
	} else {
		a->up_next++;
		if (ours)
			a->reported = op->report;
	}
}

unsigned agreement_awaits(const struct agreement *a, char kinds[AGREE_AWAITS][COORD_KIND_MAX])
{
	unsigned nr = 0;

	if (agreement_is_over(a) || a->state == AGREE_JOINING)
		return 0;
	if (a->slot && a->state == AGREE_OPEN)
		snprintf(kinds[nr++], COORD_KIND_MAX, COORD_PREPARE);
	if (a->state != AGREE_VOTED)
		coord_log_kind(kinds[nr++], a->slot, a->next);
	snprintf(kinds[nr++], COORD_KIND_MAX, COORD_DECISION);
	return nr;
}

/*
 * `prepare` says how long the root's log is, so a voter need not find its end by reading what the
 * siblings reported. Each child that has yet to vote also gets an entry of its own behind the
 * root's `closed`; else all children would try for the same one. Such a log has gaps until all have
 * voted. A node that finds its entry taken goes on to the next. Any other entry goes to the first
 * gap, where it is heard at once. So no gap is left in the end.
 */
static void prepared(struct agreement *a, const char *text)
{
	unsigned k = a->slot ? (a->slot - 1) % a->fanout : 0;
	struct agree_prepare p;

	if (a->state != AGREE_OPEN)
		return;
	set_state(a, AGREE_PREPARED);
	if (!agreement_read_prepare(text, &p))
		return;
	a->died = p.died;
	if (parent_of(a))
		return;
	if (p.length > a->up_next)
		a->up_next = p.length;
	a->vote_at = p.length + 1 + k - (unsigned)__builtin_popcount(p.voted & ((1u << k) - 1));
}

void agreement_saw(struct agreement *a, const char *kind, const char *text, struct agree_news *news)
{
	memset(news, 0, sizeof(*news));
	if (agreement_is_over(a))
		return;
	if (!strcmp(kind, COORD_DECISION))
		decided(a, text);
	else if (!strcmp(kind, COORD_PREPARE))
		prepared(a, text);
	else
		heard(a, text, news);
}

void agreement_saw_behind(struct agreement *a, const char *text, struct agree_news *news)
{
	unsigned before = voters(a);
	uint32_t next = a->next, slot;
	char node[COORD_NODE_MAX];
	enum agree_entry what;
	const char *payload;

	memset(news, 0, sizeof(*news));
	if (agreement_is_over(a) || !agreement_read_entry(text, &what, &slot, node, &payload) ||
	    what != AGREE_VOTE || !slot)
		return;
	heard(a, text, news);
	a->next = next;
	news->any = news->any &&
		    voters(a) != before; /* once, or no wait for news would ever time out */
	if (news->any)
		a->children[news->child].ahead = true;
}

/* --- which nodes live --- */

unsigned agreement_watches(const struct agreement *a, const char *nodes[AGREE_FANOUT + 1])
{
	unsigned nr = 0, i;

	if (agreement_is_over(a) || a->state == AGREE_JOINING)
		return 0;
	if (a->slot && !a->orphan)
		nodes[nr++] = a->above[a->watched];
	for (i = 0; i < a->nr_children; i++)
		if (!a->children[i].voted)
			nodes[nr++] = a->children[i].node;
	return nr;
}

bool agreement_dead(struct agreement *a, const char *node)
{
	unsigned i;

	if (agreement_is_over(a) || a->state == AGREE_JOINING || a->abort)
		return false;
	for (i = 0; i < a->nr_children; i++)
		if (!a->children[i].voted && !strcmp(a->children[i].node, node))
			a->abort = true;
	if (a->slot && !a->orphan && !strcmp(a->above[a->watched], node)) {
		if (a->watched)
			a->watched--;
		else if (a->state == AGREE_OPEN)
			a->abort = true;
		else
			a->orphan = true;
	}
	return a->abort;
}

bool agreement_may_stand_in(const struct agreement *a)
{
	return a->orphan && a->state == AGREE_VOTED && !a->vote && !a->abort;
}

void agreement_stand_in(struct agreement *a)
{
	if (!agreement_may_stand_in(a))
		return;
	set_state(a, AGREE_PREPARED);
	a->heir = a->prepared = true;
	a->orphan = a->closed = a->ready = false;
	a->slot = a->next = 0;
	a->nr_children = 0;
	memset(a->children, 0, sizeof(a->children));
}

/* --- what the driver says --- */

void agreement_report(struct agreement *a)
{
	if (!agreement_is_root(a) && a->state <= AGREE_PREPARED)
		a->reports++;
}

void agreement_end(struct agreement *a, bool died)
{
	if (!agreement_is_root(a) || a->state != AGREE_OPEN)
		return;
	a->died = died;
	set_state(a, AGREE_PREPARED);
}

void agreement_leave(struct agreement *a)
{
	if (agreement_is_root(a) || a->state != AGREE_OPEN || a->reports != a->reported ||
	    !all_voted(a))
		return;
	set_state(a, AGREE_PREPARED);
}

bool agreement_may_vote(const struct agreement *a)
{
	if (a->state != AGREE_PREPARED || !a->closed || a->abort)
		return false;
	if ((!a->slot && a->nr_children && !a->prepared) || (a->heir && !a->at_end))
		return false;
	return all_voted(a) || (FAULT(VOTE_TWICE) && voters(a));
}

bool agreement_may_vote_early(const struct agreement *a)
{
	return agreement_is_root(a) && !a->heir && a->state == AGREE_PREPARED && a->closed &&
	       a->prepared && !a->early && !a->root_voted && !a->abort && !all_voted(a);
}

void agreement_vote_early(struct agreement *a)
{
	if (!agreement_may_vote_early(a))
		return;
	a->vote_at += a->nr_children;
	a->early = true;
}

bool agreement_may_close(const struct agreement *a)
{
	return a->guarded && a->state == AGREE_PREPARED && a->slot && !a->nr_children &&
	       !a->closed && !a->ready && !a->abort;
}

void agreement_vote(struct agreement *a)
{
	if (agreement_may_close(a))
		a->ready = true;
	if (!agreement_may_vote(a))
		return;
	has_voted(a);
	a->vote = true;
}

void agreement_abort(struct agreement *a)
{
	if (!agreement_is_over(a))
		a->abort = true;
}

void agreement_doubt(struct agreement *a)
{
	if (!agreement_is_over(a) && a->state != AGREE_JOINING)
		a->doubt = true;
}
