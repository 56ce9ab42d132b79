/* SPDX-License-Identifier: MIT */
/* What is no record of its owner's, or is only a part of one, is not believed. */
#include "tests/unit/coord.h"

static void owners_are_told_apart(void **state)
{
	(void)state;
	if (geteuid())
		skip();
	assert_int_equal(record("open", "x"), 1);
	assert_int_equal(fchownat(top, in_txn(GEN ".open"), 1234, 1234, 0), 0);
	assert_int_equal(read_err("open"), -EPERM);
	assert_int_equal(record("open", "x"), -EPERM);
	assert_int_equal(fchownat(top, in_txn(GEN ".open"), me.uid, me.gid, 0), 0);
	assert_true(read_is(&b, "open", "x"));
	assert_int_equal(fchownat(top, in_txn(""), 1234, 1234, 0), 0);
	assert_int_equal(read_err("open"), -EPERM);
	assert_int_equal(record("open", "x"), -EPERM);
	assert_int_equal(coord_dir_ops.forget(&b, &me, GEN), -EPERM);
}

static void a_symlink_to_something_else_is_not_believed(void **state)
{
	static const char *const targets[] = {GEN ".next.0123456789abcdef", "../0/" GEN ".open",
					      "/etc/passwd"};
	size_t i;
	int dir;

	(void)state;
	assert_int_equal(record("next", "x"), 1);
	dir = openat(top, in_txn(""), O_RDONLY | O_DIRECTORY);
	for (i = 0; i < ARRAY_SIZE(targets); i++) {
		assert_int_equal(symlinkat(targets[i], dir, GEN ".open"), 0);
		assert_int_equal(read_err("open"), -EPERM);
		assert_int_equal(record("open", "y"), -EPERM);
		assert_int_equal(unlinkat(dir, GEN ".open", 0), 0);
	}
	/* To a file that was there before: somebody may have been told of it. */
	assert_int_equal(symlinkat(GEN ".open.0123456789abcdef", dir, GEN ".open"), 0);
	assert_int_equal(read_err("open"), -EIO);
	assert_int_equal(record("open", "y"), -EIO);
	close(dir);
}

static void a_squatter_hides_nobody_else(void **state)
{
	struct found f = {0};

	(void)state;
	assert_int_equal(record("open", "x"), 1);
	make_file(openat(top, ".ckptfs/txn", O_RDONLY), "12", "no directory");
	assert_int_equal(mkdirat(top, ".ckptfs/txn/11", 0700), 0); /* not theirs */
	assert_int_equal(coord_dir_ops.list(&b, found, &f), -EPERM);
	assert_int_equal(f.nr, 1);
}

static void a_directory_open_to_others_is_not_believed(void **state)
{
	(void)state;
	assert_int_equal(record("open", "x"), 1);
	assert_int_equal(fchmodat(top, in_txn(""), 0720, 0), 0);
	assert_int_equal(read_err("open"), -EPERM);
	assert_int_equal(record("next", "x"), -EPERM);
}

static void put(const char *name, const char *text)
{
	int dir = openat(top, in_txn(""), O_RDONLY | O_DIRECTORY);

	make_file(dir, name, text);
	close(dir);
}

static void what_is_no_record_is_not_believed(void **state)
{
	static const char *const bad[] = {
		"garbage\n",	       "ckptfs-record 1\nxy", "ckptfs-record -1\nx",
		"ckptfs-record 01\nx", "ckptfs-record 1 \nx", "ckptfs-record 99999\nx",
		"ckptfs-record\n",
	};
	size_t i;
	int fd;

	(void)state;
	assert_int_equal(mkdirat(top, in_txn(""), 0700), 0);
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		put(GEN ".open", bad[i]);
		if (read_err("open") != -EPERM || record("open", "x") != -EPERM)
			fail_msg("%s", bad[i]);
	}
	put(GEN ".open", "ckptfs-record 1\nx");
	assert_true(read_is(&b, "open", "x"));
	fd = openat(top, in_txn(GEN ".open"), O_WRONLY);
	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	close(fd);
	assert_int_equal(read_err("open"), -EPERM);
	assert_int_equal(unlinkat(top, in_txn(GEN ".open"), 0), 0);
	assert_int_equal(mkfifoat(top, in_txn(GEN ".open"), 0600), 0); /* nobody hangs on it */
	assert_int_equal(read_err("open"), -EPERM);
	assert_int_equal(mkdirat(top, in_txn(GEN ".prepare"), 0700), 0);
	assert_int_equal(read_err("prepare"), -EPERM);
	assert_int_equal(symlinkat(GEN ".next", top, in_txn(GEN ".decision")), 0);
	put(GEN ".next", "ckptfs-record 1\nx");
	assert_true(read_is(&b, "next", "x"));
	assert_true(read_err("decision") < 0);
	assert_true(read_err("decision") != -ENOENT);
}

static void a_part_of_a_record_is_none(void **state)
{
	static const char whole[] = "ckptfs-record 5\nhello";
	char part[sizeof(whole)];
	size_t i;
	int fd;

	(void)state;
	assert_int_equal(mkdirat(top, in_txn(""), 0700), 0);
	for (i = 0; i < sizeof(whole) - 1; i++) {
		snprintf(part, sizeof(part), "%.*s", (int)i, whole);
		put(GEN ".open", part);
		assert_int_equal(read_err("open"), -ENOENT);
		assert_int_equal(record("open", "hello"), -EBUSY);
		fd = openat(top, in_txn(GEN ".open"), O_WRONLY);
		assert_int_equal(ftruncate(fd, sizeof(whole) - 1), 0); /* zeros at the end */
		close(fd);
		assert_int_equal(read_err("open"), -ENOENT);
	}
	put(GEN ".open", whole);
	assert_true(read_is(&b, "open", "hello"));
	assert_int_equal(coord_dir_ops.forget(&b, &me, GEN), 0);
	assert_int_equal(record("open", "hello"), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(owners_are_told_apart),
		T(a_squatter_hides_nobody_else),
		T(a_directory_open_to_others_is_not_believed),
		T(what_is_no_record_is_not_believed),
		T(a_part_of_a_record_is_none),
	};

	const struct CMUnitTest on_fuse[] = {
		T(a_symlink_to_something_else_is_not_believed),
	};
	int failed;

	umask(0);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	fuse = true;
	return failed + cmocka_run_group_tests(on_fuse, NULL, NULL);
}
