/* SPDX-License-Identifier: MIT */
/* Records on a backing whose calls fail, or are done and the answer gets lost. */
#include "tests/unit/coord.h"

static uint64_t calls_of_a_record(void)
{
	uint64_t before = faults_count(faults, CALL_ANY);

	assert_int_equal(record("decision", "commit"), 1);
	return faults_count(faults, CALL_ANY) - before;
}

static void fail_each_call(bool done, bool links)
{
	uint64_t nr, i;

	faults = faults_attach(&b);
	if (!links)
		faults_add(faults, &(struct fault){.calls = CALL_LINK, .err = EOPNOTSUPP});
	nr = calls_of_a_record();
	assert_true(nr > 10);
	for (i = 0; i < nr; i++) {
		int r, again;

		assert_int_equal(remove_tree(top, in_txn("")), 0);
		faults_clear(faults);
		if (!links)
			faults_add(faults, &(struct fault){.calls = CALL_LINK, .err = EOPNOTSUPP});
		faults_add(faults, &(struct fault){.calls = CALL_ANY,
						   .skip = (unsigned)i,
						   .times = 1,
						   .err = EIO,
						   .done = done});
		r = record("decision", "commit");
		assert_true(r == 1 || r < 0);
		if (r == 1)
			assert_true(read_is(&b, "decision", "commit"));
		again = record("decision", "commit");
		/* Without links the name may be taken by nobody knows whom. */
		assert_true(again == 1 || (!links && r < 0 && again == -EBUSY));
		if (again == 1) {
			assert_int_equal(record("decision", "abort"), 0);
			assert_true(first_is("commit"));
		}
		assert_int_equal(coord_dir_ops.forget(&b, &me, GEN), 0);
		assert_int_equal(nr_files(), 0);
	}
}

static void a_call_that_fails_is_settled(void **state)
{
	(void)state;
	fail_each_call(false, true);
}

static void an_answer_that_is_lost_is_settled(void **state)
{
	(void)state;
	fail_each_call(true, true);
}

static void calls_that_fail_without_links_are_settled(void **state)
{
	(void)state;
	fail_each_call(false, false);
	faults_detach(faults);
	fail_each_call(true, false);
}

/* The link was made, and its repetition found it there. */
static void one_is_not_second_to_oneself(void **state)
{
	(void)state;
	faults = faults_attach(&b);
	faults_add(faults, &(struct fault){.calls = CALL_LINK, .err = EEXIST, .done = true});
	assert_int_equal(record("prepare", "by me"), 1);
}

static void who_is_second_obeys_though_his_answer_is_lost(void **state)
{
	(void)state;
	assert_int_equal(record("prepare", "by me"), 1);
	faults = faults_attach(&b);
	/* The first look comes too early. */
	faults_add(faults,
		   &(struct fault){
			   .calls = CALL_PIN, .name = GEN ".prepare", .times = 1, .err = ENOENT});
	faults_add(faults, &(struct fault){.calls = CALL_LINK, .err = EIO});
	assert_int_equal(record("prepare", "by another"), 0);
	assert_true(first_is("by me"));
}

static void an_enoent_is_not_the_last_word(void **state)
{
	(void)state;
	assert_int_equal(record("prepare", "by me"), 1);
	faults = faults_attach(&b);
	faults_add(faults,
		   &(struct fault){.calls = CALL_PIN, .name = GEN ".prepare", .err = ENOENT});
	assert_int_equal(record("prepare", "by another"), -EIO);
	faults_clear(faults);
	assert_int_equal(record("prepare", "by another"), 0);
}

static void what_is_not_durable_is_not_believed(void **state)
{
	(void)state;
	assert_int_equal(record("decision", "commit"), 1);
	faults = faults_attach(&b);
	faults_add(faults, &(struct fault){.calls = CALL_SYNC_DIR, .err = EIO});
	assert_int_equal(read_err("decision"), -EIO);
	assert_int_equal(record("decision", "abort"), -EIO);
	faults_clear(faults);
	assert_true(read_is(&b, "decision", "commit"));
}

static void a_full_backing_is_told(void **state)
{
	(void)state;
	assert_int_equal(record("open", "x"), 1);
	faults = faults_attach(&b);
	faults_disk(faults, 0, ENOSPC);
	assert_int_equal(record("decision", "commit"), -ENOSPC);
	faults_clear(faults);
	assert_int_equal(nr_files(), 1);
	assert_int_equal(record("decision", "commit"), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_call_that_fails_is_settled),
		T(an_answer_that_is_lost_is_settled),
		T(calls_that_fail_without_links_are_settled),
		T(one_is_not_second_to_oneself),
		T(who_is_second_obeys_though_his_answer_is_lost),
		T(an_enoent_is_not_the_last_word),
		T(what_is_not_durable_is_not_believed),
		T(a_full_backing_is_told),
	};

	const struct CMUnitTest on_fuse[] = {
		T(a_call_that_fails_is_settled),   T(an_answer_that_is_lost_is_settled),
		T(one_is_not_second_to_oneself),   T(who_is_second_obeys_though_his_answer_is_lost),
		T(an_enoent_is_not_the_last_word), T(what_is_not_durable_is_not_believed),
	};
	int failed;

	umask(0);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	fuse = true;
	return failed + cmocka_run_group_tests(on_fuse, NULL, NULL);
}
