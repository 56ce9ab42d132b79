/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/* On a backing that hangs nobody waits for ever, nor for what another does. */
#include "tests/unit/flush_faults.h"

/* Who waits for room goes when his call is given up, with what he was given before, or EINTR. */
static void a_writer_who_waits_can_be_interrupted(void **state)
{
	struct saver s = {0};
	uint64_t began;

	(void)state;
	begin(PATIENT);
	faults_freeze(f, CALL_WRITE);
	start(&s, "x.pt", NEW, 3 * SMALL_CHUNKS * CHUNK, false);
	WAIT_FOR(cached("waiting") > 0);
	began = clock_mono_ns();
	wait_interrupt(&s.call);
	WAIT_FOR(atomic_load(&s.done));
	assert_true(clock_mono_ns() - began < AT_ONCE_NS);
	assert_int_equal(join(&s), -EINTR);
	assert_on_backing(OLD);
	faults_thaw(f);
	end();
}

/* So does who waits for an fsync, a close, a write behind one that flies. */
static void a_sync_that_waits_can_be_interrupted(void **state)
{
	static const unsigned calls[] = {CALL_WRITE, CALL_SYNC_DIR};
	struct saver s = {0};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		begin(PATIENT);
		faults_freeze(f, calls[i]);
		start(&s, "x.pt", NEW, ANOTHER_SIZE, true);
		faults_wait_frozen(f, 1);
		wait_interrupt(&s.call);
		WAIT_FOR(atomic_load(&s.done));
		assert_int_equal(join(&s), -EINTR);
		faults_thaw(f);
		end();
	}
}

static void nobody_waits_longer_than_the_stall_timeout(void **state)
{
	struct saver s = {0};

	(void)state;
	begin(SMALL_CACHE ",io_retry_s=600,stall_timeout_s=1");
	faults_freeze(f, CALL_WRITE);
	start(&s, "x.pt", NEW, 3 * SMALL_CHUNKS * CHUNK, false);
	assert_int_equal(join(&s), -ETIMEDOUT);
	assert_on_backing(OLD);
	assert_told("x.pt");
	faults_thaw(f);
	WAIT_FOR(cache_is_idle());
	contents_sweep(m.en.contents);
	WAIT_FOR(cached("free") == cached("size"));
	WAIT_FOR(nr_staged() == 0);
	end();
}

static void nor_behind_a_chunk_that_flies(void **state)
{
	static char data[CHUNK];
	struct file file;

	(void)state;
	begin(SMALL_CACHE ",io_retry_s=600,stall_timeout_s=1");
	open_for(&file, "x.pt");
	faults_freeze(f, CALL_WRITE);
	assert_int_equal(file_write(&file, data, CHUNK, 0), CHUNK);
	faults_wait_frozen(f, 1);
	assert_int_equal(file_write(&file, data, CHUNK, 0), -ETIMEDOUT);
	faults_thaw(f);
	assert_int_equal(file_close(&file), -ETIMEDOUT);
	assert_on_backing(OLD);
	end();
}

/* What one user's storage does with his writes is nothing to the others, while there is room. */
static void a_stuck_flush_holds_up_no_other(void **state)
{
	struct saver a = {0};
	struct file file;

	(void)state;
	begin(PATIENT);
	open_for(&file, "a.pt");
	faults_only(f, staged_inode("a.pt"));
	faults_freeze(f, CALL_WRITE | CALL_SYNC);
	start_on(&a, &file, NEW, ANOTHER_SIZE, true);
	faults_wait_frozen(f, 1);
	assert_int_equal(save(&m, "x.pt", NEW, 3 * SMALL_CHUNKS * CHUNK, true), 0);
	assert_on_backing(NEW);
	faults_only(f, 0);
	faults_thaw(f);
	assert_int_equal(join(&a), 0);
	end();
}

/*
 * W15: nor does one whose writes fail and are tried again and again, however few may be in flight.
 */
static void a_failing_flush_holds_up_no_other(void **state)
{
	struct file a;

	(void)state;
	begin(PATIENT ",flush_depth=2");
	open_for(&a, "a.pt");
	faults_only(f, staged_inode("a.pt"));
	faults_add(f, eio(CALL_WRITE, 0));
	assert_int_equal(file_fill(&a, ANOTHER, 5 * CHUNK), 0);
	faults_wait_count(f, CALL_WRITE, 6);
	assert_int_equal(save(&m, "x.pt", NEW, 3 * SMALL_CHUNKS * CHUNK, true), 0);
	assert_on_backing(NEW);
	faults_clear(f);
	assert_int_equal(file_close(&a), 0);
	assert_int_equal(name_wait(&m, "a.pt"), 0);
	assert_int_equal(version_at(m.top, "a.pt"), ANOTHER);
	end();
}

/* A user who holds as much as one may waits for himself. */
static void a_full_share_holds_up_no_other(void **state)
{
	struct caller me, other = {.uid = 1234, .gid = 1234, .pid = getpid()};
	struct saver a = {0};
	struct file file;

	(void)state;
	if (geteuid())
		skip();
	begin(PATIENT ",cache_per_uid=256K");
	me = m.user;
	m.user = other;
	open_for(&file, "a.pt");
	m.user = me;
	faults_only(f, staged_inode("a.pt"));
	faults_freeze(f, CALL_WRITE);
	start_on(&a, &file, ANOTHER, 3 * SMALL_CHUNKS * CHUNK, false);
	WAIT_FOR(cached("waiting") > 0);
	assert_int_equal(save(&m, "x.pt", NEW, 3 * SMALL_CHUNKS * CHUNK, true), 0);
	assert_on_backing(NEW);
	assert_false(atomic_load(&a.done));
	faults_only(f, 0);
	faults_thaw(f);
	assert_int_equal(join(&a), 0);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_writer_who_waits_can_be_interrupted),
		cmocka_unit_test(a_sync_that_waits_can_be_interrupted),
		cmocka_unit_test(nobody_waits_longer_than_the_stall_timeout),
		cmocka_unit_test(nor_behind_a_chunk_that_flies),
		cmocka_unit_test(a_stuck_flush_holds_up_no_other),
		cmocka_unit_test(a_failing_flush_holds_up_no_other),
		cmocka_unit_test(a_full_share_holds_up_no_other),
	};
	const char *only = getenv("CKPTFS_TEST_ONLY");

	umask(0);
	writer_judge(getpid()); /* keeps /proc open from now on */
	if (only)
		cmocka_set_test_filter(only);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
