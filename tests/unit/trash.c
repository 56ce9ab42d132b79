/* SPDX-License-Identifier: MIT */
/* Trash goes, whoever else works in it. */
#include "tests/unit/unit.h"

#include "engine/backing/backing.h"
#include "engine/redo/trash.h"

static int nr_fills; /* how often a directory still gets a file just before it is removed */

static int unlink_filled(void *arg, int dir, const char *name, int flags)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/late", name);
	if (flags & AT_REMOVEDIR && nr_fills-- > 0)
		make_file(dir, path, "index");
	return backing_real_ops.unlink(arg, dir, name, flags);
}

static int remove_one(int fills)
{
	struct backing_ops ops = backing_real_ops;
	char path[PATH_MAX];
	struct backing b;
	struct error e;
	int err;

	assert_int_equal(backing_open(&b, scratch_dir(path), &e), 0);
	assert_int_equal(mkdirat(b.root_fd, "trash", 0755), 0);
	make_file(b.root_fd, "trash/file", "text");
	ops.unlink = unlink_filled;
	b.ops = &ops;
	nr_fills = fills;
	err = trash_remove(&b, NULL, b.root_fd, "trash");
	assert_true(err || faccessat(b.root_fd, "trash", F_OK, 0));
	b.ops = &backing_real_ops;
	backing_close(&b);
	return err;
}

static void what_fills_once_more_goes(void **state)
{
	(void)state;
	assert_int_equal(remove_one(0), 0);
	assert_int_equal(remove_one(2), 0); /* an index, and its temporary file */
}

static void what_fills_for_ever_ends_with_an_error(void **state)
{
	(void)state;
	assert_int_equal(remove_one(INT_MAX), -ENOTEMPTY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_fills_once_more_goes),
		cmocka_unit_test(what_fills_for_ever_ends_with_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
