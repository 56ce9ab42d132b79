/* SPDX-License-Identifier: MIT */
/* timeout: 240 */
/* long: 240 */
/* cpu: 25 */
/*
 * Agreement over nodes, explored: small clusters, every interleaving of what nodes do, of what becomes of their answers,
 * of crashes, of nodes that are taken for dead and go on, and of those who clear up. In each state that can be reached:
 *
 * - no two nodes believe different decisions;
 * - who believes a commit finds in it all that any node of the generation has written, also one that is gone;
 * - a commit is only believed if the end was seen;
 * - where nothing can happen any more each node that lives knows the outcome. No wait is endless.
 *
 * How deep: to the end, that is until nothing can happen any more, with as many calamities as each test below says. Of
 * those that take longest make check-long explores one more. With
 * CKPTFS_TEST_DEEP=1, 2 (the other half) or all more of them: for minutes, in 256 MiB each (tests/cluster/agreement.sh).
 * Some have no end within minutes, and are not in it: three nodes one of which dies while another is taken for dead, with
 * records cleared up meanwhile; three, of which not all are needed, one of which leaves or fails; one that is taken for dead
 * with a failure. Those agreement_many.c samples.
 */
#include "tests/unit/unit.h"

#include <stdlib.h>

#include "engine/coord/agreement.h"

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
};

static struct setting {
	unsigned nodes, fanout;
	unsigned crashes, suspicions, losses, failures, leaves;
	bool every; /* the end needs reports of all; else it is asked for, at any time */
	bool clear; /* somebody clears up */
	bool guarded;
} set;

/* --- records --- */

static struct record_made *find_record(struct world *w, const char *kind)
{
	unsigned i;

	for (i = 0; i < w->nr; i++)
		if (!strcmp(w->records[i].kind, kind))
			return &w->records[i];
	return NULL;
}

static struct record_made *make_record(struct world *w, const char *kind, const char *text)
{
	struct record_made *r = &w->records[w->nr++];

	assert_true(w->nr <= RECORDS_MAX);
	memset(r, 0, sizeof(*r));
	snprintf(r->kind, sizeof(r->kind), "%s", kind);
	snprintf(r->text, sizeof(r->text), "%s", text);
	return r;
}

static void remove_records(struct world *w, const char *kind, bool begins)
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

static unsigned bit(unsigned i)
{
	return 1u << i;
}

static unsigned own(const struct world *w, unsigned i)
{
	return w->m[i].wrote ? bit(i) : 0;
}

static void take_news(struct member *m, const struct agree_news *news)
{
	unsigned mask;

	if (!news->any)
		return;
	mask = (unsigned)strtoul(news->payload, NULL, 16);
	if (news->entry == AGREE_REPORT && mask & ~m->reports) {
		m->reports |= (unsigned char)mask;
		agreement_report(&m->a);
	}
	if (news->entry == AGREE_VOTE)
		m->votes |= (unsigned char)mask;
}

static void tell(const struct world *w)
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

static void check_belief(struct world *w, unsigned i)
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

static void note_decision(struct world *w, const struct record_made *r)
{
	const char *payload;
	bool commit;

	if (strcmp(r->kind, "decision") || !find_record(w, "open") || w->decision)
		return;
	payload = agreement_decision(r->text, &commit);
	assert_non_null(payload);
	w->decision = commit ? 0x80 | (unsigned char)strtoul(payload, NULL, 16) : 0x40;
}

/* Is none of the two there; or both, by this node? */
static bool together(struct world *w, const struct agree_op *op)
{
	const struct record_made *r = find_record(w, op->kind), *also = find_record(w, op->also);

	if (!r || strcmp(r->text, op->head) != 0)
		return r || !also;
	return also && !strncmp(also->text, op->also_head, strlen(op->also_head));
}

static void do_op(struct world *w, unsigned i, bool lost)
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

static void answer(struct world *w, unsigned i)
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

/* Performs the @n-th thing that can happen; false: there are fewer. *@calamity: it need not. */
static bool happen(struct world *w, unsigned n, bool *calamity)
{
	unsigned i, j, k, nr;

	*calamity = false;
#define POSSIBLE(condition) ((condition) && !n--)
	for (i = 0; i < set.nodes; i++) {
		struct member *m = &w->m[i];
		char kinds[AGREE_AWAITS][COORD_KIND_MAX];
		const char *watched[AGREE_FANOUT + 1];
		struct agree_op op;

		if (m->dead)
			continue;
		if (!m->begun) {
			/* It may come at any time, or not at all, where not all are needed. */
			if (POSSIBLE(i)) {
				m->begun = true;
				agreement_begin(&m->a, ids[i], ids[0], set.fanout);
				m->a.guarded = set.guarded;
				*calamity = !set.every;
				return true;
			}
			continue;
		}
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
		nr = m->in_flight ? 0 : agreement_awaits(&m->a, kinds);
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
		if (POSSIBLE(!m->wrote && !m->leaves && !m->a.ready &&
			     (m->a.state == AGREE_OPEN || m->a.state == AGREE_PREPARED))) {
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
			agreement_end(&m->a);
			w->end = 1;
			return true;
		}
		if (POSSIBLE(agreement_may_vote(&m->a) && (!m->wrote || m->closed))) {
			m->votes |= (unsigned char)own(w, i);
			agreement_vote(&m->a);
			return true;
		}
		if (POSSIBLE(agreement_may_close(&m->a) && (!m->wrote || m->closed))) {
			m->votes |= (unsigned char)own(w, i);
			agreement_vote(&m->a);
			return true;
		}
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
		if (POSSIBLE(m->leaves && m->a.state == AGREE_VOTED && !m->a.vote)) {
			m->dead = true;
			*calamity = true;
			return true;
		}
		/* Who has died before it joined is missed only by the time that passes. */
		if (POSSIBLE(!i && m->a.state == AGREE_OPEN && !m->a.abort && w->crashes)) {
			agreement_abort(&m->a);
			return true;
		}
		if (POSSIBLE(w->failures < set.failures && !agreement_is_over(&m->a))) {
			w->failures++;
			agreement_abort(&m->a);
			*calamity = true;
			return true;
		}
		if (POSSIBLE(!find_record(w, "open") && !m->a.doubt && !agreement_is_over(&m->a) &&
			     m->a.state != AGREE_JOINING)) {
			agreement_doubt(&m->a);
			return true;
		}
		nr = agreement_watches(&m->a, watched);
		for (k = 0; k < nr; k++) {
			j = (unsigned)(watched[k][0] - 'a');
			if (POSSIBLE(w->m[j].dead || w->m[j].suspected)) {
				agreement_dead(&m->a, watched[k]);
				*calamity = !w->m[j].dead;
				return true;
			}
		}
		if (POSSIBLE(w->crashes < set.crashes)) {
			w->crashes++;
			m->dead = true;
			*calamity = true;
			return true;
		}
		if (POSSIBLE(w->suspicions < set.suspicions && !m->suspected)) {
			w->suspicions++;
			m->suspected = true;
			*calamity = true;
			return true;
		}
	}
	/* Somebody clears up, once all know who are not taken for dead. */
	for (i = 0, k = set.clear; i < set.nodes; i++)
		if (w->m[i].begun && !w->m[i].dead && !w->m[i].suspected &&
		    !agreement_is_over(&w->m[i].a))
			k = 0;
	if (POSSIBLE(k && w->forgetting < 4 && (w->forgetting || find_record(w, "decision")))) {
		static const char *const steps[] = {"open", "log.", "prepare", "decision"};

		do {
			remove_records(w, steps[w->forgetting], w->forgetting == 1);
			w->forgetting++;
		} while (set.guarded && w->forgetting < 4);
		*calamity = true;
		return true;
	}
	return false;
}

/* --- exploration --- */

static uint64_t (*table)[2];
static unsigned table_bits = 22;
static uint64_t nr_states;

/* Most of it is zero. */
static void mix(uint64_t h[2], const void *data, size_t len)
{
	const unsigned char *p = data;
	uint64_t word;
	size_t i;

	for (i = 0; i < len; i += 8) {
		word = 0;
		memcpy(&word, p + i, len - i < 8 ? len - i : 8);
		if (!word)
			continue;
		h[0] = (h[0] ^ word) * 0x9e3779b97f4a7c15u;
		h[0] ^= h[0] >> 29 ^ i;
		h[1] = (h[1] + word + i) * 0xd6e8feb86659fd93u;
		h[1] ^= h[1] >> 32;
	}
}

/* Was it seen before? Records are a set. */
static bool seen(const struct world *w)
{
	uint64_t h[2] = {1, 2}, sum[2] = {0, 0}, at;
	unsigned i;

	mix(h, w->m, set.nodes * sizeof(*w->m));
	for (i = 0; i < w->nr; i++) {
		uint64_t r[2] = {3, 4};

		mix(r, &w->records[i], sizeof(w->records[i]));
		sum[0] += r[0];
		sum[1] += r[1];
	}
	mix(h, sum, sizeof(sum));
	mix(h, &w->end, sizeof(*w) - offsetof(struct world, end));
	h[0] |= 1;
	for (at = h[1];; at++) {
		uint64_t *e = table[at & ((1ul << table_bits) - 1)];

		if (!e[0]) {
			memcpy(e, h, sizeof(h));
			nr_states++;
			assert_true(nr_states < (1ul << table_bits) / 8 * 7);
			return false;
		}
		if (e[0] == h[0] && e[1] == h[1])
			return true;
	}
}

static void check_rest(const struct world *w)
{
	unsigned i;

	for (i = 0; i < set.nodes; i++) {
		const struct member *m = &w->m[i];

		if (!m->begun || m->dead || agreement_is_over(&m->a))
			continue;
		tell(w);
		fail_msg("%s waits for ever", ids[i]);
	}
}

static void explore(struct setting s)
{
	size_t nr = 1, room = 1024;
	struct world *stack = calloc(room, sizeof(*stack)), next;

	set = s;
	nr_states = 0;
	memset(table, 0, sizeof(*table) << table_bits);
	make_record(stack, "open", "a");
	agreement_begin(&stack->m[0].a, ids[0], ids[0], set.fanout);
	stack->m[0].a.guarded = set.guarded;
	stack->m[0].begun = true;
	while (nr) {
		struct world w = stack[--nr];
		bool calamity, goes_on = false;
		unsigned n;

		for (n = 0; memcpy(&next, &w, sizeof(w)), happen(&next, n, &calamity); n++) {
			goes_on = goes_on || (!calamity && memcmp(&next, &w, sizeof(w)));
			if (seen(&next))
				continue;
			if (nr == room) {
				room *= 2;
				stack = realloc(stack, room * sizeof(*stack));
				assert_non_null(stack);
			}
			stack[nr++] = next;
		}
		if (!goes_on)
			check_rest(&w);
	}
	free(stack);
	print_message("%u nodes, fan-out %u, %u crashes, %u taken for dead, %u lost answers, %u "
		      "failures, %u leave, %s%s%s: %lu states\n",
		      s.nodes, s.fanout, s.crashes, s.suspicions, s.losses, s.failures, s.leaves,
		      s.every ? "all are needed" : "asked for", s.clear ? ", cleared up" : "",
		      s.guarded ? ", guarded" : "", nr_states);
}

#define EXPLORE(...) explore((struct setting){__VA_ARGS__})

static void all_goes_well(void **state)
{
	(void)state;
	EXPLORE(.nodes = 3, .fanout = 1, .every = true);
	EXPLORE(.nodes = 3, .fanout = 2, .every = true);
	if (is_long())
		EXPLORE(.nodes = 3, .fanout = 1);
	EXPLORE(.nodes = 3, .fanout = 2, .every = true, .guarded = true);
}

static void two_nodes_and_all_calamities(void **state)
{
	(void)state;
	EXPLORE(.nodes = 2, .fanout = 2, .suspicions = 1, .failures = 1, .clear = true);
	EXPLORE(.nodes = 2, .fanout = 2, .crashes = 1, .losses = 1, .clear = true);
	EXPLORE(.nodes = 2, .fanout = 2, .suspicions = 1, .failures = 1, .clear = true,
		.guarded = true);
	EXPLORE(.nodes = 2, .fanout = 2, .crashes = 1, .losses = 1, .clear = true, .guarded = true);
}

static void a_node_dies(void **state)
{
	(void)state;
	EXPLORE(.nodes = 3, .fanout = 2, .every = true, .crashes = 1);
}

static void a_node_leaves(void **state)
{
	(void)state;
	EXPLORE(.nodes = 2, .fanout = 2, .leaves = 1, .suspicions = 1, .clear = true);
	EXPLORE(.nodes = 3, .fanout = 2, .every = true, .leaves = 2);
}

static void answers_are_lost(void **state)
{
	(void)state;
	EXPLORE(.nodes = 3, .fanout = 1, .every = true, .losses = 1);
}

/* Of the long ones each half takes as long as the other. */
static bool is_half(const char *half)
{
	const char *deep = getenv("CKPTFS_TEST_DEEP");

	return deep && (!strcmp(deep, half) || !strcmp(deep, "all"));
}

static void more_of_it(void **state)
{
	(void)state;
	if (!is_half("1"))
		skip();
	EXPLORE(.nodes = 3, .fanout = 1, .every = true, .suspicions = 1);
	EXPLORE(.nodes = 3, .fanout = 2, .every = true, .suspicions = 1);
	EXPLORE(.nodes = 2, .fanout = 2, .crashes = 1, .suspicions = 1, .losses = 1, .failures = 1,
		.clear = true);
	EXPLORE(.nodes = 3, .fanout = 1, .every = true, .crashes = 1, .losses = 1);
	EXPLORE(.nodes = 2, .fanout = 2, .crashes = 1, .suspicions = 1, .losses = 1, .failures = 1,
		.clear = true, .guarded = true);
}

static void yet_more_of_it(void **state)
{
	(void)state;
	if (!is_half("2"))
		skip();
	EXPLORE(.nodes = 3, .fanout = 2, .every = true, .crashes = 2);
	EXPLORE(.nodes = 3, .fanout = 1, .every = true, .crashes = 2);
	EXPLORE(.nodes = 4, .fanout = 2, .every = true);
	EXPLORE(.nodes = 2, .fanout = 2, .leaves = 1, .crashes = 1, .suspicions = 1, .clear = true);
	EXPLORE(.nodes = 2, .fanout = 2, .leaves = 1, .crashes = 1, .suspicions = 1, .clear = true,
		.guarded = true);
	EXPLORE(.nodes = 3, .fanout = 2, .every = true, .leaves = 1, .crashes = 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_goes_well),    cmocka_unit_test(two_nodes_and_all_calamities),
		cmocka_unit_test(a_node_dies),	    cmocka_unit_test(a_node_leaves),
		cmocka_unit_test(answers_are_lost), cmocka_unit_test(more_of_it),
		cmocka_unit_test(yet_more_of_it),
	};
	int failed;

	if (getenv("CKPTFS_TEST_DEEP"))
		table_bits = 24;
	table = calloc(1ul << table_bits, sizeof(*table));
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	free(table);
	return failed;
}
