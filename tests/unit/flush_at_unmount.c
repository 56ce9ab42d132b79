/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/* A mount that ends publishes what is left, or tells of it, and goes on with no retries. */
#include "tests/unit/flush_faults.h"

static void draining_tells_what_is_left(void **state)
{
	struct saver s = {0};

	(void)state;
	begin(PATIENT);
	faults_freeze(f, CALL_WRITE);
	start(&s, "x.pt", NEW, ANOTHER_SIZE, false);
	assert_int_equal(join(&s), 0);
	faults_wait_frozen(f, 1);
	assert_int_equal(engine_drain(&m.en, clock_mono_ns() + NSEC_PER_SEC / 5), -ETIMEDOUT);
	faults_thaw(f);
	assert_int_equal(mnt_drain(&m, 60), 0);
	assert_on_backing(NEW);
	end();
	begin(IMPATIENT);
	faults_add(f, eio(CALL_WRITE, 0));
	assert_int_equal(save(&m, "x.pt", NEW, ANOTHER_SIZE, false), 0);
	assert_int_equal(mnt_drain(&m, 60), -EIO);
	assert_on_backing(OLD);
	end();
}

/* A mount that ends does not go on trying for io_retry_s; the old file is whole. */
static void the_end_of_a_mount_waits_for_no_retries(void **state)
{
	static const unsigned calls[] = {CALL_WRITE, CALL_SYNC, CALL_RENAME};
	uint64_t began;
	size_t i;
	int dir;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		begin(PATIENT);
		faults_add(f, eio(calls[i], 0));
		assert_int_equal(save(&m, "x.pt", NEW, ANOTHER_SIZE, false), 0);
		WAIT_FOR(faults_count(f, calls[i]) > 1);
		began = clock_mono_ns();
		mnt_close(&m);
		assert_true(clock_mono_ns() - began < AT_ONCE_NS);
		assert_int_equal(nr_staged(), 1); /* fsck tells what it is */
		faults_detach(f);
		assert_int_equal(count_fds(), fds);
		dir = open(dir_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_int_equal(version_at(dir, "x.pt"), OLD);
		close(dir);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(draining_tells_what_is_left),
		cmocka_unit_test(the_end_of_a_mount_waits_for_no_retries),
	};
	const char *only = getenv("CKPTFS_TEST_ONLY");

	umask(0);
	writer_judge(getpid()); /* keeps /proc open from now on */
	if (only)
		cmocka_set_test_filter(only);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
