/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/*
 * Saves that the program renames, before, while and after they are published, cut off at every
 * instant.
 */
#include "tests/unit/save_crash.h"

static const struct expected by_rename[] = {{"x.pt", 0, V(OLD)},
					    {"x.pt.tmp", 0, V(ABSENT) | V(SECOND)},
					    {"x.pt", 1, V(OLD) | V(SECOND)},
					    {"x.pt", 2, V(SECOND)},
					    {NULL, 0, 0}};

static void renamed_before_it_is_published(void **state)
{
	(void)state;
	make_version(m.top, "x.pt", OLD, SIZE);
	begin(by_rename);
	assert_int_equal(save(&m, "x.pt.tmp", SECOND, NEW_SIZE, false), 0);
	promise(1);
	assert_int_equal(file_rename(&m, "x.pt.tmp", "x.pt"), 0);
	assert_int_equal(name_wait(&m, "x.pt"), 0);
	assert_int_equal(dir_sync(&m),
			 0); /* it may have been published before, under its first name */
	promise(2);
	assert_survives();
}

/* fsync, close, rename: with the rename it is there. */
static void synced_and_renamed(void **state)
{
	struct file f;

	(void)state;
	make_version(m.top, "x.pt", OLD, SIZE);
	begin(by_rename);
	open_for(&f, "x.pt.tmp");
	fill(&f, SECOND, NEW_SIZE);
	assert_int_equal(file_sync(&f), 0);
	promise(1);
	assert_int_equal(file_rename(&m, "x.pt.tmp", "x.pt"), 0);
	assert_int_equal(file_close(&f), 0);
	promise(2);
	assert_survives();
}

static void renamed_after_it_is_published(void **state)
{
	(void)state;
	make_version(m.top, "x.pt", OLD, SIZE);
	begin(by_rename);
	assert_int_equal(save(&m, "x.pt.tmp", SECOND, NEW_SIZE, true), 0);
	promise(1);
	assert_int_equal(file_rename(&m, "x.pt.tmp", "x.pt"), 0);
	assert_int_equal(dir_sync(&m), 0);
	promise(2);
	assert_survives();
}

/* As safetensors does. Over one that is itself not yet published. */
static void renamed_over_one_that_is_pending(void **state)
{
	static const struct expected e[] = {{"x.pt", 0, V(OLD) | V(THIRD)},
					    {".tmpAbc123", 0, V(ABSENT)},
					    {"x.pt", 1, V(OLD) | V(THIRD) | V(SECOND)},
					    {"x.pt", 2, V(SECOND)},
					    {NULL, 0, 0}};
	struct file f;

	(void)state;
	make_version(m.top, "x.pt", OLD, SIZE);
	begin(e);
	open_for(&f, ".tmpAbc123");
	fill(&f, SECOND, NEW_SIZE);
	assert_int_equal(save(&m, "x.pt", THIRD, 70000, false), 0);
	promise(1);
	assert_int_equal(file_rename(&m, ".tmpAbc123", "x.pt"), 0);
	assert_int_equal(file_close(&f), 0);
	assert_int_equal(name_wait(&m, "x.pt"), 0);
	promise(2);
	assert_survives();
}

/* Over one that is held open by its writer, who then comes too late. */
static void renamed_over_one_that_is_open(void **state)
{
	struct file f;

	(void)state;
	make_version(m.top, "x.pt", OLD, SIZE);
	begin(by_rename);
	open_for(&f, "x.pt");
	fill(&f, THIRD, NEW_SIZE);
	assert_int_equal(save(&m, "x.pt.tmp", SECOND, NEW_SIZE, false), 0);
	promise(1);
	assert_int_equal(file_rename(&m, "x.pt.tmp", "x.pt"), 0);
	assert_int_equal(name_wait(&m, "x.pt"), 0);
	promise(2);
	assert_int_equal(file_close(&f), 0);
	assert_survives();
}

static void renamed_to_another_directory(void **state)
{
	static const struct expected e[] = {{"a/x.pt", 0, V(ABSENT) | V(SECOND)},
					    {"b/x.pt", 0, V(OLD)},
					    {"b/x.pt", 1, V(OLD) | V(SECOND)},
					    {"b/x.pt", 2, V(SECOND)},
					    {NULL, 0, 0}};
	int dir;

	(void)state;
	assert_int_equal(mkdirat(m.top, "a", 0755) | mkdirat(m.top, "b", 0755), 0);
	make_version(m.top, "b/x.pt", OLD, SIZE);
	begin(e);
	assert_int_equal(save(&m, "a/x.pt", SECOND, NEW_SIZE, false), 0);
	promise(1);
	assert_int_equal(file_rename(&m, "a/x.pt", "b/x.pt"), 0);
	assert_int_equal(name_wait(&m, "b/x.pt"), 0);
	/* It may have been published before, under its first name. */
	dir = openat(m.top, "b", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(backing_sync(&m.en.backing, dir, false), 0);
	close(dir);
	promise(2);
	assert_survives();
}

/* A file of any name gets that of a unit: its data goes before. It has no digest. */
static int check_plain(void *arg, const struct crash_state *s)
{
	int version = version_on(s->backing, "x.pt");

	(void)arg;
	if (!(V(version) & (s->mark ? V(SECOND) : V(OLD) | V(SECOND))))
		return told_otherwise("x.pt", version, "on the backing");
	return 0;
}

static void a_plain_file_is_renamed_to_it(void **state)
{
	struct crash_options options = {.seed = 1};

	(void)state;
	make_version(m.top, "x.pt", OLD, SIZE);
	begin(by_rename);
	assert_int_equal(save(&m, "plain", SECOND, NEW_SIZE, false), 0);
	assert_int_equal(file_rename(&m, "plain", "x.pt"), 0);
	assert_int_equal(dir_sync(&m), 0);
	promise(1);
	assert_int_equal(mnt_drain(&m, 60), 0);
	record_stop(r);
	mnt_close(&m);
	if (crash_explore(r, &options, check_plain, NULL, &report))
		fail_msg("%s", report.what);
	assert_true(report.checked > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(renamed_before_it_is_published), T(synced_and_renamed),
		T(renamed_after_it_is_published),  T(renamed_over_one_that_is_pending),
		T(renamed_over_one_that_is_open),  T(renamed_to_another_directory),
		T(a_plain_file_is_renamed_to_it),
	};
	int failed;

	umask(0);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	print_message("%zu states checked\n", nr_checked);
	return failed;
}
