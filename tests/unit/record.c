/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/* The recorder: what was recorded is what was done. */
#include "tests/unit/crash.h"

#include <pthread.h>

#include "engine/backing/dirwalk.h"

static int all_there(void *arg, const struct crash_state *s)
{
	(void)arg;
	return s->mark && content(s->backing, "d/f", 2) != 'n';
}

/* --- the recorder --- */

static void what_bypasses_the_backing_is_noticed(void **state)
{
	int fd;

	(void)state;
	r = record_start(&b);
	make_file(top, "f", "behind its back");
	fd = make(top, "f");
	ok(backing_write(&b, fd, "x", 1, 0, 0));
	close(fd);
	assert_non_null(record_problem(r));
	assert_int_equal(explore(all_there, NULL), -EINVAL);
	assert_contains(report.what, "not made through the backing");
}

static void two_nodes_share_a_log(void **state)
{
	struct backing other;
	struct error e;
	int fd;

	(void)state;
	ok(backing_open(&other, b.path, &e));
	r = record_start(&b);
	record_attach(r, &other);
	ok(backing_mkdir(&other, top, "d", 0755));
	fd = backing_pin(&b, top, "d");
	make_filled(fd, "f", 'n', 2);
	close(fd);
	ok(backing_sync_fs(&other, other.root_fd));
	record_mark(r, 1);
	assert_never_caught(all_there, NULL);
	assert_ptr_equal(b.ops, &backing_real_ops);
	assert_ptr_equal(other.ops, &backing_real_ops);
	assert_ptr_equal(other.ops_arg, &other);
	backing_close(&other);
}

enum { THREADS = 4, SAVES = 6 };

static void *save_often(void *arg)
{
	int nr = *(int *)arg, i;
	char tmp[16], name[16];

	for (i = 0; i < SAVES; i++) {
		int fd;

		snprintf(tmp, sizeof(tmp), "tmp%d", nr);
		snprintf(name, sizeof(name), "file%d", nr);
		fd = make(top, tmp);
		fill(fd, (char)('a' + i), 2, 0);
		ok(backing_sync(&b, fd, false));
		close(fd);
		ok(backing_rename(&b, top, tmp, top, name, 0));
		ok(backing_sync(&b, top, false));
	}
	return NULL;
}

static int all_whole(void *arg, const struct crash_state *s)
{
	char name[16];
	int i;

	(void)arg;
	for (i = 0; i < THREADS; i++) {
		snprintf(name, sizeof(name), "file%d", i);
		if (content(s->backing, name, 2) == -1)
			return 1;
	}
	return 0;
}

static void threads_are_recorded_in_order(void **state)
{
	pthread_t threads[THREADS];
	int numbers[THREADS], i, fds = count_fds();

	(void)state;
	r = record_start(&b);
	for (i = 0; i < THREADS; i++) {
		numbers[i] = i;
		assert_int_equal(pthread_create(&threads[i], NULL, save_often, &numbers[i]), 0);
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_null(record_problem(r));
	assert_never_caught(all_whole, NULL);
	assert_int_equal(count_fds(), fds);
}

/* --- replaying all gives what is there --- */

static void assert_same_data(struct backing *real, struct backing *mem, const char *path)
{
	char x[1 << 16], y[1 << 16];
	int fds[2] = {peek_open(real, path), peek_open(mem, path)};
	off_t off = 0;
	ssize_t n;

	assert_true(fds[0] >= 0 && fds[1] >= 0);
	do {
		n = backing_read(real, fds[0], x, sizeof(x), off);
		assert_true(n >= 0);
		assert_int_equal(backing_read(mem, fds[1], y, sizeof(y), off), n);
		assert_memory_equal(x, y, n);
		off += n;
	} while (n);
	close(fds[0]);
	close(fds[1]);
}

static void assert_same_inode(struct backing *real, struct backing *mem, const char *path)
{
	const char *const names[] = {"user.0", "user.1", "user.2"};
	int pins[2] = {backing_pin(real, real->root_fd, path),
		       backing_pin(mem, mem->root_fd, path)};
	struct statx x, y;
	char value[64], other[64];
	size_t i;

	if (pins[1] < 0)
		fail_msg("%s is missing", path);
	assert_int_equal(backing_stat(real, pins[0], &x), 0);
	assert_int_equal(backing_stat(mem, pins[1], &y), 0);
	assert_int_equal(x.stx_mode, y.stx_mode);
	assert_int_equal(x.stx_uid, y.stx_uid);
	assert_int_equal(x.stx_nlink, y.stx_nlink);
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		ssize_t n = backing_getxattr(real, pins[0], names[i], value, sizeof(value));

		assert_int_equal(backing_getxattr(mem, pins[1], names[i], other, sizeof(other)), n);
		if (n > 0)
			assert_memory_equal(value, other, n);
	}
	if (S_ISREG(x.stx_mode)) {
		assert_int_equal(x.stx_size, y.stx_size);
		assert_int_equal(x.stx_mtime.tv_sec, y.stx_mtime.tv_sec);
		assert_int_equal(x.stx_mtime.tv_nsec, y.stx_mtime.tv_nsec);
		assert_same_data(real, mem, path);
	}
	close(pins[0]);
	close(pins[1]);
}

/* How many entries there are. */
static int assert_same_tree(struct backing *real, struct backing *mem, const char *path)
{
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;
	int nr = 0;

	dirwalk_begin_fd(&w, real, peek_open(real, path));
	while (dirwalk_next(&w)) {
		char below[PATH_MAX];

		nr++;
		snprintf(below, sizeof(below), "%s%s%s", path, *path ? "/" : "", w.name);
		assert_same_inode(real, mem, below);
		if (w.type == DT_DIR)
			nr += assert_same_tree(real, mem, below);
	}
	assert_int_equal(w.err, 0);
	assert_int_equal(peek_names(mem, path, true), peek_names(real, path, true));
	return nr;
}

static uint64_t rng;

static unsigned pick(unsigned below)
{
	return (unsigned)(next_random(&rng) % below);
}

static const char *any_name(void)
{
	static const char *const names[] = {"a", "b", "c", "d"};

	return names[pick(4)];
}

/* Some directory, at most three deep; always to be closed. */
static int any_dir(void)
{
	int dir = openat(top, ".", O_RDONLY | O_DIRECTORY), next;
	unsigned depth = pick(4);

	while (depth-- &&
	       (next = openat(dir, any_name(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW)) >= 0) {
		close(dir);
		dir = next;
	}
	return dir;
}

static void random_file_op(int fd)
{
	const struct timespec times[2] = {{.tv_sec = pick(1000000)}, {.tv_sec = pick(1000000)}};
	char data[20000], name[8];
	off_t off = pick(30000);
	size_t len = 1 + pick(sizeof(data));

	memset(data, (int)('a' + pick(26)), sizeof(data));
	snprintf(name, sizeof(name), "user.%u", pick(3));
	switch (pick(11)) {
	case 0:
		backing_ftruncate(&b, fd, off);
		break;
	case 1:
		backing_truncate(&b, fd, off);
		break;
	case 2:
		backing_fallocate(&b, fd, 0, off, (off_t)len);
		break;
	case 3:
		backing_fallocate(&b, fd, 1 /* KEEP_SIZE */ | (pick(2) ? 2 : 0), off, (off_t)len);
		break;
	case 4:
		backing_setxattr(&b, fd, name, data, 1 + pick(60), 0);
		break;
	case 5:
		backing_removexattr(&b, fd, name);
		break;
	case 6:
		backing_chmod(&b, fd, 0600 | pick(0200));
		break;
	case 7:
		backing_utimens(&b, fd, times);
		break;
	case 8:
		backing_write(&b, fd, data, len, 0, RWF_APPEND);
		break;
	case 9:
		backing_copy_range(&b, fd, 0, fd, 1 << 20, len, 0);
		break;
	default:
		backing_write(&b, fd, data, len, off, 0);
	}
}

static void random_op(void)
{
	int dir = any_dir(), other = any_dir(), fd;
	const char *name = any_name(), *name2 = any_name();
	bool created;

	switch (pick(12)) {
	case 0:
		backing_mkdir(&b, dir, name, 0755);
		break;
	case 1:
		backing_unlink(&b, dir, name, pick(2));
		break;
	case 2:
		backing_rename(&b, dir, name, other, name2, pick(3) ? 0 : 1 + pick(2));
		break;
	case 3:
		fd = backing_pin(&b, dir, name);
		if (fd >= 0) {
			backing_link(&b, fd, other, name2);
			close(fd);
		}
		break;
	case 4:
		backing_symlink(&b, "target", dir, name);
		break;
	case 5:
		backing_mknod(&b, dir, name, S_IFIFO | 0600, 0);
		break;
	default:
		fd = backing_create(&b, dir, name, O_RDWR | (pick(4) ? 0 : O_TRUNC), 0644,
				    &created);
		if (fd >= 0) {
			random_file_op(fd);
			if (pick(2))
				random_file_op(fd);
			close(fd);
		}
	}
	close(dir);
	close(other);
}

static void replaying_all_gives_what_is_there(void **state)
{
	struct memory *m = memory_create();
	struct backing mem;
	int seed, i;

	(void)state;
	for (seed = 1; seed <= 6; seed++) {
		rng = (uint64_t)seed;
		for (i = 0; i < 100; i++) /* what is there at first */
			random_op();
		r = record_start(&b);
		for (i = 0; i < 400; i++)
			random_op();
		record_stop(r);
		if (record_problem(r))
			fail_msg("%s", record_problem(r));
		ok(crash_replay(r, m));
		memory_open(m, &mem);
		assert_true(assert_same_tree(&b, &mem, "") > 5);
		backing_close(&mem);
		memory_reset(m);
		record_free(r);
		r = NULL;
	}
	memory_destroy(m);
}

static int count_states(void *arg, const struct crash_state *s)
{
	(void)s;
	++*(size_t *)arg;
	return 0;
}

/* States of anything can be written and removed. */
static void random_programs_can_be_explored(void **state)
{
	struct crash_options options = {.seed = 7, .max_states = 300};
	size_t nr = 0;
	int i, err;

	(void)state;
	rng = 99;
	r = record_start(&b);
	for (i = 0; i < 60; i++) {
		int dir = any_dir();

		random_op();
		if (!pick(4))
			ok(backing_sync(&b, dir, false));
		close(dir);
	}
	record_stop(r);
	err = crash_explore(r, &options, count_states, &nr, &report);
	if (err)
		fail_msg("%s", report.what);
	assert_int_equal(nr, report.checked);
	assert_true(nr > 100);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(what_bypasses_the_backing_is_noticed), T(two_nodes_share_a_log),
		T(threads_are_recorded_in_order),	 T(replaying_all_gives_what_is_there),
		T(random_programs_can_be_explored),
	};

	umask(0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
