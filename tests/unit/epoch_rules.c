/* SPDX-License-Identifier: MIT */
/* Which incarnation of its job a process belongs to, rule by rule (engine/epoch/epoch.h, E3 to E8). */
#include "tests/unit/unit.h"

#include "engine/epoch/epoch.h"

static struct epoch an_epoch(const char *job, uint64_t nr, bool local)
{
	struct epoch e = {.nr = nr, .local = local};

	snprintf(e.job, sizeof(e.job), "%s", job);
	return e;
}

static void epochs_of_one_job_have_an_order(void **state)
{
	struct epoch two = an_epoch("7/elastic/x", 2, false),
		     five = an_epoch("7/elastic/x", 5, false);
	struct epoch other = an_epoch("7/elastic/y", 5, false);
	struct epoch local = an_epoch("7/elastic/x", 5, true);

	(void)state;
	assert_int_equal(epoch_order(&five, &five), EPOCH_SAME);
	assert_int_equal(epoch_order(&five, &two), EPOCH_NEWER);
	assert_int_equal(epoch_order(&two, &five), EPOCH_OLDER);
	assert_int_equal(epoch_order(&five, &other), EPOCH_OTHER_JOB);
	assert_int_equal(epoch_order(&five, &local), EPOCH_OTHER_JOB);
}

static void a_key_is_a_job_and_a_count(void **state)
{
	static const struct {
		const char *key, *job, *count;
	} keys[] = {
		{"7/slurm/12.0/r1.3", "7/slurm/12.0", "1.3"},
		{"7/slurm/run/r0", "7/slurm/run", "0"},
		{"7/master/r5/r:29500", "7/master/r5/r:29500", ""},
		{"7/master/host:29500", "7/master/host:29500", ""},
		{"7/session/9@boot", "7/session/9@boot", ""},
	};
	char job[JOB_KEY_MAX], count[EPOCH_COUNT_MAX];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		epoch_split(keys[i].key, job, count);
		assert_string_equal(job, keys[i].job);
		assert_string_equal(count, keys[i].count);
	}
}

/* Link @nr of a chain, made on @host at @at; a failure if @nr is not @first. */
static struct epoch_link a_link(uint64_t nr, uint64_t first, const char *count, const char *host,
				uint64_t at)
{
	struct epoch_link l = {.nr = nr, .first = first, .at = at, .err = nr > first ? EIO : 0};

	snprintf(l.count, sizeof(l.count), "%s", count);
	snprintf(l.host, sizeof(l.host), "%s", host);
	return l;
}

/* Host "here" knows one link, which it saw to be the end at @looked, and one before it at @before. */
struct known {
	uint64_t nr, first;
	const char *count, *host;
	uint64_t at, before, failed, began;
};

static const struct {
	const char *rule;
	struct known known;
	const char *count; /* of the process */
	uint64_t start;
	bool newest_lives;
	enum epoch_place place;
} places[] = {
	{"E4a", {0, 0, "", "", 0, 0, 0, 0}, "3", 50, false, EPOCH_BEGINS},
	{"E4b: a later start", {1, 1, "0", "there", 10, 0, 0, 0}, "1", 50, false, EPOCH_BEGINS},
	{"E4b: numbers, not letters",
	 {1, 1, "9", "there", 10, 0, 0, 0},
	 "10",
	 50,
	 false,
	 EPOCH_BEGINS},
	{"E4b: after a failure", {2, 1, "0", "there", 10, 0, 0, 0}, "1", 50, false, EPOCH_BEGINS},
	{"E4c: one of the newest lives here",
	 {2, 2, "1", "there", 10, 0, 0, 60},
	 "0",
	 70,
	 true,
	 EPOCH_FORMER},
	{"E4c: one of the newest was started here later",
	 {2, 2, "1", "there", 10, 0, 0, 60},
	 "0",
	 50,
	 false,
	 EPOCH_FORMER},
	{"E4c: the newest began here later",
	 {2, 2, "1", "here", 60, 0, 0, 0},
	 "0",
	 50,
	 false,
	 EPOCH_FORMER},
	{"E4c: a run begun anew", {2, 2, "1", "here", 60, 0, 0, 60}, "0", 70, false, EPOCH_BEGINS},
	{"E4c: a run begun anew, on another host (L4)",
	 {2, 2, "1", "there", 60, 0, 0, 0},
	 "0",
	 5,
	 false,
	 EPOCH_BEGINS},
	{"E4d", {2, 2, "1", "there", 60, 0, 0, 0}, "1", 5, false, EPOCH_NEWEST},
	{"E4e: before the failure here",
	 {2, 1, "0", "here", 60, 0, 0, 0},
	 "0",
	 59,
	 false,
	 EPOCH_BEHIND},
	{"E4e: after the failure here",
	 {2, 1, "0", "here", 60, 0, 0, 0},
	 "0",
	 60,
	 false,
	 EPOCH_NEWEST},
	{"E4e: before another failure here",
	 {2, 1, "0", "there", 9, 0, 60, 0},
	 "0",
	 59,
	 false,
	 EPOCH_BEHIND},
	{"E4e: after another failure here",
	 {2, 1, "0", "there", 999, 0, 60, 0},
	 "0",
	 60,
	 false,
	 EPOCH_NEWEST},
	{"E4e: the same without a count",
	 {2, 1, "", "there", 9, 0, 60, 0},
	 "",
	 59,
	 false,
	 EPOCH_BEHIND},
	{"E4f", {2, 1, "", "there", 9, 60, 0, 0}, "", 59, false, EPOCH_BEHIND},
	{"E4g: counted", {2, 1, "0", "there", 9, 60, 0, 0}, "0", 500, false, EPOCH_BEHIND},
	{"E4g: not counted (L1)", {2, 1, "", "there", 9, 60, 0, 0}, "", 60, false, EPOCH_NEWEST},
	{"an unknown start", {2, 1, "", "here", 9, 0, 0, 0}, "", 0, false, EPOCH_BEHIND},
};

static void a_process_has_its_place(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		const struct known *k = &places[i].known;
		struct epoch_facts f = {"here", places[i].count, places[i].start,
					places[i].newest_lives};
		struct chain c = {.before = k->before, .failed = k->failed, .began = k->began};
		enum epoch_place place;

		if (k->nr)
			c.newest = a_link(k->nr, k->first, k->count, k->host, k->at);
		place = chain_place(&c, &f);
		if (place != places[i].place)
			fail_msg("%s: %d, not %d", places[i].rule, (int)place,
				 (int)places[i].place);
	}
}

static void a_former_process_is_older_than_all(void **state)
{
	struct chain c = {.newest = a_link(3, 3, "1", "here", 60)};
	struct epoch_facts f = {"here", "0", 50, true};
	uint64_t nr = chain_bind(&c, &f, EPOCH_FORMER);

	(void)state;
	assert_int_equal(nr, 0);
	assert_int_equal(chain_tell(&c, &nr), -ESTALE);
	assert_int_equal(chain_tell(&c, &nr), -ESTALE); /* it is refused, not told */
	assert_int_equal(nr, 0);
}

static void several_failures_are_told_once(void **state)
{
	struct chain c = {0};
	struct epoch_link l = a_link(1, 1, "0", "there", 5);
	uint64_t nr = 1, other = 1;

	(void)state;
	chain_learn(&c, &l, 20);
	assert_int_equal(chain_tell(&c, &nr), 0);
	assert_true(chain_fails(&c, 1, 30));
	chain_follow(&c, "here", 30, ENOSPC, "step-1: full", &l);
	chain_learn(&c, &l, 0);
	assert_false(chain_fails(&c, 1, 31)); /* the second of that epoch */
	assert_int_equal(chain_tell(&c, &nr), -ENOSPC);
	assert_int_equal(nr, 2);
	assert_int_equal(chain_tell(&c, &nr), 0);
	assert_true(chain_fails(&c, 2, 40));
	chain_follow(&c, "here", 40, EIO, "step-2: died", &l);
	chain_learn(&c, &l, 0);
	assert_int_equal(chain_tell(&c, &other), -EIO);
	assert_int_equal(other, 3);
	assert_int_equal(chain_tell(&c, &other), 0);
	assert_int_equal(chain_tell(&c, &nr), -EIO);
}

/* What is stale, or comes in another order, changes nothing. */
static void a_chain_only_grows(void **state)
{
	struct epoch_link one = a_link(1, 1, "0", "there", 5), two = a_link(2, 1, "0", "there", 30);
	struct chain c = {0}, before;

	(void)state;
	chain_learn(&c, &one, 20);
	chain_learn(&c, &two, 40);
	assert_int_equal(c.before, 20);
	before = c;
	chain_learn(&c, &one, 50);
	assert_memory_equal(&c, &before, sizeof(c));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(epochs_of_one_job_have_an_order),
		cmocka_unit_test(a_key_is_a_job_and_a_count),
		cmocka_unit_test(a_process_has_its_place),
		cmocka_unit_test(a_former_process_is_older_than_all),
		cmocka_unit_test(several_failures_are_told_once),
		cmocka_unit_test(a_chain_only_grows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
