/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/*
 * An error of the backing that passes is not seen: what was not written is written again, then
 * synced.
 */
#include "tests/unit/flush_faults.h"

#include "engine/metrics/failures.h"

static void an_error_that_passes_is_not_seen(void **state)
{
	static const unsigned calls[] = {CALL_WRITE,   CALL_SYNC,     CALL_RENAME, CALL_SETXATTR,
					 CALL_UTIMENS, CALL_SYNC_DIR, CALL_OPEN,   CALL_STAT};
	static const int errs[] = {EIO, EAGAIN, ENOMEM, ETIMEDOUT, ENOSPC};
	size_t i, k;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		for (k = 0; k < ARRAY_SIZE(errs); k++) {
			struct file file;
			int fault;

			begin(PATIENT);
			open_for(&file, "x.pt");
			fault = faults_add(
				f, &(struct fault){.calls = calls[i], .times = 2, .err = errs[k]});
			assert_int_equal(file_fill(&file, NEW, NEW_SIZE), 0);
			assert_int_equal(file_close(&file), 0);
			assert_int_equal(name_wait(&m, "x.pt"), 0);
			if (!faults_hits(f, fault) && calls[i] != CALL_OPEN)
				fail_msg("call %zu was not made", i);
			assert_on_backing(NEW);
			assert_int_equal(failures_total(m.en.failures), 0);
			end();
		}
	}
}

/* W12: what is written short is written on from there, in whichever chunk, however often. */
static void short_writes_are_continued(void **state)
{
	static const size_t sizes[] = {1000, 4096, 5000, 40000, 65535};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		begin(PATIENT);
		faults_short(f, CALL_WRITE, sizes[i]);
		assert_int_equal(save(&m, "x.pt", NEW, NEW_SIZE, true), 0);
		assert_on_backing(NEW);
		end();
	}
}

/* W12: the same with an error after each part, so that the flush engine goes on by itself. */
static void errors_after_a_part_are_continued(void **state)
{
	static const size_t sizes[] = {4096, 5000, 40000};
	size_t i;
	unsigned k;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		begin(PATIENT);
		faults_short(f, CALL_WRITE, sizes[i]);
		for (k = 1; k < 100; k += 2)
			faults_add(f,
				   &(struct fault){
					   .calls = CALL_WRITE, .skip = k, .times = 1, .err = EIO});
		assert_int_equal(save(&m, "x.pt", NEW, NEW_SIZE, true), 0);
		assert_on_backing(NEW);
		end();
	}
}

/* W12: a write of no bytes is no progress; it is tried again, with pauses. */
static void nothing_written_is_tried_again(void **state)
{
	(void)state;
	begin(PATIENT);
	faults_add(f, &(struct fault){.calls = CALL_WRITE, .skip = 1, .times = 6, .nothing = true});
	assert_int_equal(save(&m, "x.pt", NEW, NEW_SIZE, true), 0);
	assert_on_backing(NEW);
	end();
}

/* W12: and if it stays so, it is an error, not a loop. */
static void nothing_written_for_ever_fails(void **state)
{
	(void)state;
	begin(IMPATIENT);
	faults_add(f, &(struct fault){.calls = CALL_WRITE, .nothing = true});
	assert_int_equal(save(&m, "x.pt", NEW, NEW_SIZE, true), -EIO);
	assert_true(faults_count(f, CALL_WRITE) < 500);
	assert_on_backing(OLD);
	WAIT_FOR(nr_staged() == 0);
	end();
}

/* W11: what was lost by a failed fsync is written again before the next one is believed. */
static void a_failed_fsync_is_not_tried_again_alone(void **state)
{
	uint64_t written;
	struct file file;

	(void)state;
	begin(PATIENT);
	open_for(&file, "x.pt");
	assert_int_equal(file_fill(&file, NEW, NEW_SIZE), 0);
	assert_int_equal(content_write_back(file.h->content), 0);
	written = faults_count(f, CALL_WRITE);
	faults_add(f, eio(CALL_SYNC, 1));
	assert_int_equal(file_close(&file), 0);
	assert_int_equal(name_wait(&m, "x.pt"), 0);
	assert_on_backing(NEW);
	assert_true(faults_count(f, CALL_WRITE) >= written + NEW_SIZE / CHUNK + 1);
	end();
}

/* W11: nor where it was the program's, who heard of it or not. */
static void nor_the_fsync_of_a_program(void **state)
{
	uint64_t written;
	struct file file;

	(void)state;
	begin(PATIENT);
	open_for(&file, "x.pt");
	assert_int_equal(file_fill(&file, NEW, NEW_SIZE), 0);
	assert_int_equal(content_write_back(file.h->content), 0);
	written = faults_count(f, CALL_WRITE);
	faults_add(f, eio(CALL_SYNC, 1));
	if (!file_sync(&file)) {
		assert_int_equal(file_close(&file), 0);
		assert_true(faults_count(f, CALL_WRITE) >= written + NEW_SIZE / CHUNK + 1);
		assert_on_backing(NEW);
	} else {
		assert_int_equal(file_close(&file), -EIO);
		assert_on_backing(OLD);
	}
	end();
}

/* W11: bytes that are not cached any more cannot be written again: then it fails. */
static void a_failed_fsync_of_a_large_file_fails_it(void **state)
{
	(void)state;
	begin(PATIENT);
	faults_add(f, eio(CALL_SYNC, 1));
	assert_int_equal(save(&m, "x.pt", NEW, 3 * SMALL_CHUNKS * CHUNK, true), -EIO);
	assert_on_backing(OLD);
	WAIT_FOR(nr_staged() == 0);
	end();
}

/* W11: a wait ends when the file and its name are synced, not before. */
static void a_wait_is_for_what_is_durable(void **state)
{
	static const unsigned calls[] = {CALL_WRITE, CALL_SYNC, CALL_RENAME, CALL_SYNC_DIR};
	struct saver s = {0};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		begin(PATIENT);
		faults_freeze(f, calls[i]);
		start(&s, "x.pt", NEW, NEW_SIZE, true);
		faults_wait_frozen(f, 1);
		usleep(20000);
		assert_false(atomic_load(&s.done));
		if (calls[i] != CALL_SYNC_DIR)
			assert_on_backing(OLD);
		faults_thaw(f);
		assert_int_equal(join(&s), 0);
		assert_on_backing(NEW);
		end();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_error_that_passes_is_not_seen),
		cmocka_unit_test(short_writes_are_continued),
		cmocka_unit_test(errors_after_a_part_are_continued),
		cmocka_unit_test(nothing_written_is_tried_again),
		cmocka_unit_test(nothing_written_for_ever_fails),
		cmocka_unit_test(a_failed_fsync_is_not_tried_again_alone),
		cmocka_unit_test(nor_the_fsync_of_a_program),
		cmocka_unit_test(a_failed_fsync_of_a_large_file_fails_it),
		cmocka_unit_test(a_wait_is_for_what_is_durable),
	};
	const char *only = getenv("CKPTFS_TEST_ONLY");

	umask(0);
	writer_judge(getpid()); /* keeps /proc open from now on */
	if (only)
		cmocka_set_test_filter(only);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
