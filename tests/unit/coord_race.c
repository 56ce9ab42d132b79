/* SPDX-License-Identifier: MIT */
/* Of nodes that make a record at once one is first, and all read what that one wrote. */
#include "tests/unit/coord.h"

#include <pthread.h>

enum { RACERS = 8, ROUNDS = 25 };

struct racer {
	pthread_t thread;
	pthread_barrier_t *start;
	char gen[COORD_GEN_MAX], text[16], seen[COORD_TEXT_MAX];
	int answer;
};

static void *race(void *arg)
{
	struct racer *me_too = arg;
	size_t len;

	pthread_barrier_wait(me_too->start);
	do {
		me_too->answer =
			coord_dir_ops.record(&b, &me, me_too->gen, "decision", me_too->text,
					     strlen(me_too->text), me_too->seen, &len);
	} while (me_too->answer == -EBUSY);
	if (me_too->answer >= 0)
		me_too->seen[len] = '\0';
	return NULL;
}

static void race_once(int round)
{
	static struct racer racers[RACERS];
	pthread_barrier_t start;
	int i, won = 0;

	pthread_barrier_init(&start, NULL, RACERS);
	for (i = 0; i < RACERS; i++) {
		racers[i].start = &start;
		snprintf(racers[i].gen, COORD_GEN_MAX, "%032x", round);
		snprintf(racers[i].text, sizeof(racers[i].text), "node %d", i);
		assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
	}
	for (i = 0; i < RACERS; i++)
		pthread_join(racers[i].thread, NULL);
	for (i = 0; i < RACERS; i++) {
		assert_true(racers[i].answer == 0 || racers[i].answer == 1);
		assert_string_equal(racers[i].seen, racers[0].seen);
		if (racers[i].answer)
			assert_string_equal(racers[i].seen, racers[i].text);
		won += racers[i].answer;
	}
	assert_int_equal(won, 1);
	pthread_barrier_destroy(&start);
}

static void of_many_at_once_one_is_first(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < ROUNDS; i++)
		race_once(i);
	assert_int_equal(nr_files(), fuse ? 2 * ROUNDS : ROUNDS); /* nothing else is left */
}

static void so_it_is_without_hard_links(void **state)
{
	int i;

	(void)state;
	faults = faults_attach(&b);
	faults_add(faults, &(struct fault){.calls = CALL_LINK, .err = EPERM});
	for (i = 0; i < ROUNDS; i++)
		race_once(i);
	assert_int_equal(nr_files(), ROUNDS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(of_many_at_once_one_is_first),
		T(so_it_is_without_hard_links),
	};

	const struct CMUnitTest on_fuse[] = {
		T(of_many_at_once_one_is_first),
	};
	int failed;

	umask(0);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	fuse = true;
	return failed + cmocka_run_group_tests(on_fuse, NULL, NULL);
}
