/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/*
 * A backing that is slow, writes in another order or takes little: all is saved, and writers wait
 * their turn.
 */
#include "tests/unit/flush_faults.h"

/* W13: the oldest write is the last to land. */
static void writes_land_in_any_order(void **state)
{
	struct saver s = {0};

	(void)state;
	begin(PATIENT);
	faults_freeze_first(f, CALL_WRITE, 2);
	start(&s, "x.pt", NEW, 4 * SMALL_CHUNKS * CHUNK, true);
	faults_wait_count(f, CALL_WRITE, 3 * SMALL_CHUNKS);
	assert_int_equal(faults_frozen(f), 2);
	assert_on_backing(OLD);
	faults_thaw(f);
	assert_int_equal(join(&s), 0);
	assert_on_backing(NEW);
	end();
}

/*
 * W13, W15: many times the cache, over a wire that is slower than they are, two writes at a time.
 */
static void a_slow_backing_slows_writers(void **state)
{
	struct saver s[4] = {{0}};
	char names[4][16];
	int i;

	(void)state;
	begin(PATIENT ",flush_depth=2");
	faults_slow(f, CALL_WRITE, 200000, 10);
	for (i = 0; i < 4; i++) {
		snprintf(names[i], sizeof(names[i]), "%d.pt", i);
		start(&s[i], names[i], NEW, 2 * SMALL_CHUNKS * CHUNK + 11, i % 2);
	}
	for (i = 0; i < 4; i++) {
		assert_int_equal(join(&s[i]), 0);
		assert_int_equal(name_wait(&m, names[i]), 0);
		assert_int_equal(version_at(m.top, names[i]), NEW);
	}
	assert_true(cached("stalls") > 0);
	end();
}

enum { CROWD = 24 };

/* W14: submitted and completed from all sides at once, with errors, parts and slowness. */
static void a_crowd_over_a_bad_backing(void **state)
{
	struct saver s[CROWD] = {{0}};
	char names[CROWD][16];
	uint64_t rng = 7;
	int i, round, left = 1;

	(void)state;
	begin(PATIENT ",flush_depth=5");
	for (i = 0; i < CROWD; i++) {
		snprintf(names[i], sizeof(names[i]), "%d.pt", i);
		start(&s[i], names[i], NEW, 20000 + 9001 * (size_t)i, i % 3 == 0);
	}
	for (round = 0; left && round < 50; round++) {
		switch (next_random(&rng) % 5) {
		case 0:
			faults_add(f, &(struct fault){.calls = CALL_WRITE,
						      .times = 3,
						      .err = EIO,
						      .done = next_random(&rng) % 2});
			break;
		case 1:
			faults_short(f, CALL_WRITE, 100 + next_random(&rng) % 60000);
			break;
		case 2:
			faults_slow(f, CALL_WRITE | CALL_SYNC, 300000, 1);
			break;
		case 3:
			faults_freeze(f, CALL_WRITE);
			usleep(1000);
			faults_freeze(f, 0);
			usleep(1000);
			faults_thaw(f);
			break;
		default:
			faults_add(f, &(struct fault){
					      .calls = CALL_WRITE, .times = 2, .nothing = true});
		}
		usleep(2000);
		for (left = i = 0; i < CROWD; i++)
			left += !atomic_load(&s[i].done);
	}
	faults_clear(f);
	for (i = 0; i < CROWD; i++)
		assert_int_equal(join(&s[i]), 0);
	for (i = 0; i < CROWD; i++) {
		assert_int_equal(name_wait(&m, names[i]), 0);
		assert_int_equal(version_at(m.top, names[i]), NEW);
		assert_true(has_digest(m.top, names[i]));
	}
	end();
}

/* W15: a hundred writers at once, with the smallest cache: each waits its turn. */
static void a_hundred_writers_wait_their_turn(void **state)
{
	enum { HUNDRED = 100 };
	static struct saver s[HUNDRED];
	static char names[HUNDRED][16];
	int i;

	(void)state;
	begin(PATIENT);
	memset(s, 0, sizeof(s));
	for (i = 0; i < HUNDRED; i++) {
		snprintf(names[i], sizeof(names[i]), "%d.pt", i);
		start(&s[i], names[i], NEW, CHUNK + 1000, false);
	}
	for (i = 0; i < HUNDRED; i++)
		assert_int_equal(join(&s[i]), 0);
	assert_int_equal(mnt_drain(&m, 60), 0);
	for (i = 0; i < HUNDRED; i++)
		assert_int_equal(version_at(m.top, names[i]), NEW);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_land_in_any_order),
		cmocka_unit_test(a_slow_backing_slows_writers),
		cmocka_unit_test(a_crowd_over_a_bad_backing),
		cmocka_unit_test(a_hundred_writers_wait_their_turn),
	};
	const char *only = getenv("CKPTFS_TEST_ONLY");

	umask(0);
	writer_judge(getpid()); /* keeps /proc open from now on */
	if (only)
		cmocka_set_test_filter(only);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
