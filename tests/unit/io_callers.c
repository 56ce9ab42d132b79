/* SPDX-License-Identifier: MIT */
/* Writes are done as whom they are for. */
#include "tests/unit/io.h"

#include <linux/io_uring.h>
#include <sys/syscall.h>

#include "engine/backing/creds.h"

static bool can_switch(void)
{
	static int can = -1;

	if (can < 0)
		can = !geteuid() && creds_init(true);
	return can;
}

static void create_switching_io(void **state)
{
	io_destroy(take_ptr(io));
	back.features->state[FEATURE_ACT_AS_CALLER] = FEATURE_YES;
	create_io(*state, DEPTH);
}

static ssize_t write_as(uid_t uid, gid_t gid, int fd, const void *buf, size_t len, uint64_t off)
{
	struct req r = {.w = {.fd = fd,
			      .buf = buf,
			      .len = len,
			      .off = off,
			      .as = {.uid = uid, .gid = gid, .pid = 0},
			      .done = note}};

	io_submit(io, &r.w);
	return result_of(&r);
}

/* A write by another than root takes the suid bit away. */
static bool keeps_suid(uid_t uid, int fd)
{
	struct stat st;

	assert_int_equal(fchmod(fd, 04755), 0);
	assert_int_equal(write_as(uid, uid, fd, "x", 1, 0), 1);
	assert_int_equal(fstat(fd, &st), 0);
	return st.st_mode & S_ISUID;
}

static void writes_are_the_callers(void **state)
{
	int fd, i;

	NEEDS_ENGINE();
	if (!can_switch())
		skip();
	create_switching_io(state);
	fd = new_file("a", 0);
	for (i = 0; i < 20; i++) {
		assert_true(keeps_suid(0, fd));
		assert_false(keeps_suid(1001, fd));
		assert_false(keeps_suid(1002 + (uid_t)i, fd));
		assert_true(keeps_suid((uid_t)-1, fd)); /* nobody's: the daemon's */
	}
	close(fd);
}

/*
 * Blocks that the filesystem has reserved for one user are there for that user alone, not for root.
 */
static void reserved_blocks_are_for_whom_they_are(void **state)
{
	enum { SIZE = 1 << 20 };
	__cleanup_free char *data = pattern(SIZE, 1);
	uint64_t off = 0;
	ssize_t n;
	int fd, direct;

	NEEDS_ENGINE();
	if (!can_switch() || !loop_fs("-m 50 -E root_owner=1234:4321"))
		skip();
	create_switching_io(state);
	for (direct = 0; direct < 2; direct++) {
		char command[2 * PATH_MAX];
		char path[PATH_MAX + 16];

		snprintf(command, sizeof(command), "mount -o remount,resuid=1234 %s", mounted);
		assert_int_equal(system(command), 0);
		snprintf(path, sizeof(path), "%s/a", mounted);
		fd = open(path, O_RDWR | O_CREAT | O_TRUNC | (direct ? O_DIRECT : 0), 0644);
		assert_true(fd >= 0);
		for (off = 0; (n = write_as(1001, 1001, fd, data, SIZE, off)) > 0;)
			off += (uint64_t)n & ~4095ull;
		assert_int_equal(n, -ENOSPC);
		assert_true(off > 4 << 20 && off < 20 << 20);
		off += SIZE; /* where no block is in part used */
		assert_int_equal(write_as(0, 0, fd, data, SIZE, off), -ENOSPC);
		assert_int_equal(write_as(1235, 4321, fd, data, SIZE, off), -ENOSPC);
		assert_int_equal(write_as(1234, 4321, fd, data, SIZE, off), SIZE);
		assert_int_equal(write_as(0, 0, fd, data, SIZE, off + SIZE), -ENOSPC);
		assert_int_equal(fsync(fd), 0);
		close(fd);
	}
}

/* How many the kernel holds for our ring. Takes them away, so that it can be told. */
static int take_personalities(void)
{
	char path[64], target[64];
	unsigned id;
	int fd, nr = 0;

	for (fd = 0; fd < 1000; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		memset(target, 0, sizeof(target));
		if (readlink(path, target, sizeof(target) - 1) > 0 && strstr(target, "io_uring"))
			for (id = 0; id < 5000; id++)
				nr += !syscall(SYS_io_uring_register, fd,
					       IORING_UNREGISTER_PERSONALITY, NULL, id);
	}
	return nr;
}

static void any_number_of_callers(void **state)
{
	enum { NR = 1000 };
	static struct req reqs[NR];
	int fd, i;

	NEEDS_ENGINE();
	if (!can_switch())
		skip();
	create_switching_io(state);
	fd = new_file("a", 0);
	assert_int_equal(fchmod(fd, 0644), 0);
	for (i = 0; i < NR; i++) {
		uid_t uid = 2000 + (uid_t)(i * 7 % 300);

		reqs[i] = (struct req){.w = {.fd = fd,
					     .buf = "x",
					     .len = 1,
					     .off = (uint64_t)i,
					     .as = {.uid = uid, .gid = uid, .pid = 0},
					     .done = note}};
		io_submit(io, &reqs[i].w);
	}
	for (i = 0; i < NR; i++)
		assert_int_equal(result_of(&reqs[i]), 1);
	/* Whoever is new, known or forgotten is the right one. */
	for (i = 0; i < 300; i++)
		assert_false(keeps_suid(2000 + (uid_t)i, fd));
	assert_true(keeps_suid(0, fd));
	assert_int_equal(take_personalities(), *state == &io_uring_ops ? 64 : 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(writes_are_the_callers),
		BOTH(reserved_blocks_are_for_whom_they_are),
		BOTH(any_number_of_callers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
