/* SPDX-License-Identifier: MIT */
/*
 * Record files: a record of another file that has got the same inode number stays; one of the file
 * that went, goes.
 */
#include "tests/unit/unit.h"

#include "engine/base/clock.h"
#include "engine/content/recorded.h"

#define HEX "0123456789abcdef0123456789abcdef"

static const struct caller daemon_itself = {.uid = (uid_t)-1, .gid = (gid_t)-1};
static struct backing b;
static int top;

static int setup(void **state)
{
	struct error e;
	char path[PATH_MAX];

	(void)state;
	if (backing_open(&b, scratch_dir(path), &e))
		return -1;
	b.features->state[FEATURE_XATTR] = FEATURE_TURNED_OFF;
	top = b.root_fd;
	return mkdirat(top, ".ckptfs", 0755);
}

static int teardown(void **state)
{
	(void)state;
	backing_close(&b);
	return 0;
}

static struct statx stat_of(int fd)
{
	struct statx stx;

	assert_int_equal(backing_stat(&b, fd, &stx), 0);
	return stx;
}

/* The file @name of @size bytes, saved with its record. */
static int save(const char *name, off_t size)
{
	char text[DIGEST_RECORD_MAX];
	int fd = openat(top, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	struct statx stx;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	stx = stat_of(fd);
	digest_record_format(text, sizeof(text), HEX, stx.stx_size,
			     (uint64_t)stx.stx_mtime.tv_sec * NSEC_PER_SEC + stx.stx_mtime.tv_nsec);
	assert_int_equal(recorded_put(&b, &daemon_itself, fd, text, true), 0);
	return fd;
}

static bool has_record(int fd)
{
	struct statx stx = stat_of(fd);
	char hex[DIGEST_HEX];

	return recorded_valid(&b, fd, &stx, hex);
}

/* @stx is of a file that is gone; another save has got its inode number, and has put its record. */
static void the_record_of_another_file_stays(void **state)
{
	int fd = save("x.pt", 5000);
	struct statx size = stat_of(fd), time = stat_of(fd), same = stat_of(fd);

	(void)state;
	size.stx_size++;
	recorded_forget(&b, &size);
	assert_true(has_record(fd));
	time.stx_mtime.tv_nsec ^= 1;
	recorded_forget(&b, &time);
	assert_true(has_record(fd));
	recorded_forget(&b, &same);
	assert_false(has_record(fd));
	close(fd);
}

/* Also one that is not true any more goes when the content is about to change. */
static void a_change_of_the_content_drops_it(void **state)
{
	int fd = save("x.pt", 5000);

	(void)state;
	assert_int_equal(ftruncate(fd, 4000), 0);
	recorded_drop(&b, fd);
	assert_int_equal(recorded_get(&b, fd, NULL, 0), -ENODATA);
	close(fd);
}

/*
 * Only a file whose last name goes takes its record along, and only on a backing without
 * attributes.
 */
static void what_takes_a_record_along(void **state)
{
	int fd = save("x.pt", 5000), pin, fds = count_fds();
	struct statx stx;

	(void)state;
	pin = recorded_hold(&b, top, "x.pt", &stx);
	assert_true(pin >= 0);
	assert_int_equal(stx.stx_ino, stat_of(fd).stx_ino);
	assert_int_equal(stx.stx_size, 5000);
	close(pin);
	assert_int_equal(recorded_hold(&b, top, ".ckptfs", &stx), -ENODATA);
	assert_int_equal(recorded_hold(&b, top, "absent", &stx), -ENOENT);
	assert_int_equal(symlinkat("x.pt", top, "link"), 0);
	assert_int_equal(recorded_hold(&b, top, "link", &stx), -ENODATA);
	assert_int_equal(linkat(top, "x.pt", top, "y.pt", 0), 0);
	assert_int_equal(recorded_hold(&b, top, "x.pt", &stx), -ENODATA);
	assert_int_equal(unlinkat(top, "y.pt", 0), 0);
	b.features->state[FEATURE_XATTR] = FEATURE_YES;
	assert_int_equal(recorded_hold(&b, top, "x.pt", &stx), -ENODATA);
	assert_int_equal(count_fds(), fds);
	close(fd);
}

/* While it is held, no other file gets the inode number of the file that went. */
static void a_held_number_is_not_given_again(void **state)
{
	struct statx stx;
	int fd = save("x.pt", 5000), pin = recorded_hold(&b, top, "x.pt", &stx), i;

	(void)state;
	assert_true(pin >= 0);
	close(fd);
	assert_int_equal(unlinkat(top, "x.pt", 0), 0);
	for (i = 0; i < 100; i++) {
		char name[16];

		snprintf(name, sizeof(name), "%d.pt", i);
		fd = save(name, 5000);
		assert_int_not_equal(stat_of(fd).stx_ino, stx.stx_ino);
		close(fd);
	}
	close(pin);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(the_record_of_another_file_stays),
		T(a_change_of_the_content_drops_it),
		T(what_takes_a_record_along),
		T(a_held_number_is_not_given_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
