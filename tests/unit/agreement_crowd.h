/* SPDX-License-Identifier: MIT */
/*
 * Agreement over many nodes, simulated: what agreement.c explores for a few, at random for up to
 * 10^4. Records are in memory; which node does its next step is drawn, so are nodes that crash, are
 * taken for dead and go on, are held up until all is over and cleared up, and answers that are
 * lost. CKPTFS_TEST_SEED gives a seed.
 */
#ifndef TESTS_UNIT_AGREEMENT_CROWD_H
#define TESTS_UNIT_AGREEMENT_CROWD_H

#include "tests/unit/unit.h"

#include "engine/coord/agreement.h"

#define HELPER	 __attribute__((unused)) static
#define TEXT_MAX 256

/* As long as what the daemon writes. */
#define REPORT "{\"open\":false,\"writers\":true,\"events\":[],\"rule\":\"dcp\"}"
#define VOTE   "{\"nodes\":12345}"
#define COMMIT \
	"{\"generation\":12345,\"ino\":123456789,\"btime_ns\":1234567890123456789,\"replaces\":" \
	"false,\"unit\":" \
	"\"0123456789abcdef0123456789abcdef\"}"

struct setting {
	unsigned nodes, fanout;
	unsigned crashes, suspicions, pauses; /* so many nodes, at some time */
	unsigned lost;			      /* answers, of 1000 */
	bool every; /* the end needs reports of all that write; else it is asked for at some time */
	bool at_once; /* nobody closes before all have joined, as behind a barrier */
	uint64_t seed;
};

/* One record, made or awaited. */
struct slot {
	char kind[COORD_KIND_MAX], text[TEXT_MAX];
	bool there;
	uint32_t *waiting; /* nodes that are idle until it is there */
	unsigned nr_waiting, room;
};

struct member {
	struct agreement a;
	bool begun, dead, suspected, paused, in_flight, queued;
	bool wrote, closed, pausing;
	/* What was heard of the children's subtrees, and their votes. */
	unsigned told[AGREE_FANOUT], told_sum, reported_sum, votes;
	unsigned said; /* reports */
	unsigned long said_at;
	struct agree_op op;
	bool ours, found;
	char text[TEXT_MAX];
	unsigned made, read, steps; /* records; ops in all */
	unsigned long bytes;
};

enum fate { CRASH, SUSPECT, PAUSE };

static struct world {
	struct setting set;
	struct member *m;
	struct slot *slots;
	unsigned nr_slots, bits;
	uint32_t *queue;
	unsigned nr_queue;
	unsigned nr_joined, nr_wrote;
	unsigned long nr_steps; /* as many as there are nodes are a unit of time */
	bool end, forgotten, anybody_gone;
	int decision; /* the first that counted: -1: abort, else a commit of so many writers */
	bool decided;
	uint64_t rng;
	unsigned left[PAUSE + 1]; /* of what is to go wrong */
} w;

HELPER uint64_t draw(uint64_t below)
{
	w.rng ^= w.rng << 13;
	w.rng ^= w.rng >> 7;
	w.rng ^= w.rng << 17;
	return (w.rng * 0x2545f4914f6cdd1du >> 16) % below;
}

/* --- records --- */

HELPER struct slot *slot_of(const char *kind)
{
	uint64_t h = 1469598103934665603u;
	const char *p;
	unsigned i;

	for (p = kind; *p; p++)
		h = (h ^ (unsigned char)*p) * 1099511628211u;
	for (i = (unsigned)(h >> 20);; i++) {
		struct slot *s = &w.slots[i & ((1u << w.bits) - 1)];

		if (!*s->kind) {
			snprintf(s->kind, sizeof(s->kind), "%s", kind);
			assert_true(++w.nr_slots < (1u << w.bits) / 4 * 3);
		}
		if (!strcmp(s->kind, kind))
			return s;
	}
}

HELPER void enqueue(uint32_t i)
{
	struct member *m = &w.m[i];

	if (m->queued || m->dead || m->paused)
		return;
	m->queued = true;
	w.queue[w.nr_queue++] = i;
}

HELPER void wake_all(void)
{
	uint32_t i;

	for (i = 0; i < w.set.nodes; i++)
		enqueue(i);
}

HELPER void await(struct slot *s, uint32_t i)
{
	unsigned k;

	for (k = 0; k < s->nr_waiting && s->nr_waiting < 64; k++)
		if (s->waiting[k] == i)
			return;
	if (s->nr_waiting == s->room) {
		s->room = s->room ? 2 * s->room : 2;
		s->waiting = realloc(s->waiting, s->room * sizeof(*s->waiting));
		assert_non_null(s->waiting);
	}
	s->waiting[s->nr_waiting++] = i;
}

HELPER void make(struct slot *s, const char *text)
{
	snprintf(s->text, sizeof(s->text), "%s", text);
	s->there = true;
	while (s->nr_waiting)
		enqueue(s->waiting[--s->nr_waiting]);
}

/*
 * `open` goes first and the decision last: who was held up may find what is between; or it is all
 * at once.
 */
HELPER void forget_some(void)
{
	bool all = w.set.seed % 2 || draw(2);
	unsigned i;

	for (i = 0; i < 1u << w.bits; i++)
		if (strcmp(w.slots[i].kind, "decision") ? all || draw(2)
							: all && (w.set.seed % 2 || draw(2)))
			w.slots[i].there = false;
	slot_of("open")->there = false;
	w.forgotten = true;
}

/* --- a node --- */

HELPER void check_belief(struct member *m)
{
	if (!agreement_is_over(&m->a))
		return;
	if (m->a.state == AGREE_LATE) {
		assert_false(m->wrote && w.decision > 0 && !w.forgotten);
		return;
	}
	assert_true(w.decided);
	assert_int_equal(m->a.state == AGREE_COMMIT, w.decision >= 0);
	if (m->a.state == AGREE_ABORT)
		return;
	assert_true(w.end);
	assert_int_equal(w.decision, w.nr_wrote);
}

HELPER void take_news(struct member *m, const struct agree_news *news)
{
	unsigned sum;

	if (!news->any)
		return;
	sum = (unsigned)strtoul(news->payload, NULL, 10);
	if (news->entry == AGREE_VOTE) {
		m->votes += sum;
	} else if (news->entry == AGREE_REPORT) {
		m->told_sum += sum - m->told[news->child];
		m->told[news->child] = sum;
	}
}

HELPER void count(struct member *m, bool made, const char *text)
{
	m->made += made;
	m->read += !made;
	m->bytes += strlen(text);
}

HELPER void note_decision(const struct slot *s)
{
	struct agree_decision d;

	if (w.decided || strcmp(s->kind, "decision") || !slot_of("open")->there)
		return;
	assert_true(agreement_read_decision(s->text, &d));
	w.decided = true;
	w.decision = d.commit ? atoi(d.payload) : -1;
}

HELPER void do_op(struct member *m, const struct agree_op *op)
{
	char text[TEXT_MAX];
	struct slot *s = slot_of(op->kind);
	bool ours = false;

	snprintf(text, sizeof(text), "%s", op->head);
	if (op->payload == AGREE_OF_REPORT) {
		m->reported_sum = m->told_sum + (m->wrote && m->closed);
		m->said++;
		m->said_at = w.nr_steps;
		snprintf(text, sizeof(text), "%s %u " REPORT, op->head, m->reported_sum);
	} else if (op->payload == AGREE_OF_VOTE) {
		snprintf(text, sizeof(text), "%s %u " VOTE, op->head,
			 m->a.slot ? m->votes : m->wrote);
	} else if (op->payload == AGREE_OF_COMMIT) {
		snprintf(text, sizeof(text), "%s %u " COMMIT, op->head, m->votes);
	}
	if (op->what == AGREE_RECORD) {
		bool made = !s->there && (!m->a.guarded || slot_of("open")->there);

		if (made)
			make(s, text);
		if (s->there)
			note_decision(s);
		ours = s->there && !strcmp(s->text, text);
		count(m, made, s->text);
	} else if (s->there) {
		count(m, false, s->text);
	}
	m->steps++;
	if (op->what == AGREE_RECORD && draw(1000) < w.set.lost)
		return;
	m->op = *op;
	m->ours = ours;
	m->found = s->there;
	memcpy(m->text, s->text, sizeof(m->text));
	m->in_flight = true;
}

HELPER void answer(struct member *m)
{
	bool joining = m->a.state == AGREE_JOINING;
	struct agree_news news;

	agreement_answer(&m->a, &m->op, m->ours, m->found ? m->text : NULL, &news);
	m->in_flight = false;
	take_news(m, &news);
	check_belief(m);
	if (joining && m->a.state == AGREE_OPEN) {
		w.nr_joined++;
		if (w.nr_joined == w.set.nodes && w.set.at_once)
			wake_all();
	}
}

HELPER bool look(struct member *m)
{
	char kinds[AGREE_AWAITS][COORD_KIND_MAX];
	unsigned nr = agreement_awaits(&m->a, kinds), i;
	uint32_t self = (uint32_t)(m - w.m);

	for (i = 0; i < nr; i++) {
		struct slot *s = slot_of(kinds[i]);
		struct agree_news news;

		if (!s->there)
			continue;
		count(m, false, s->text);
		m->steps++;
		agreement_saw(&m->a, kinds[i], s->text, &news);
		take_news(m, &news);
		check_belief(m);
		return true;
	}
	for (i = 0; i < nr; i++)
		await(slot_of(kinds[i]), self);
	return false;
}

/* As the driver does: a part is told of when it is whole as far as is known, not for each file. */
HELPER bool is_whole(const struct member *m)
{
	unsigned i;

	for (i = 0; i < m->a.nr_children; i++)
		if (!m->told[i])
			return false;
	return m->closed;
}

HELPER bool see_dead(struct member *m)
{
	const char *watched[AGREE_FANOUT + 1];
	unsigned nr = w.anybody_gone ? agreement_watches(&m->a, watched) : 0, i;

	for (i = 0; i < nr; i++) {
		const struct member *other = &w.m[strtoul(watched[i], NULL, 16)];
		bool aborts = m->a.abort;

		if (!other->dead && !other->suspected)
			continue;
		agreement_dead(&m->a, watched[i]);
		return m->a.abort != aborts || !m->a.abort;
	}
	return false;
}

HELPER void asked(struct member *m)
{
	agreement_end(&m->a, false);
	w.end = true;
}

/* What the driver does by itself. False: nothing. */
HELPER bool go_on(struct member *m)
{
	struct agreement *a = &m->a;
	bool root = agreement_is_root(a);

	if (agreement_is_over(a))
		return false;
	if (!m->wrote && !a->heir && (a->state == AGREE_OPEN || a->state == AGREE_PREPARED)) {
		m->wrote = true;
		w.nr_wrote++;
		return true;
	}
	if (m->wrote && !m->closed &&
	    (!w.set.at_once || w.nr_joined == w.set.nodes || a->state == AGREE_PREPARED)) {
		m->closed = true;
		return true;
	}
	if (!root && is_whole(m) && m->reported_sum != m->told_sum + 1 &&
	    a->reports == a->reported && a->state <= AGREE_PREPARED && a->state != AGREE_JOINING) {
		m->pausing = w.nr_steps - m->said_at < agreement_pause(m->said) * w.set.nodes;
		if (!m->pausing) {
			agreement_report(a);
			return true;
		}
	}
	if (root && a->state == AGREE_OPEN && m->closed &&
	    (w.set.every ? m->told_sum + 1 == w.set.nodes : !draw(w.set.nodes))) {
		asked(m);
		return true;
	}
	if (agreement_may_vote(a) && (!m->wrote || m->closed)) {
		m->votes += m->wrote && !a->heir;
		agreement_vote(a);
		return true;
	}
	if (agreement_may_vote_early(a) && (!m->wrote || m->closed)) {
		agreement_vote_early(a);
		return true;
	}
	if (agreement_may_stand_in(a)) {
		agreement_stand_in(a);
		m->votes = 0;
		return true;
	}
	return see_dead(m);
}

HELPER void step(uint32_t i)
{
	struct member *m = &w.m[i];
	struct agree_op op;
	char id[COORD_NODE_MAX];

	if (m->dead || m->paused)
		return;
	w.nr_steps++;
	if (!m->begun) {
		m->begun = true;
		snprintf(id, sizeof(id), "%032x", i);
		agreement_begin(&m->a, id, "00000000000000000000000000000000", w.set.fanout);
		m->a.guarded = w.set.seed % 2; /* some are, some are not */
		w.nr_joined += !i;
	} else if (m->in_flight) {
		answer(m);
	} else {
		agreement_next(&m->a, &op);
		if (op.what != AGREE_IDLE)
			do_op(m, &op);
		else if (m->pausing = false, !go_on(m) && !look(m) && !m->pausing)
			return;
	}
	enqueue(i);
}

/* --- what goes wrong --- */

HELPER void befall(enum fate fate)
{
	struct member *m = &w.m[draw(w.set.nodes)];

	if (m->dead || m->paused || (fate == PAUSE && m == w.m))
		return;
	w.left[fate]--;
	if (fate == CRASH)
		m->dead = true;
	else if (fate == SUSPECT)
		m->suspected = true;
	else
		m->paused = true;
	if (fate == PAUSE)
		return;
	w.anybody_gone = true;
	wake_all();
}

HELPER void run(void)
{
	while (w.nr_queue) {
		unsigned k = (unsigned)draw(w.nr_queue);
		uint32_t i = w.queue[k];
		enum fate fate;

		w.queue[k] = w.queue[--w.nr_queue];
		w.m[i].queued = false;
		/* Some forty steps a node are taken: spread over those. */
		for (fate = CRASH; fate <= PAUSE; fate++)
			if (w.left[fate] && !draw(40ul * w.set.nodes / w.left[fate]))
				befall(fate);
		step(i);
	}
}

/* Time has passed, and something is awaited: 0: nothing is. */
HELPER unsigned wait_longer(void)
{
	unsigned nr = 0;
	uint32_t i;

	for (i = 0; i < w.set.nodes; i++) {
		struct member *m = &w.m[i];

		if (m->dead || m->paused || !m->begun || agreement_is_over(&m->a))
			continue;
		nr++;
		/*
		 * A node that nobody knows yet, or that is held up, is missed by the time that
		 * passes.
		 */
		if (!w.set.every && agreement_is_root(&m->a) && m->a.state == AGREE_OPEN &&
		    !m->a.abort)
			asked(m);
		else if (agreement_is_root(&m->a) && !w.forgotten)
			agreement_abort(&m->a);
		else
			agreement_doubt(&m->a);
		enqueue(i);
	}
	return nr;
}

HELPER void settle(void)
{
	unsigned rounds = 0;

	run();
	while (wait_longer()) {
		assert_true(rounds++ < 64); /* no wait is endless */
		run();
	}
}

HELPER void begin(struct setting s)
{
	uint32_t i;

	memset(&w, 0, sizeof(w));
	w.set = s;
	w.left[CRASH] = s.crashes;
	w.left[SUSPECT] = s.suspicions;
	w.left[PAUSE] = s.pauses;
	w.rng = s.seed * 0x9e3779b97f4a7c15u | 1;
	for (w.bits = 8; 1u << w.bits < 24 * s.nodes;)
		w.bits++;
	w.m = calloc(s.nodes, sizeof(*w.m));
	w.slots = calloc(1u << w.bits, sizeof(*w.slots));
	w.queue = calloc(s.nodes, sizeof(*w.queue));
	assert_true(w.m && w.slots && w.queue);
	make(slot_of("open"), "x");
	for (i = 0; i < s.nodes; i++)
		enqueue(i);
}

HELPER void finish(void)
{
	unsigned i;

	for (i = 0; i < 1u << w.bits; i++)
		free(w.slots[i].waiting);
	free(w.slots);
	free(w.queue);
	free(w.m);
}

HELPER uint64_t seed_of(uint64_t nr)
{
	const char *given = getenv("CKPTFS_TEST_SEED");

	return given ? strtoull(given, NULL, 0) : nr;
}

#endif
