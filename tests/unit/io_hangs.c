/* SPDX-License-Identifier: MIT */
/* A write that hangs holds up no other, and nobody who submits. */
#include "tests/unit/io.h"

static void a_frozen_filesystem_holds_up_no_other(void **state)
{
	enum { HUNG = 5, NR = 50, SIZE = 8192 };
	static struct req hung[HUNG], reqs[NR];
	__cleanup_free char *data = pattern(SIZE, 1);
	int slow[HUNG], fd, i;
	char name[16];

	(void)state;
	NEEDS_ENGINE();
	if (!loop_fs(""))
		skip();
	frozen = open(mounted, O_RDONLY | O_DIRECTORY);
	for (i = 0; i < HUNG; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		slow[i] = openat(frozen, name, O_RDWR | O_CREAT | O_DIRECT, 0644);
		assert_true(slow[i] >= 0);
	}
	assert_int_equal(ioctl(frozen, FIFREEZE, 0), 0);
	fd = new_file("a", 0);
	for (i = 0; i < HUNG; i++)
		start(&hung[i], slow[i], data, SIZE, 0);
	for (i = 0; i < NR; i++)
		start(&reqs[i], fd, data, 100, (uint64_t)i * 100);
	for (i = 0; i < NR; i++)
		assert_int_equal(result_of(&reqs[i]), 100);
	for (i = 0; i < HUNG; i++)
		assert_false(has_ended(&hung[i]));
	assert_int_equal(ioctl(frozen, FITHAW, 0), 0);
	for (i = 0; i < HUNG; i++) {
		assert_int_equal(result_of(&hung[i]), SIZE);
		assert_holds(slow[i], data, SIZE);
		close(slow[i]);
	}
	close(frozen);
	frozen = -1;
	close(fd);
}

/* More that hang than there is room for: all the rest waits, but nobody who submits does. */
static void submitting_never_waits(void **state)
{
	enum { HUNG = 100, SIZE = 4096 };
	static struct req hung[HUNG];
	__cleanup_free char *data = pattern(SIZE, 1);
	int fd, i;

	(void)state;
	NEEDS_ENGINE();
	if (!loop_fs(""))
		skip();
	frozen = open(mounted, O_RDONLY | O_DIRECTORY);
	fd = openat(frozen, "a", O_RDWR | O_CREAT, 0644);
	assert_true(fd >= 0);
	assert_int_equal(ioctl(frozen, FIFREEZE, 0), 0);
	for (i = 0; i < HUNG; i++)
		start(&hung[i], fd, data, SIZE, (uint64_t)i * SIZE);
	for (i = 0; i < HUNG; i++)
		assert_false(has_ended(&hung[i]));
	assert_int_equal(ioctl(frozen, FITHAW, 0), 0);
	for (i = 0; i < HUNG; i++)
		assert_int_equal(result_of(&hung[i]), SIZE);
	close(fd);
	close(frozen);
	frozen = -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(a_frozen_filesystem_holds_up_no_other),
		BOTH(submitting_never_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
