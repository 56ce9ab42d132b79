/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/* long: 120 */
/*
 * Many nodes agree, whatever goes wrong. The seed of each run is printed. Those of 10^4 nodes are
 * for make check-long.
 */
#include "tests/unit/agreement_crowd.h"

static void simulate(struct setting s)
{
	uint32_t i;

	begin(s);
	settle();
	/*
	 * Those who are not held up know; somebody clears up, the others wake and find nothing, or
	 * what is new.
	 */
	for (i = 0; i < s.nodes; i++)
		assert_true(w.m[i].dead || w.m[i].paused || agreement_is_over(&w.m[i].a));
	if (s.pauses) {
		forget_some();
		memset(w.left, 0, sizeof(w.left));
		for (i = 0; i < s.nodes; i++) {
			w.m[i].paused = false;
			enqueue(i);
		}
		settle();
	}
	finish();
}

static uint64_t seed; /* of the last run */

static int tell_seed(void **state)
{
	(void)state;
	print_message("the last seed was %lu (CKPTFS_TEST_SEED=%lu)\n", (unsigned long)seed,
		      (unsigned long)seed);
	return 0;
}

static void many(unsigned rounds, struct setting s)
{
	unsigned committed = 0, i;

	for (i = 0; i < rounds; i++) {
		s.seed = seed = seed_of(i + 1);
		simulate(s);
		committed += w.decided && w.decision >= 0;
		if (!s.crashes && !s.suspicions && !s.pauses)
			assert_true(w.decision >= 0);
	}
	print_message("%u nodes, fan-out %u: %u of %u committed\n", s.nodes, s.fanout, committed,
		      rounds);
}

#define MANY(rounds, ...) many(rounds, (struct setting){__VA_ARGS__})

static void all_goes_well(void **state)
{
	(void)state;
	MANY(20, .nodes = 16, .fanout = 2, .every = true, .lost = 20);
	MANY(20, .nodes = 100, .fanout = 3, .lost = 20);
	MANY(3, .nodes = 1024, .fanout = 16, .every = true, .lost = 5);
	if (is_long())
		MANY(1, .nodes = 10000, .fanout = 16, .every = true, .lost = 1);
}

static void calamities(void **state)
{
	(void)state;
	MANY(300, .nodes = 8, .fanout = 2, .every = true, .lost = 20, .crashes = 1, .suspicions = 1,
	     .pauses = 1);
	MANY(300, .nodes = 12, .fanout = 3, .lost = 20, .crashes = 1, .suspicions = 1, .pauses = 1);
	MANY(300, .nodes = 20, .fanout = 3, .lost = 20, .pauses = 2);
	MANY(300, .nodes = 20, .fanout = 3, .every = true, .lost = 20, .suspicions = 1);
	MANY(300, .nodes = 20, .fanout = 2, .lost = 20, .suspicions = 2);
	MANY(300, .nodes = 20, .fanout = 2, .lost = 20, .crashes = 1);
	MANY(50, .nodes = 100, .fanout = 4, .every = true, .lost = 5, .crashes = 1, .suspicions = 1,
	     .pauses = 2);
	MANY(50, .nodes = 100, .fanout = 16, .lost = 5, .suspicions = 1, .pauses = 2);
	MANY(3, .nodes = 1024, .fanout = 16, .every = true, .lost = 1, .crashes = 1, .pauses = 1);
	if (is_long())
		MANY(1, .nodes = 10000, .fanout = 16, .lost = 1, .crashes = 1, .suspicions = 1,
		     .pauses = 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(all_goes_well, tell_seed),
		cmocka_unit_test_teardown(calamities, tell_seed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
