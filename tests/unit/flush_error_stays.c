/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/* An error of the backing that stays is told to who saves, and leaves the old file. */
#include "tests/unit/flush_faults.h"

#include "engine/metrics/failures.h"

static enum generation_state state_of(struct generation *g)
{
	enum generation_state state;
	char reason[MESSAGE_MAX];

	assert_true(units_state_of(m.en.units, generation_id(g), &state, reason));
	return state;
}

/* The first error sticks, and all hear of it; what has the name is whole, the memory free. */
static void sticks(unsigned calls, int err)
{
	uint64_t until = clock_mono_ns() + PATIENCE_NS;
	struct generation *g;
	struct file file;
	char byte = 0;
	ssize_t n;

	open_for(&file, "x.pt");
	g = file.h->generation;
	generation_get(g);
	faults_add(f, &(struct fault){.calls = calls, .skip = 2, .err = -err});
	do {
		n = file_fill(&file, NEW, 3 * SMALL_CHUNKS * CHUNK);
	} while (!n && clock_mono_ns() < until);
	assert_int_equal(n, err);
	assert_int_equal(file_write(&file, &byte, 1, 0), err);
	assert_int_equal(file_sync(&file), err);
	WAIT_FOR(state_of(g) == GENERATION_FAILED);
	assert_int_equal(generation_wait(g), err);
	assert_int_equal(file_close(&file), err);
	generation_put(g);
	WAIT_FOR(cache_is_idle());
	contents_sweep(m.en.contents);
	WAIT_FOR(cached("free") == cached("size"));
	WAIT_FOR(failures_total(m.en.failures) == 1);
	assert_told("x.pt");
	assert_told(strerror(-err));
	assert_on_backing(OLD);
	assert_int_equal(version_in(&m, "x.pt"), OLD);
	WAIT_FOR(nr_staged() == 0);
}

/* W15: the program is told, and lives; so does the mount. */
static void an_error_that_stays_sticks(void **state)
{
	static const int errs[] = {-EIO, -ENOSPC, -EDQUOT, -EROFS, -EFBIG};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(errs); i++) {
		begin(IMPATIENT);
		sticks(CALL_WRITE, errs[i]);
		end();
	}
}

/* W15: a disk that fills up in the middle, whether that is seen before or when it is flushed. */
static void a_full_disk_fails_the_save(void **state)
{
	static const int errs[] = {ENOSPC, EDQUOT};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(errs); i++) {
		begin(IMPATIENT);
		faults_disk(f, 100000, errs[i]);
		assert_int_equal(save(&m, "x.pt", NEW, 2000000, true), -errs[i]);
		assert_on_backing(OLD);
		WAIT_FOR(no_save_is_left() || nr_staged() == 0);
		faults_disk(f, -1, 0);
		end();
	}
}

/* What is freed in time is used. */
static void a_full_disk_may_get_room(void **state)
{
	struct file file;

	(void)state;
	begin(PATIENT);
	open_for(&file, "x.pt");
	faults_freeze(f, CALL_WRITE); /* else all may be there before the disk is full */
	assert_int_equal(file_fill(&file, NEW, NEW_SIZE), 0);
	faults_disk(f, 70000, ENOSPC);
	faults_thaw(f);
	assert_int_equal(file_close(&file), 0);
	faults_wait_count(f, CALL_WRITE, faults_count(f, CALL_WRITE) + 1);
	faults_disk(f, -1, 0);
	assert_int_equal(name_wait(&m, "x.pt"), 0);
	assert_on_backing(NEW);
	end();
}

/* A step of the publish that fails for good. @left: what the name has then. */
static void fails_in(unsigned calls, int err, int left)
{
	struct generation *g;
	struct file file;

	begin(IMPATIENT);
	open_for(&file, "x.pt");
	g = file.h->generation;
	generation_get(g);
	assert_int_equal(file_fill(&file, NEW, NEW_SIZE), 0);
	assert_int_equal(content_write_back(file.h->content), 0);
	faults_add(f, &(struct fault){.calls = calls, .err = err});
	assert_int_equal(file_close(&file), 0);
	assert_int_equal(generation_wait(g), -err);
	faults_clear(f);
	assert_on_backing(left);
	assert_int_equal(version_in(&m, "x.pt"), left); /* while what has failed is still known */
	generation_put(g);
	WAIT_FOR(nr_staged() == 0);
	WAIT_FOR(failures_total(m.en.failures) == 1);
	assert_told(strerror(err));
}

static void a_failing_publish_leaves_the_old_file(void **state)
{
	static const int errs[] = {EIO, EROFS};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(errs); i++) {
		fails_in(CALL_SYNC, errs[i], OLD);
		assert_told("whole and still has it");
		end();
		fails_in(CALL_RENAME, errs[i], OLD);
		assert_told("whole and still has it");
		end();
		fails_in(CALL_UTIMENS, errs[i], OLD);
		end();
		fails_in(CALL_STAT, errs[i], OLD);
		end();
	}
	fails_in(CALL_SETXATTR, EIO, OLD);
	end();
}

/* The name is changed already: nobody says that the old file is there. */
static void a_failing_directory_sync_is_told_as_it_is(void **state)
{
	(void)state;
	fails_in(CALL_SYNC_DIR, EIO, NEW);
	assert_told("may not survive");
	end();
	fails_in(CALL_SYNC_DIR, EROFS, NEW);
	end();
}

static void without_xattrs_there_is_no_record(void **state)
{
	static const int errs[] = {EOPNOTSUPP, EPERM, EACCES};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(errs); i++) {
		begin(IMPATIENT);
		faults_add(f, &(struct fault){.calls = CALL_SETXATTR, .err = errs[i]});
		assert_int_equal(save(&m, "x.pt", NEW, NEW_SIZE, true), 0);
		assert_int_equal(version_at(m.top, "x.pt"), NEW);
		assert_false(has_digest(m.top, "x.pt"));
		assert_int_equal(failures_total(m.en.failures), 0);
		end();
	}
}

/* The answer is lost, the deed is done: it is found out by looking. */
static void a_rename_whose_answer_is_lost_is_done(void **state)
{
	(void)state;
	begin(PATIENT);
	faults_add(f, &(struct fault){.calls = CALL_RENAME, .times = 1, .err = EIO, .done = true});
	assert_int_equal(save(&m, "x.pt", NEW, NEW_SIZE, true), 0);
	assert_on_backing(NEW);
	assert_int_equal(failures_total(m.en.failures), 0);
	end();
	begin(IMPATIENT); /* and if it stays lost, nobody says that the old file is there */
	faults_add(f, &(struct fault){.calls = CALL_RENAME, .err = EIO, .done = true});
	assert_int_equal(save(&m, "x.pt", NEW, NEW_SIZE, true), 0);
	assert_on_backing(NEW);
	end();
}

/* Somebody else changed what the name stands for: nothing of theirs is replaced, nor ours lost. */
static void a_target_changed_behind_is_a_conflict(void **state)
{
	struct generation *g;
	struct file file;
	char byte = 0;
	ssize_t n;

	(void)state;
	begin(IMPATIENT);
	open_for(&file, "x.pt");
	g = file.h->generation;
	generation_get(g);
	assert_int_equal(file_fill(&file, NEW, NEW_SIZE), 0);
	make_version(m.top, "theirs", ANOTHER, ANOTHER_SIZE);
	assert_int_equal(renameat(m.top, "theirs", m.top, "x.pt"), 0);
	generation_closed(g, file.key, (struct writer_end){.fate = WRITER_ALIVE});
	assert_true(generation_wait(g) < 0);
	assert_int_equal(version_at(m.top, "x.pt"), ANOTHER);
	assert_int_equal(nr_staged(), 1);
	assert_int_equal(version_at(m.top, generation_staging(g)), NEW);
	assert_told("Nothing was replaced");
	assert_told(generation_staging(g));
	/* What is beside it stays as it is. */
	n = file_write(&file, &byte, 1, 0);
	assert_true(n < 0);
	assert_int_equal(version_at(m.top, generation_staging(g)), NEW);
	assert_true(file_close(&file) < 0);
	assert_int_equal(version_in(&m, "x.pt"), ANOTHER);
	generation_put(g);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_error_that_stays_sticks),
		cmocka_unit_test(a_full_disk_fails_the_save),
		cmocka_unit_test(a_full_disk_may_get_room),
		cmocka_unit_test(a_failing_publish_leaves_the_old_file),
		cmocka_unit_test(a_failing_directory_sync_is_told_as_it_is),
		cmocka_unit_test(without_xattrs_there_is_no_record),
		cmocka_unit_test(a_rename_whose_answer_is_lost_is_done),
		cmocka_unit_test(a_target_changed_behind_is_a_conflict),
	};
	const char *only = getenv("CKPTFS_TEST_ONLY");

	umask(0);
	writer_judge(getpid()); /* keeps /proc open from now on */
	if (only)
		cmocka_set_test_filter(only);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
