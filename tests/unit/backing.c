/* SPDX-License-Identifier: MIT */
/* System calls on the backing: nothing leaves it, nothing hangs, nothing is cut short. */
#include "tests/unit/engine_stub.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/xattr.h>

#include "engine/base/cleanup.h"

static struct engine *en;
static struct backing *b;
static int top;

static int setup(void **state)
{
	(void)state;
	en = engine_stub();
	b = &en->backing;
	top = b->root_fd;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unsetenv("CKPTFS_FEATURES_OFF");
	engine_stub_free(en);
	return 0;
}

static void names_are_single_components(void **state)
{
	char longest[300];

	(void)state;
	assert_true(backing_name_ok("a"));
	assert_true(backing_name_ok("..."));
	assert_true(backing_name_ok(".hidden"));
	assert_true(backing_name_ok("a\nb\xff"));
	assert_false(backing_name_ok(""));
	assert_false(backing_name_ok("."));
	assert_false(backing_name_ok(".."));
	assert_false(backing_name_ok("a/b"));
	assert_false(backing_name_ok("/"));
	assert_false(backing_name_ok("a/"));
	memset(longest, 'x', sizeof(longest));
	longest[255] = '\0';
	assert_true(backing_name_ok(longest));
	longest[255] = 'x';
	longest[256] = '\0';
	assert_false(backing_name_ok(longest));
}

static void directories_open_or_say_why(void **state)
{
	struct backing other;
	char path[PATH_MAX], file[PATH_MAX + 8];
	struct error e;

	(void)state;
	assert_int_equal(backing_open(&other, "/no/such/dir", &e), -ENOENT);
	assert_contains(e.text, "mkdir -p /no/such/dir");
	backing_close(&other);
	snprintf(file, sizeof(file), "%s/f", scratch_dir(path));
	close(open(file, O_CREAT | O_WRONLY, 0644));
	assert_int_equal(backing_open(&other, file, &e), -ENOTDIR);
	assert_contains(e.text, "is not a directory");
	backing_close(&other);
	assert_int_equal(backing_open(&other, path, &e), 0);
	assert_string_equal(other.path, path);
	backing_close(&other);
	backing_close(&other); /* twice does no harm */
}

static void symlinks_are_not_followed(void **state)
{
	bool created;
	struct statx stx;
	int fd, i;

	(void)state;
	assert_int_equal(symlinkat("/etc/passwd", top, "out"), 0);
	assert_int_equal(symlinkat("dangling", top, "nowhere"), 0);
	for (i = 0; i < 2; i++) { /* with openat2 and without */
		if (i)
			b->features->state[FEATURE_OPENAT2] = FEATURE_TURNED_OFF;
		assert_int_equal(backing_create(b, top, "out", O_WRONLY, 0644, &created), -ELOOP);
		assert_int_equal(backing_create(b, top, "nowhere", O_WRONLY, 0644, &created),
				 -ELOOP);
		fd = backing_pin(b, top, "out");
		assert_true(fd >= 0);
		assert_int_equal(backing_stat(b, fd, &stx), 0);
		assert_true(S_ISLNK(stx.stx_mode));
		close(fd);
	}
	assert_int_equal(faccessat(top, "dangling", F_OK, AT_SYMLINK_NOFOLLOW), -1);
}

static void create_tells_whether_it_made_it(void **state)
{
	bool created;
	int fd = backing_create(b, top, "a", O_RDWR, 0640, &created), again;
	struct statx stx;

	(void)state;
	assert_true(fd >= 0 && created);
	assert_int_equal(backing_stat(b, fd, &stx), 0);
	assert_int_equal(stx.stx_mode, S_IFREG | 0640);
	assert_int_equal(backing_write(b, fd, "data", 4, 0, 0), 4);
	again = backing_create(b, top, "a", O_RDWR, 0600, &created);
	assert_true(again >= 0 && !created);
	assert_int_equal(backing_stat(b, again, &stx), 0);
	assert_int_equal(stx.stx_mode, S_IFREG | 0640);
	assert_int_equal(stx.stx_size, 4);
	close(again);
	again = backing_create(b, top, "a", O_RDWR | O_TRUNC, 0600, &created);
	assert_true(again >= 0 && !created);
	assert_int_equal(backing_stat(b, fd, &stx), 0);
	assert_int_equal(stx.stx_size, 0);
	close(again);
	assert_int_equal(backing_create(b, top, "a", O_RDWR | O_EXCL, 0600, &created), -EEXIST);
	assert_int_equal(backing_create(b, top, "no/such", O_RDWR, 0600, &created), -ENOENT);
	close(fd);
}

static void create_does_not_wait_for_a_fifo(void **state)
{
	bool created;

	(void)state;
	assert_int_equal(mkfifoat(top, "fifo", 0644), 0);
	assert_int_equal(backing_create(b, top, "fifo", O_WRONLY, 0644, &created), -ENXIO);
}

static atomic_bool stop;

static void *make_and_remove(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop)) {
		close(openat(top, "busy", O_CREAT | O_WRONLY, 0644));
		unlinkat(top, "busy", 0);
	}
	return NULL;
}

/* open(O_CREAT) never fails because somebody else makes and removes the same name. */
static void create_wins_every_race(void **state)
{
	pthread_t thread;
	int i, made = 0, found = 0;

	(void)state;
	atomic_store(&stop, false);
	assert_int_equal(pthread_create(&thread, NULL, make_and_remove, NULL), 0);
	for (i = 0; i < 20000; i++) {
		bool created;
		int fd = backing_create(b, top, "busy", O_WRONLY, 0644, &created);

		if (fd < 0)
			fail_msg("%s after %d", strerror(-fd), i);
		*(created ? &made : &found) += 1;
		close(fd);
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	assert_int_equal(made + found, 20000);
}

static void calls_reach_a_pinned_inode_whatever_its_name(void **state)
{
	struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 2000}};
	char buf[64];
	struct statx stx;
	int pin, fd;

	(void)state;
	make_file(top, "a", "data");
	pin = backing_pin(b, top, "a");
	assert_true(pin >= 0);
	assert_int_equal(backing_rename(b, top, "a", top, "b", 0), 0);
	make_file(top, "a", "decoy");
	assert_int_equal(backing_chmod(b, pin, 0604), 0);
	assert_int_equal(backing_utimens(b, pin, times), 0);
	assert_int_equal(backing_truncate(b, pin, 2), 0);
	assert_int_equal(backing_utimens(b, pin, times), 0);
	assert_int_equal(backing_link(b, pin, top, "c"), 0);
	assert_int_equal(backing_chown(b, pin, (uid_t)-1, (gid_t)-1), 0);
	assert_int_equal(backing_stat_at(b, top, "b", &stx), 0);
	assert_int_equal(stx.stx_mode, S_IFREG | 0604);
	assert_int_equal(stx.stx_size, 2);
	assert_int_equal(stx.stx_mtime.tv_sec, 2000);
	assert_int_equal(stx.stx_nlink, 2);
	fd = backing_reopen(b, pin, O_RDONLY);
	assert_true(fd >= 0);
	assert_int_equal(backing_read(b, fd, buf, sizeof(buf), 0), 2);
	close(fd);
	close(pin);
	assert_int_equal(backing_stat_at(b, top, "a", &stx), 0);
	assert_int_equal(stx.stx_size, 5);
}

static void reopening_makes_nothing(void **state)
{
	int pin, fd;

	(void)state;
	make_file(top, "a", "data");
	pin = backing_pin(b, top, "a");
	assert_int_equal(unlinkat(top, "a", 0), 0);
	fd = backing_reopen(b, pin, O_RDWR | O_CREAT | O_EXCL);
	assert_true(fd >= 0);
	assert_int_equal(faccessat(top, "a", F_OK, 0), -1);
	close(fd);
	close(pin);
}

/* Direct I/O is a hint: what the storage cannot do directly is done through its cache. */
static void misaligned_direct_io_works(void **state)
{
	static char big[8192] __attribute__((aligned(4096)));
	char buf[100];
	int pin, fd, i;

	(void)state;
	memset(big, 'x', sizeof(big));
	make_file(top, "a", "");
	pin = backing_pin(b, top, "a");
	for (i = 0; i < 3; i++) {
		b->features->state[FEATURE_ODIRECT] = i == 0   ? FEATURE_YES
						      : i == 1 ? FEATURE_NO
							       : FEATURE_TURNED_OFF;
		fd = backing_reopen(b, pin, O_RDWR | O_DIRECT);
		assert_true(fd >= 0);
		if (i)
			assert_int_equal(fcntl(fd, F_GETFL) & O_DIRECT, 0);
		assert_int_equal(backing_write(b, fd, big, sizeof(big), 0, 0), sizeof(big));
		assert_int_equal(backing_write(b, fd, "abc", 3, 5, 0), 3);
		assert_int_equal(backing_read(b, fd, buf + 1, 9, 3), 9);
		assert_memory_equal(buf + 1, "xxabcxxxx", 9);
		close(fd);
	}
	close(pin);
}

static void reads_end_at_the_end(void **state)
{
	char buf[100];
	int fd;

	(void)state;
	make_file(top, "a", "0123456789");
	fd = openat(top, "a", O_RDWR);
	assert_int_equal(backing_read(b, fd, buf, sizeof(buf), 0), 10);
	assert_int_equal(backing_read(b, fd, buf, 4, 8), 2);
	assert_int_equal(backing_read(b, fd, buf, 4, 10), 0);
	assert_int_equal(backing_read(b, fd, buf, 0, 0), 0);
	assert_int_equal(backing_read(b, fd, buf, 4, -1), -EINVAL);
	assert_int_equal(backing_write(b, fd, buf, 0, 0, 0), 0);
	assert_int_equal(backing_write(b, fd, "ab", 2, 0, RWF_APPEND), 2);
	assert_int_equal(backing_seek(b, fd, 0, SEEK_END), 12);
	close(fd);
	assert_int_equal(backing_write(b, fd, "ab", 2, 0, 0), -EBADF);
	assert_int_equal(backing_read(b, fd, buf, 2, 0), -EBADF);
}

/* After a part, the part counts: the limit on file sizes stands in for a full backing. */
static void writes_report_the_part_that_was_done(void **state)
{
	static char big[100000];
	struct rlimit before, limit;
	int fd = openat(top, "a", O_CREAT | O_RDWR, 0644);

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = (struct rlimit){70000, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(backing_write(b, fd, big, sizeof(big), 0, 0), 70000);
	assert_int_equal(backing_write(b, fd, big, sizeof(big), 70000, 0), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(backing_write(b, fd, big, sizeof(big), 0, 0), sizeof(big));
	assert_int_equal(backing_ftruncate(b, fd, 10), 0);
	assert_int_equal(backing_ftruncate(b, fd, -1), -EINVAL);
	assert_int_equal(backing_sync(b, fd, true), 0);
	assert_int_equal(backing_sync(b, fd, false), 0);
	assert_int_equal(backing_write_back(b, fd), 0);
	close(fd);
	fd = open("/dev/full", O_WRONLY);
	assert_int_equal(backing_write(b, fd, big, sizeof(big), 0, 0), -ENOSPC);
	close(fd);
}

static void ranges_are_copied(void **state)
{
	char buf[10] = "";
	int in, out;
	ssize_t n;

	(void)state;
	make_file(top, "in", "0123456789");
	make_file(top, "out", "ab");
	in = openat(top, "in", O_RDWR);
	out = openat(top, "out", O_RDWR);
	n = backing_copy_range(b, in, 2, out, 1, 5, 0);
	if (n == -EXDEV || n == -EOPNOTSUPP || n == -ENOSYS)
		skip();
	assert_int_equal(n, 5);
	assert_int_equal(backing_read(b, out, buf, 10, 0), 6);
	assert_memory_equal(buf, "a23456", 6);
	assert_int_equal(backing_copy_range(b, in, 100, out, 0, 5, 0), 0);
	assert_int_equal(backing_copy_range(b, in, 0, in, 1, 5, 0), -EINVAL);
	close(in);
	close(out);
}

static void what_is_turned_off_is_refused(void **state)
{
	char buf[16];
	int pin;

	(void)state;
	make_file(top, "a", "");
	make_file(top, "b", "");
	pin = backing_pin(b, top, "a");
	if (feature(b->features, FEATURE_XATTR)) {
		assert_int_equal(backing_setxattr(b, pin, "user.x", "v", 1, 0), 0);
		assert_int_equal(backing_setxattr(b, pin, "user.x", "v", 1, XATTR_CREATE), -EEXIST);
		assert_int_equal(backing_getxattr(b, pin, "user.x", buf, sizeof(buf)), 1);
		assert_int_equal(backing_getxattr(b, pin, "user.y", buf, sizeof(buf)), -ENODATA);
		assert_true(backing_listxattr(b, pin, NULL, 0) >= 7);
		assert_int_equal(backing_removexattr(b, pin, "user.x"), 0);
	}
	b->features->state[FEATURE_XATTR] = FEATURE_TURNED_OFF;
	assert_int_equal(backing_setxattr(b, pin, "user.x", "v", 1, 0), -EOPNOTSUPP);
	assert_int_equal(backing_getxattr(b, pin, "user.x", buf, 1), -EOPNOTSUPP);
	assert_int_equal(backing_listxattr(b, pin, NULL, 0), -EOPNOTSUPP);
	assert_int_equal(backing_removexattr(b, pin, "user.x"), -EOPNOTSUPP);
	b->features->state[FEATURE_RENAME_FLAGS] = FEATURE_TURNED_OFF;
	assert_int_equal(backing_rename(b, top, "a", top, "b", RENAME_NOREPLACE), -EINVAL);
	assert_int_equal(backing_rename(b, top, "a", top, "b", 0), 0);
	close(pin);
}

static void links_and_directories(void **state)
{
	char target[PATH_MAX];
	struct statvfs sv;
	int pin, fd;

	(void)state;
	assert_int_equal(backing_symlink(b, "to/where", top, "l"), 0);
	pin = backing_pin(b, top, "l");
	assert_int_equal(backing_readlink(b, pin, target, sizeof(target)), 8);
	close(pin);
	assert_int_equal(backing_mkdir(b, top, "d", 0755), 0);
	assert_int_equal(backing_mkdir(b, top, "d", 0755), -EEXIST);
	assert_int_equal(backing_unlink(b, top, "d", false), -EISDIR);
	assert_int_equal(backing_unlink(b, top, "l", true), -ENOTDIR);
	pin = backing_pin(b, top, "d");
	fd = backing_reopen(b, pin, O_RDONLY | O_DIRECTORY);
	assert_true(backing_getdents(b, fd, target, sizeof(target)) > 0);
	assert_int_equal(backing_getdents(b, fd, target, sizeof(target)), 0);
	assert_int_equal(backing_statfs(b, pin, &sv), 0);
	close(fd);
	assert_int_equal(backing_reopen(b, pin, O_WRONLY), -EISDIR);
	close(pin);
	assert_int_equal(backing_unlink(b, top, "d", true), 0);
	assert_int_equal(backing_unlink(b, top, "d", true), -ENOENT);
	assert_int_equal(backing_mknod(b, top, "p", S_IFIFO | 0600, 0), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(names_are_single_components),
		T(directories_open_or_say_why),
		T(symlinks_are_not_followed),
		T(create_tells_whether_it_made_it),
		T(create_does_not_wait_for_a_fifo),
		T(create_wins_every_race),
		T(calls_reach_a_pinned_inode_whatever_its_name),
		T(reopening_makes_nothing),
		T(misaligned_direct_io_works),
		T(reads_end_at_the_end),
		T(writes_report_the_part_that_was_done),
		T(ranges_are_copied),
		T(what_is_turned_off_is_refused),
		T(links_and_directories),
	};

	umask(0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
