/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/* long: 120 */
/*
 * The records that the busiest node makes and reads for one commit are few, however many nodes
 * there are. Those of 10^4 are for make check-long.
 *
 * NODES FANOUT [barrier]: prints how many they are, for tests/bench.
 */
#include "tests/unit/agreement_crowd.h"

struct load {
	unsigned depth, made, records; /* of the busiest node of each; records: made and read */
	double records_mean;
	unsigned long bytes;
};

static struct load measure(unsigned nodes, unsigned fanout, bool at_once)
{
	struct load l = {0};
	uint32_t i;

	begin((struct setting){.nodes = nodes,
			       .fanout = fanout,
			       .every = true,
			       .at_once = at_once,
			       .seed = seed_of(1)});
	settle();
	assert_true(w.decision == (int)nodes);
	for (i = 0; i < nodes; i++) {
		const struct member *m = &w.m[i];

		l.depth = m->a.depth > l.depth ? m->a.depth : l.depth;
		l.made = m->made > l.made ? m->made : l.made;
		l.records = m->made + m->read > l.records ? m->made + m->read : l.records;
		l.bytes = m->bytes > l.bytes ? m->bytes : l.bytes;
		l.records_mean += (double)(m->made + m->read) / nodes;
	}
	finish();
	return l;
}

static void tell(unsigned nodes, unsigned fanout, bool at_once)
{
	struct load l = measure(nodes, fanout, at_once);

	printf("%u %u %s %u %u %u %.1f %lu\n", nodes, fanout, at_once ? "barrier" : "any", l.depth,
	       l.made, l.records, l.records_mean, l.bytes);
}

/* For no node is it more than the fan-out and the tree's depth make it. */
static void is_little(void **state)
{
	static const unsigned nodes[] = {16, 1024, 10000}, fanouts[] = {2, 4, 16};
	unsigned i, k;

	(void)state;
	for (i = 0; i < 6; i++) {
		for (k = 0; k < 3; k++) {
			unsigned n = nodes[i / 2], f = fanouts[k], log2 = 0;
			struct load l;

			if (n == 10000 && !(f == 16 && is_long()) && !getenv("CKPTFS_TEST_DEEP"))
				continue;
			l = measure(n, f, i % 2);
			while (1u << log2 < n)
				log2++;
			print_message("%u nodes, fan-out %u%s: at most %u records\n", n, f,
				      i % 2 ? ", all at once" : "", l.records);
			assert_true(l.records <= 8 * (f + log2));
		}
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_little),
	};

	if (argc > 2) {
		tell((unsigned)atoi(argv[1]), (unsigned)atoi(argv[2]), argc > 3);
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
