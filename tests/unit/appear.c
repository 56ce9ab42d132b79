/* SPDX-License-Identifier: MIT */
/* Of several files that get one name the first stays, and no other is left. */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "engine/base/appear.h"

static void put(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void the_first_stays(void **state)
{
	char text[8] = "";
	int dir = scratch_fd(), fd;

	(void)state;
	put(dir, "tmp-1", "one");
	put(dir, "tmp-2", "two");
	assert_int_equal(appear_first(dir, "tmp-1", "name"), 0);
	assert_int_equal(appear_first(dir, "tmp-2", "name"), -EEXIST);
	assert_int_equal(faccessat(dir, "tmp-1", F_OK, 0), -1);
	assert_int_equal(faccessat(dir, "tmp-2", F_OK, 0), -1);
	fd = openat(dir, "name", O_RDONLY);
	assert_int_equal(read(fd, text, sizeof(text)), 3);
	assert_string_equal(text, "one");
	close(fd);
	close(dir);
}

static void what_is_not_there_does_not_appear(void **state)
{
	int dir = scratch_fd();

	(void)state;
	assert_int_equal(appear_first(dir, "tmp", "name"), -ENOENT);
	assert_int_equal(faccessat(dir, "name", F_OK, 0), -1);
	close(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_stays),
		cmocka_unit_test(what_is_not_there_does_not_appear),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
