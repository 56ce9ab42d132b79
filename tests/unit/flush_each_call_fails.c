/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/*
 * Whichever call of a save or of a rename fails, the name shows the old file or the new one, whole.
 */
#include "tests/unit/flush_faults.h"

/*
 * All that a save over an old file does. What the program is told by the end: 0 or the first error.
 */
static int whole_save(void)
{
	struct file file;
	int err = file_open(&m, &file, "x.pt.tmp", O_WRONLY | O_TRUNC), e;

	if (err)
		return err;
	err = file_fill(&file, NEW, NEW_SIZE);
	if (!err)
		err = file_sync(&file);
	e = file_close(&file);
	err = err ? err : e;
	if (err)
		return err;
	/* Over the old file by a save, then by a rename. */
	err = save(&m, "x.pt", NEW, NEW_SIZE, true);
	return err ? err : file_rename(&m, "x.pt.tmp", "x.pt");
}

static bool keeps_its_note(void)
{
	char path[PATH_MAX + 8], text[8];

	snprintf(path, sizeof(path), "%s/x.pt", dir_path);
	return getxattr(path, XATTR, text, sizeof(text)) == 4 && !memcmp(text, "keep", 4);
}

/* One fault at call @nr. False: there are not so many calls. */
static bool survives(unsigned nr, int err, bool done, unsigned times)
{
	int fault = faults_add(
		f,
		&(struct fault){
			.calls = CALL_ANY, .skip = nr, .times = times, .err = err, .done = done});
	int result = save(&m, "x.pt", NEW, NEW_SIZE, true), version;
	bool hit = faults_hits(f, fault);

	faults_clear(f);
	version = version_at(m.top, "x.pt");
	if (version != OLD && version != NEW)
		fail_msg("call %u fails: torn", nr);
	if (!result && version != NEW)
		fail_msg("call %u fails: said to be saved, but is not", nr);
	/* What may not be seen, or set, is left out. */
	if (!result && err != EACCES && feature(m.en.backing.features, FEATURE_XATTR) &&
	    !keeps_its_note())
		fail_msg("call %u fails: lost an attribute of the old file", nr);
	return hit;
}

static void each_call_fails(int err, bool done, unsigned times, const char *options)
{
	bool more = true;
	unsigned nr;

	for (nr = 0; more; nr++) {
		begin(options);
		more = survives(nr, err, done, times);
		end();
		assert_true(nr < 500);
	}
	assert_true(nr > 15);
}

#define NO_RETRY SMALL_CACHE ",io_retry_s=0,stall_timeout_s=600"

static void each_call_fails_once(void **state)
{
	(void)state;
	each_call_fails(EIO, false, 1, PATIENT);
	each_call_fails(EIO, false, 1, NO_RETRY);
	each_call_fails(EACCES, false, 1, NO_RETRY);
}

static void each_call_is_done_but_answers_an_error(void **state)
{
	(void)state;
	each_call_fails(EIO, true, 1, PATIENT);
	each_call_fails(ESTALE, true, 1, NO_RETRY);
}

static void all_calls_fail_from_one_on(void **state)
{
	(void)state;
	each_call_fails(EIO, false, 0, NO_RETRY);
	each_call_fails(ENOSPC, false, 0, NO_RETRY);
	each_call_fails(EIO, true, 0, NO_RETRY);
}

/* The same of a save under another name that is renamed to it. */
static void each_call_of_a_rename_fails(void **state)
{
	bool more = true;
	unsigned nr;

	(void)state;
	for (nr = 0; more; nr++) {
		int fault, result, version;

		begin(PATIENT);
		fault = faults_add(
			f, &(struct fault){.calls = CALL_ANY, .skip = nr, .times = 1, .err = EIO});
		result = whole_save();
		more = faults_hits(f, fault);
		faults_clear(f);
		version = version_at(m.top, "x.pt");
		if (version != OLD && version != NEW)
			fail_msg("call %u fails: torn", nr);
		if (!result && version != NEW)
			fail_msg("call %u fails: said to be saved, but is not", nr);
		assert_true(version_at(m.top, "x.pt.tmp") != TORN);
		end();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_call_fails_once),
		cmocka_unit_test(each_call_is_done_but_answers_an_error),
		cmocka_unit_test(all_calls_fail_from_one_on),
		cmocka_unit_test(each_call_of_a_rename_fails),
	};
	const char *only = getenv("CKPTFS_TEST_ONLY");

	umask(0);
	writer_judge(getpid()); /* keeps /proc open from now on */
	if (only)
		cmocka_set_test_filter(only);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
