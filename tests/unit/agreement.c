/* SPDX-License-Identifier: MIT */
/* timeout: 240 */
/* long: 240 */
/* cpu: 30 */
/*
 * Agreement over nodes, explored: small clusters, every interleaving of what nodes do, of what
 * becomes of their answers, of crashes, of nodes that are taken for dead and go on, and of those
 * who clear up. In each state that can be reached:
 *
 * - no two nodes believe different decisions;
 * - who believes a commit finds in it all that any node of the generation has written, also one
 *   that is gone;
 * - a commit is only believed if the end was seen;
 * - where nothing can happen any more each node that lives knows the outcome. No wait is endless;
 * - where the root has voted, and so have all others, it is not aborted, whoever is lost or taken
 *   for dead from then on.
 *
 * How deep: to the end, that is until nothing can happen any more, with as many calamities as each
 * test below says. Of those that take longest make check-long explores one more. With
 * CKPTFS_TEST_DEEP=1, 2 (the other half) or all more of them: for minutes, in 256 MiB each
 * (tests/cluster/agreement.sh). Some have no end within minutes, and are not in it: three nodes one
 * of which dies while another is taken for dead, with records cleared up meanwhile; three, of which
 * not all are needed, one of which leaves or fails; one that is taken for dead with a failure.
 * Those agreement_many.c samples.
 */
#include "tests/unit/agreement_cluster.h"

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
	nr_states = nr_inherited = 0;
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
		      "failures, %u leave, %s%s%s%s: %lu states, %lu inherited\n",
		      s.nodes, s.fanout, s.crashes, s.suspicions, s.losses, s.failures, s.leaves,
		      s.every ? "all are needed" : "asked for", s.clear ? ", cleared up" : "",
		      s.guarded ? ", guarded" : "", s.late ? ", late" : "", nr_states,
		      nr_inherited);
	if (s.late)
		assert_true(nr_inherited);
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
	if (is_long())
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
	EXPLORE(.nodes = 3, .fanout = 2, .every = true, .leaves = is_long() ? 2 : 1);
}

/* The root has voted, and waits for the others. */
static void nodes_are_lost_after_the_vote_of_the_root(void **state)
{
	(void)state;
	EXPLORE(.nodes = 2, .fanout = 2, .crashes = 1, .late = true);
	EXPLORE(.nodes = 2, .fanout = 2, .suspicions = 1, .losses = 1, .clear = true, .late = true);
	EXPLORE(.nodes = 2, .fanout = 2, .leaves = 1, .clear = true, .guarded = true, .late = true);
	EXPLORE(.nodes = 3, .fanout = 1, .every = true, .crashes = 1, .late = true);
	EXPLORE(.nodes = 3, .fanout = 2, .every = true, .crashes = 1, .guarded = true,
		.late = true);
	if (!is_long())
		return;
	EXPLORE(.nodes = 3, .fanout = 1, .every = true, .crashes = 2, .late = true);
	EXPLORE(.nodes = 3, .fanout = 2, .every = true, .crashes = 2, .late = true);
	EXPLORE(.nodes = 3, .fanout = 2, .every = true, .suspicions = 1, .late = true);
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
		cmocka_unit_test(all_goes_well),
		cmocka_unit_test(two_nodes_and_all_calamities),
		cmocka_unit_test(a_node_dies),
		cmocka_unit_test(a_node_leaves),
		cmocka_unit_test(nodes_are_lost_after_the_vote_of_the_root),
		cmocka_unit_test(answers_are_lost),
		cmocka_unit_test(more_of_it),
		cmocka_unit_test(yet_more_of_it),
	};
	int failed;

	if (getenv("CKPTFS_TEST_DEEP"))
		table_bits = 26; /* a GiB */
	table = calloc(1ul << table_bits, sizeof(*table));
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	free(table);
	return failed;
}
