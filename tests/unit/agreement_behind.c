/* SPDX-License-Identifier: MIT */
/*
 * The root may read votes behind a gap of its log. What a node reported before it voted may lie in
 * the gap, such as a death: so the root decides only when it has heard that, too.
 */
#include "tests/unit/unit.h"

#include "engine/coord/agreement.h"

static struct agreement root;
static struct agree_news news;

static void hear(const char *text)
{
	agreement_saw(&root, "log.0.0", text, &news);
}

/* Makes the next record, which nobody else has made. */
static void record(void)
{
	struct agree_op op;

	agreement_next(&root, &op);
	assert_int_equal(op.what, AGREE_RECORD);
	agreement_answer(&root, &op, true, op.head, &news);
}

/* Of two nodes, whose end it has seen, and which have yet to vote. */
static int prepared(void **state)
{
	(void)state;
	agreement_begin(&root, "a", "a", 2);
	hear("join 1 b");
	hear("join 2 c");
	agreement_end(&root, false);
	record();
	record();
	assert_true(root.prepared && root.closed);
	return 0;
}

static void a_vote_behind_a_report_waits_for_it(void **state)
{
	(void)state;
	hear("vote 1 b");
	agreement_saw_behind(&root, "vote 2 c", &news);
	assert_true(news.any);
	assert_true(root.children[1].voted);
	assert_false(agreement_has_all_of(&root, 1));
	assert_false(agreement_may_vote(&root));
	hear("report 2 c");
	assert_false(agreement_may_vote(&root));
	hear("vote 2 c");
	assert_true(agreement_has_all_of(&root, 1));
	assert_true(agreement_may_vote(&root));
}

static void who_has_voted_behind_a_gap_is_not_watched(void **state)
{
	const char *nodes[AGREE_FANOUT + 1];

	(void)state;
	agreement_saw_behind(&root, "vote 2 c", &news);
	assert_int_equal(agreement_watches(&root, nodes), 1);
	assert_string_equal(nodes[0], "b");
	agreement_saw_behind(&root, "vote 2 c", &news);
	assert_false(news.any);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_vote_behind_a_report_waits_for_it, prepared),
		cmocka_unit_test_setup(who_has_voted_behind_a_gap_is_not_watched, prepared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
