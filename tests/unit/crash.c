/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/*
 * Crash states: programs that forget a sync are caught, those that forget none are not.
 */
#include "tests/unit/crash.h"

/* --- a file saved by rename over the old one --- */

struct how {
	bool no_fsync, no_dir_sync, fdatasync, late_xattr, no_xattr;
};

static void start_with_old(void)
{
	make_filled(top, "ckpt", 'o', 3);
	r = record_start(&b);
}

static void save_file(const struct how *how)
{
	int fd = make(top, "tmp");

	fill(fd, 'n', 3, 0);
	if (!how->no_xattr && !how->late_xattr)
		ok(backing_setxattr(&b, fd, "user.digest", "n", 1, 0));
	if (!how->no_fsync)
		ok(backing_sync(&b, fd, how->fdatasync));
	if (how->late_xattr)
		ok(backing_setxattr(&b, fd, "user.digest", "n", 1, 0));
	close(fd);
	ok(backing_rename(&b, top, "tmp", top, "ckpt", 0));
	if (!how->no_dir_sync)
		ok(backing_sync(&b, top, false));
	record_mark(r, 1);
}

/* The old file or the new one, and the new one if it was promised. */
static int old_or_new(void *arg, const struct crash_state *s)
{
	const struct how *how = arg;
	int what = content(s->backing, "ckpt", 3);
	__cleanup_fd int fd = peek_open(s->backing, "ckpt");
	char digest = 0;

	if (what == 'n' && !how->no_xattr &&
	    (backing_getxattr(s->backing, fd, "user.digest", &digest, 1) != 1 || digest != 'n'))
		return 1;
	return what == 'n' || (what == 'o' && s->mark < 1) ? 0 : 1;
}

static void needs_xattrs(void)
{
	if (!feature(b.features, FEATURE_XATTR))
		skip();
}

static void a_careful_save_is_never_caught(void **state)
{
	struct how how = {0};

	(void)state;
	needs_xattrs();
	start_with_old();
	save_file(&how);
	assert_never_caught(old_or_new, &how);
	assert_true(report.checked > 10);
	assert_false(report.cut_short);
}

static void rename_without_fsync_is_caught(void **state)
{
	struct how how = {.no_fsync = true, .no_xattr = true};

	(void)state;
	start_with_old();
	save_file(&how);
	assert_caught(old_or_new, &how);
	assert_contains(report.what, "write tmp [0, 12288)");
}

static void rename_without_directory_sync_is_caught(void **state)
{
	struct how how = {.no_dir_sync = true, .no_xattr = true};

	(void)state;
	start_with_old();
	save_file(&how);
	assert_caught(old_or_new, &how);
	assert_contains(report.what, "mark 1");
	assert_contains(report.what, "rename ./tmp to ./ckpt");
}

static void fdatasync_is_for_data(void **state)
{
	struct how how = {.fdatasync = true, .no_xattr = true};

	(void)state;
	start_with_old();
	save_file(&how);
	assert_never_caught(old_or_new, &how);
}

static void fdatasync_is_not_for_xattrs(void **state)
{
	struct how how = {.fdatasync = true};

	(void)state;
	needs_xattrs();
	start_with_old();
	save_file(&how);
	assert_caught(old_or_new, &how);
	assert_contains(report.what, "set user.digest of tmp");
}

static void an_xattr_after_fsync_is_caught(void **state)
{
	struct how how = {.late_xattr = true};

	(void)state;
	needs_xattrs();
	start_with_old();
	save_file(&how);
	assert_caught(old_or_new, &how);
}

/* --- a directory published whole, in the order of unit/commit.c; each sync left out in turn --- */

enum { UNIT_FILES = 3, UNIT_SYNCS = UNIT_FILES + 4 };

/* Makes all the syncs but number @without. */
static void maybe_sync(int fd, int nr, int without)
{
	if (nr != without)
		ok(backing_sync(&b, fd, false));
}

static void save_unit(int without)
{
	char name[16];
	int dir, fd, i;

	ok(backing_mkdir(&b, top, ".staging", 0755));
	dir = backing_pin(&b, top, ".staging");
	ok(dir);
	fd = backing_reopen(&b, dir, O_RDONLY | O_DIRECTORY);
	ok(fd);
	close(dir);
	dir = fd;
	for (i = 0; i < UNIT_FILES; i++) {
		snprintf(name, sizeof(name), "rank%d", i);
		fd = make(dir, name);
		fill(fd, 'd', 4, 0);
		fill(fd, 'd', 4, 4);
		maybe_sync(fd, i, without);
		close(fd);
	}
	maybe_sync(dir, UNIT_FILES, without);
	fd = make(dir, "commit");
	fill(fd, 'c', 1, 0);
	maybe_sync(fd, UNIT_FILES + 1, without);
	close(fd);
	maybe_sync(dir, UNIT_FILES + 2, without);
	ok(backing_rename(&b, top, ".staging", top, "step-1", 0));
	maybe_sync(top, UNIT_FILES + 3, without);
	close(dir);
	record_mark(r, 1);
}

/* All or nothing under the name, all if it was promised; and a commit file only with all. */
static int unit_is_whole(void *arg, const struct crash_state *s)
{
	const char *const names[] = {"step-1", ".staging"};
	char name[32];
	bool committed = false;
	int i, k;

	(void)arg;
	for (k = 0; k < 2; k++) {
		snprintf(name, sizeof(name), "%s/commit", names[k]);
		if (content(s->backing, name, 1) != 'c')
			continue;
		for (i = 0; i < UNIT_FILES; i++) {
			snprintf(name, sizeof(name), "%s/rank%d", names[k], i);
			if (content(s->backing, name, 8) != 'd')
				return 1;
		}
		committed |= !k;
	}
	return (exists(s->backing, "step-1") || s->mark) && !committed;
}

static void an_ordered_publication_is_never_caught(void **state)
{
	(void)state;
	r = record_start(&b);
	save_unit(-1);
	assert_never_caught(unit_is_whole, NULL);
	print_message("%zu states considered, %zu checked, %.3f s, of which checks %.3f s\n",
		      report.considered, report.checked, report.seconds, report.check_seconds);
}

static void each_missing_sync_of_it_is_caught(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < UNIT_SYNCS; i++) {
		r = record_start(&b);
		save_unit(i);
		assert_caught(unit_is_whole, NULL);
		record_free(r);
		r = NULL;
		assert_int_equal(remove_tree(top, "step-1"), 0);
	}
}

/* --- exploring --- */

static void exploring_repeats(void **state)
{
	struct crash_report first;
	struct how how = {.no_xattr = true};

	(void)state;
	start_with_old();
	save_file(&how);
	assert_never_caught(old_or_new, &how);
	first = report;
	assert_never_caught(old_or_new, &how);
	assert_int_equal(report.considered, first.considered);
	assert_int_equal(report.checked, first.checked);
}

static void exploring_can_be_limited(void **state)
{
	struct crash_options options = {.seed = 1, .max_states = 5};
	struct how how = {.no_xattr = true};

	(void)state;
	start_with_old();
	save_file(&how);
	record_stop(r);
	assert_int_equal(crash_explore(r, &options, old_or_new, &how, &report), 0);
	assert_int_equal(report.checked, 5);
	assert_true(report.cut_short);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_careful_save_is_never_caught),
		T(rename_without_fsync_is_caught),
		T(rename_without_directory_sync_is_caught),
		T(fdatasync_is_for_data),
		T(fdatasync_is_not_for_xattrs),
		T(an_xattr_after_fsync_is_caught),
		T(an_ordered_publication_is_never_caught),
		T(each_missing_sync_of_it_is_caught),
		T(exploring_repeats),
		T(exploring_can_be_limited),
	};

	umask(0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
