/* SPDX-License-Identifier: MIT */
/* The backing that fails, is full, hangs or is slow does so as told, and otherwise is a backing. */
#include "tests/unit/unit.h"

#include <linux/falloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "engine/base/cleanup.h"
#include "tests/backing/faults.h"
#include "tests/backing/record.h"

static struct backing b;
static struct faults *f;
static int top;

static int setup(void **state)
{
	char path[PATH_MAX];
	struct error e;

	(void)state;
	assert_int_equal(backing_open(&b, scratch_dir(path), &e), 0);
	features_probe(b.features, b.root_fd, true);
	top = b.root_fd;
	f = faults_attach(&b);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	faults_detach(f);
	assert_ptr_equal(b.ops, &backing_real_ops);
	assert_ptr_equal(b.ops_arg, &b);
	backing_close(&b);
	return 0;
}

static int make(const char *name)
{
	bool created;
	int fd = backing_create(&b, top, name, O_RDWR, 0644, &created);

	assert_true(fd >= 0);
	return fd;
}

static ssize_t put(int fd, const char *text)
{
	return backing_write(&b, fd, text, strlen(text), 0, 0);
}

/* --- failing --- */

/* Calls that find a name or make one, and statfs. */
static long call_on_names(int nr, int pin)
{
	char buf[4096];
	struct statx stx;
	struct statvfs sv;
	bool created;
	int r;

	switch (nr) {
	case 0:
		r = backing_pin(&b, top, "f");
		break;
	case 1:
		r = backing_create(&b, top, "new", O_WRONLY | O_EXCL, 0644, &created);
		break;
	case 2:
		r = backing_reopen(&b, pin, O_RDONLY);
		break;
	case 3:
		return backing_mkdir(&b, top, "newdir", 0755);
	case 4:
		return backing_mknod(&b, top, "fifo", S_IFIFO | 0644, 0);
	case 5:
		return backing_symlink(&b, "to", top, "newlink");
	case 6:
		return backing_link(&b, pin, top, "linked");
	case 7:
		return backing_unlink(&b, top, "linked", false);
	case 8:
		return backing_rename(&b, top, "new", top, "renamed", 0);
	case 9:
		return backing_stat_at(&b, top, "f", &stx);
	case 10:
		return backing_statfs(&b, pin, &sv);
	default:
		r = backing_pin(&b, top, "l"); /* counted as CALL_PIN */
		assert_true(r >= 0 || r == -EIO);
		if (r < 0)
			return r;
		nr = backing_readlink(&b, r, buf, sizeof(buf));
		close(r);
		return nr;
	}
	if (r >= 0)
		close(r);
	return r;
}

/* Calls on what is found or open. */
static long call_on_files(int nr, int fd, int pin, int dir)
{
	const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 2}};
	char buf[4096];

	switch (nr) {
	case 12:
		return backing_chmod(&b, pin, 0600);
	case 13:
		return backing_chown(&b, pin, (uid_t)-1, (gid_t)-1);
	case 14:
		return backing_utimens(&b, pin, times);
	case 15:
		return backing_truncate(&b, pin, 10);
	case 16:
		return backing_getxattr(&b, pin, "user.x", buf, sizeof(buf));
	case 17:
		return backing_listxattr(&b, pin, buf, sizeof(buf));
	case 18:
		return backing_setxattr(&b, pin, "user.x", "y", 1, 0);
	case 19:
		return backing_removexattr(&b, pin, "user.x");
	case 20:
		return backing_read(&b, fd, buf, 4, 0);
	case 21:
		return backing_write(&b, fd, "data", 4, 0, 0);
	case 22:
		return backing_fallocate(&b, fd, 0, 0, 100);
	case 23:
		return backing_sync(&b, fd, false);
	case 24:
		return backing_sync(&b, dir, false);
	case 25:
		return backing_sync_fs(&b, dir);
	case 26:
		return backing_write_back(&b, fd);
	case 27:
		return backing_seek(&b, fd, 0, SEEK_END);
	case 28:
		return backing_copy_range(&b, fd, 0, fd, 50, 4, 0);
	default:
		return backing_getdents(&b, dir, buf, sizeof(buf));
	}
}

/* Makes every call once, and gives back what number @nr answered. */
static long make_call(int nr, int fd, int pin, int dir)
{
	return nr < 12 ? call_on_names(nr, pin) : call_on_files(nr, fd, pin, dir);
}

enum { NR_CALLS = 30 };

static void every_call_is_counted_and_can_fail(void **state)
{
	int fd = make("f"), pin, dir, i;

	(void)state;
	assert_int_equal(backing_symlink(&b, "to", top, "l"), 0);
	pin = backing_pin(&b, top, "f");
	dir = backing_reopen(&b, top, O_RDONLY | O_DIRECTORY);
	assert_int_equal(put(fd, "0123456789"), 10);
	for (i = 0; i < NR_CALLS; i++) {
		unsigned call = 1u << i;
		int fault = faults_add(f, &(struct fault){.calls = call, .times = 1, .err = EIO});
		uint64_t before = faults_count(f, call), any = faults_count(f, CALL_ANY);

		assert_int_equal(make_call(i, fd, pin, dir), -EIO);
		assert_int_equal(faults_count(f, call), before + 1);
		assert_int_equal(faults_count(f, CALL_ANY), any + 1 + (i == 11));
		assert_int_equal(faults_hits(f, fault), 1);
	}
	for (i = 0; i < NR_CALLS; i++) {
		long r = make_call(i, fd, pin, dir);

		if (r < 0 && r != -EOPNOTSUPP && r != -ENODATA && r != -EXDEV)
			fail_msg("call %d: %s", i, strerror((int)-r));
	}
	assert_int_equal(CALL_LOOKS & CALL_CHANGES, 0);
	assert_int_equal(CALL_LOOKS | CALL_CHANGES | CALL_ANY_SYNC | CALL_WRITE_BACK, CALL_ANY);
	close(dir);
	close(pin);
	close(fd);
}

static void some_fail_and_others_pass(void **state)
{
	int fd = make("f"), fault, i;

	(void)state;
	fault = faults_add(
		f, &(struct fault){.calls = CALL_WRITE, .skip = 2, .times = 3, .err = ENOSPC});
	for (i = 0; i < 8; i++)
		assert_int_equal(put(fd, "x"), i >= 2 && i < 5 ? -ENOSPC : 1);
	assert_int_equal(faults_hits(f, fault), 3);
	faults_add(f, &(struct fault){.calls = CALL_ANY_SYNC, .err = EDQUOT});
	for (i = 0; i < 3; i++) {
		assert_int_equal(backing_sync(&b, fd, i), -EDQUOT);
		assert_int_equal(backing_sync_fs(&b, fd), -EDQUOT);
		assert_int_equal(put(fd, "x"), 1);
	}
	faults_clear(f);
	assert_int_equal(backing_sync(&b, fd, false), 0);
	close(fd);
}

static void failing_can_be_by_name(void **state)
{
	int fd;

	(void)state;
	close(make("a"));
	close(make("b"));
	faults_add(f,
		   &(struct fault){.calls = CALL_RENAME | CALL_UNLINK, .name = "a", .err = EPERM});
	assert_int_equal(backing_unlink(&b, top, "a", false), -EPERM);
	assert_int_equal(backing_rename(&b, top, "a", top, "c", 0), -EPERM);
	assert_int_equal(backing_rename(&b, top, "b", top, "a", 0), -EPERM);
	assert_int_equal(backing_rename(&b, top, "b", top, "c", 0), 0);
	assert_int_equal(backing_unlink(&b, top, "c", false), 0);
	fd = make("a");
	assert_int_equal(put(fd, "x"), 1);
	close(fd);
}

/* As when a server's answer is lost: the caller must look what became of it. */
static void what_failed_may_have_been_done(void **state)
{
	int fds = count_fds(), fd;
	bool created;

	(void)state;
	close(make("a"));
	faults_add(f, &(struct fault){.calls = CALL_RENAME | CALL_CREATE | CALL_WRITE,
				      .err = EIO,
				      .done = true});
	assert_int_equal(backing_rename(&b, top, "a", top, "c", 0), -EIO);
	assert_int_equal(faccessat(top, "a", F_OK, 0), -1);
	assert_int_equal(faccessat(top, "c", F_OK, 0), 0);
	assert_int_equal(backing_rename(&b, top, "a", top, "c", 0), -ENOENT);
	assert_int_equal(backing_create(&b, top, "new", O_RDWR | O_EXCL, 0644, &created), -EIO);
	assert_int_equal(faccessat(top, "new", F_OK, 0), 0);
	fd = openat(top, "new", O_RDWR);
	assert_int_equal(put(fd, "data"), -EIO);
	assert_int_equal(lseek(fd, 0, SEEK_END), 4);
	close(fd);
	assert_int_equal(count_fds(), fds);
}

static int save(void)
{
	bool created;
	int fd = backing_create(&b, top, "tmp", O_RDWR | O_TRUNC, 0644, &created), err;
	ssize_t n;

	if (fd < 0)
		return fd;
	n = put(fd, "new");
	err = n < 0 ? (int)n : backing_sync(&b, fd, false);
	close(fd);
	if (!err)
		err = backing_rename(&b, top, "tmp", top, "ckpt", 0);
	if (!err)
		err = backing_sync(&b, top, false);
	return err;
}

static void each_call_of_a_program_can_fail_in_turn(void **state)
{
	uint64_t before = faults_count(f, CALL_ANY), nr, i;

	(void)state;
	assert_int_equal(save(), 0);
	nr = faults_count(f, CALL_ANY) - before;
	assert_int_equal(nr, 5);
	for (i = 0; i < nr; i++) {
		faults_clear(f);
		faults_add(f,
			   &(struct fault){
				   .calls = CALL_ANY, .skip = (unsigned)i, .times = 1, .err = EIO});
		assert_int_equal(save(), -EIO);
	}
	faults_clear(f);
	assert_int_equal(save(), 0);
}

static void failing_can_be_of_one_file(void **state)
{
	int fd = make("f"), other = make("g"), pin = backing_pin(&b, top, "f");
	struct stat st;

	(void)state;
	assert_int_equal(fstat(fd, &st), 0);
	faults_only(f, st.st_ino);
	faults_add(f, &(struct fault){.calls = CALL_ANY, .err = EIO});
	assert_int_equal(put(fd, "x"), -EIO);
	assert_int_equal(backing_sync(&b, fd, false), -EIO);
	assert_int_equal(backing_chmod(&b, pin, 0600), -EIO);
	assert_int_equal(put(other, "x"), 1);
	assert_int_equal(backing_unlink(&b, top, "f", false), 0);
	faults_only(f, 0);
	assert_int_equal(put(other, "x"), -EIO);
	close(pin);
	close(fd);
	close(other);
}

/* --- short and full --- */

static void a_call_may_do_nothing(void **state)
{
	char buf[4];
	int fd = make("f"), out = make("g");

	(void)state;
	assert_int_equal(put(fd, "data"), 4);
	faults_add(f, &(struct fault){.calls = CALL_READ | CALL_WRITE | CALL_COPY_RANGE,
				      .times = 3,
				      .nothing = true});
	assert_int_equal(b.ops->write(b.ops_arg, fd, "else", 4, 0, 0), 0);
	assert_int_equal(b.ops->read(b.ops_arg, fd, buf, 4, 0), 0);
	assert_int_equal(b.ops->copy_range(b.ops_arg, fd, 0, out, 0, 4, 0), 0);
	assert_int_equal(b.ops->read(b.ops_arg, fd, buf, 4, 0), 4);
	assert_memory_equal(buf, "data", 4);
	close(fd);
	close(out);
}

static void short_calls_are_continued(void **state)
{
	char data[100], back[100];
	int fd = make("f"), i;

	(void)state;
	for (i = 0; i < 100; i++)
		data[i] = (char)i;
	faults_short(f, CALL_READ | CALL_WRITE, 7);
	assert_int_equal(backing_write(&b, fd, data, 100, 0, 0), 100);
	assert_int_equal(faults_count(f, CALL_WRITE), 15);
	assert_int_equal(backing_read(&b, fd, back, 100, 0), 100);
	assert_int_equal(faults_count(f, CALL_READ), 15);
	assert_memory_equal(data, back, 100);
	faults_short(f, 0, 0);
	assert_int_equal(backing_read(&b, fd, back, 100, 0), 100);
	assert_int_equal(faults_count(f, CALL_READ), 16);
	/* After a part, the part counts. */
	faults_short(f, CALL_WRITE, 30);
	faults_add(f, &(struct fault){.calls = CALL_WRITE, .skip = 2, .times = 1, .err = EIO});
	assert_int_equal(backing_write(&b, fd, data, 100, 0, 0), 60);
	close(fd);
}

static off_t size_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_size;
}

static void a_full_disk_takes_a_part(void **state)
{
	static char data[10000];
	struct statvfs sv;
	int fd = make("f"), other = make("g");

	(void)state;
	assert_int_equal(backing_write(&b, fd, data, 10000, 0, 0), 10000);
	faults_disk(f, 5000, ENOSPC);
	assert_int_equal(backing_write(&b, fd, data, 10000, 0, 0), 10000); /* it has that */
	assert_int_equal(backing_write(&b, fd, data, 4000, 8000, 0), 4000);
	assert_int_equal(backing_write(&b, fd, data, 1000, 0, RWF_APPEND), 1000);
	assert_int_equal(backing_statfs(&b, top, &sv), 0);
	assert_int_equal(sv.f_bavail, 2000 / sv.f_frsize);
	assert_int_equal(backing_fallocate(&b, other, 0, 0, 2001), -ENOSPC);
	assert_int_equal(backing_fallocate(&b, other, FALLOC_FL_KEEP_SIZE, 0, 500), 0);
	assert_int_equal(backing_write(&b, other, data, 10000, 0, 0), 1500);
	assert_int_equal(backing_write(&b, other, data, 10000, 1500, 0), -ENOSPC);
	assert_int_equal(backing_write(&b, fd, data, 1, 0, RWF_APPEND), -ENOSPC);
	assert_int_equal(size_of(fd), 13000);
	faults_disk(f, 10, EDQUOT);
	assert_int_equal(backing_write(&b, fd, data, 20, 0, RWF_APPEND), 10);
	assert_int_equal(backing_write(&b, fd, data, 20, 0, RWF_APPEND), -EDQUOT);
	faults_disk(f, -1, 0);
	assert_int_equal(backing_write(&b, fd, data, 20, 0, RWF_APPEND), 20);
	close(fd);
	close(other);
}

/* What a call that failed did not use is there for the next. */
static void room_is_given_back(void **state)
{
	static char data[5000];
	int fd = make("f"), rd;

	(void)state;
	faults_disk(f, 5000, ENOSPC);
	rd = openat(top, "f", O_RDONLY);
	assert_int_equal(backing_write(&b, rd, data, 5000, 0, 0), -EBADF);
	assert_int_equal(backing_write(&b, fd, data, 5000, 0, 0), 5000);
	assert_int_equal(backing_write(&b, fd, data, 1, 5000, 0), -ENOSPC);
	close(rd);
	close(fd);
}

/* --- frozen and slow --- */

struct load {
	pthread_t thread;
	int fd;
	ssize_t result;
	atomic_bool done;
};

static void *call_write(void *arg)
{
	struct load *c = arg;

	c->result = put(c->fd, "data");
	atomic_store(&c->done, true);
	return NULL;
}

static void start(struct load *c, int fd)
{
	c->fd = fd;
	atomic_store(&c->done, false);
	assert_int_equal(pthread_create(&c->thread, NULL, call_write, c), 0);
}

static void frozen_calls_wait_until_let_go(void **state)
{
	struct load callers[3];
	int fd = make("f"), i;
	char buf[10];

	(void)state;
	faults_freeze(f, CALL_WRITE | CALL_SYNC);
	for (i = 0; i < 3; i++)
		start(&callers[i], fd);
	faults_wait_frozen(f, 3);
	assert_int_equal(faults_frozen(f), 3);
	for (i = 0; i < 3; i++)
		assert_false(atomic_load(&callers[i].done));
	assert_int_equal(size_of(fd), 0);
	assert_int_equal(backing_read(&b, fd, buf, 10, 0), 0); /* others pass */
	/* What is let go fails, if that was arranged meanwhile. */
	faults_add(f, &(struct fault){.calls = CALL_WRITE, .times = 3, .err = EIO});
	faults_thaw(f);
	for (i = 0; i < 3; i++) {
		pthread_join(callers[i].thread, NULL);
		assert_int_equal(callers[i].result, -EIO);
	}
	assert_int_equal(faults_frozen(f), 0);
	assert_int_equal(put(fd, "data"), 4);
	close(fd);
}

static void freezing_again_does_not_hold_those_let_go(void **state)
{
	struct load one, two;
	int fd = make("f");

	(void)state;
	faults_freeze(f, CALL_WRITE);
	start(&one, fd);
	faults_wait_frozen(f, 1);
	faults_thaw(f);
	faults_freeze(f, CALL_WRITE);
	pthread_join(one.thread, NULL);
	assert_int_equal(one.result, 4);
	start(&two, fd);
	faults_wait_frozen(f, 1);
	assert_false(atomic_load(&two.done));
	faults_clear(f);
	pthread_join(two.thread, NULL);
	assert_int_equal(two.result, 4);
	close(fd);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void slow_calls_take_their_time(void **state)
{
	static char data[1000];
	int fd = make("f");
	uint64_t begin = now_ns();

	(void)state;
	faults_slow(f, CALL_SYNC, 3000000, 0);
	assert_int_equal(backing_sync(&b, fd, false), 0);
	assert_true(now_ns() - begin >= 3000000);
	/* One wire: two writes of 1000 bytes take twice as long as one. */
	begin = now_ns();
	faults_slow(f, CALL_WRITE, 0, 3000);
	assert_int_equal(backing_write(&b, fd, data, 1000, 0, 0), 1000);
	assert_int_equal(backing_write(&b, fd, data, 1000, 0, 0), 1000);
	assert_true(now_ns() - begin >= 6000000);
	close(fd);
}

static void slow_calls_can_be_let_go(void **state)
{
	struct load one;
	int fd = make("f");

	(void)state;
	faults_slow(f, CALL_WRITE, 3600000000000u, 1000000000u);
	start(&one, fd);
	faults_wait_count(f, CALL_WRITE, 1);
	assert_false(atomic_load(&one.done));
	faults_slow(f, 0, 0, 0);
	pthread_join(one.thread, NULL);
	assert_int_equal(one.result, 4);
	close(fd);
}

/* --- all at once --- */

static atomic_bool stop;

static void *use(void *arg)
{
	int fd = *(int *)arg;
	char buf[100];

	while (!atomic_load(&stop)) {
		ssize_t n = put(fd, "0123456789");

		assert_true(n == -EIO || n == -ENOSPC || (n > 0 && n <= 10));
		n = backing_read(&b, fd, buf, sizeof(buf), 0);
		assert_true(n >= 0 && n <= 10);
		n = backing_sync(&b, fd, true);
		assert_true(!n || n == -EIO);
	}
	return NULL;
}

static void it_can_be_told_while_in_use(void **state)
{
	pthread_t threads[3];
	int fds[3], i;
	uint64_t rng = 1;

	(void)state;
	atomic_store(&stop, false);
	for (i = 0; i < 3; i++) {
		char name[2] = {(char)('a' + i), '\0'};

		fds[i] = make(name);
		assert_int_equal(pthread_create(&threads[i], NULL, use, &fds[i]), 0);
	}
	for (i = 0; i < 400; i++) {
		switch (next_random(&rng) % 7) {
		case 0:
			faults_add(f, &(struct fault){.calls = CALL_WRITE | CALL_SYNC,
						      .times = 5,
						      .err = EIO,
						      .done = i % 2});
			break;
		case 1:
			faults_freeze(f, CALL_READ);
			faults_wait_frozen(f, 2);
			faults_thaw(f);
			break;
		case 2:
			faults_slow(f, CALL_ANY, 10000, 10);
			break;
		case 3:
			faults_disk(f, (int64_t)(next_random(&rng) % 20), ENOSPC);
			break;
		case 4:
			faults_short(f, CALL_READ | CALL_WRITE, 1 + next_random(&rng) % 10);
			break;
		case 5:
			faults_wait_count(f, CALL_READ, faults_count(f, CALL_READ) + 2);
			break;
		default:
			faults_clear(f);
		}
	}
	faults_clear(f);
	atomic_store(&stop, true);
	for (i = 0; i < 3; i++) {
		pthread_join(threads[i], NULL);
		close(fds[i]);
	}
}

/* A layer on the recorder: only what really happened is in the log. */
static void what_failed_is_not_recorded(void **state)
{
	struct faults *upper;
	struct record *r;
	size_t i, bytes = 0;
	int fd = make("f");

	(void)state;
	r = record_start(&b);
	upper = faults_attach(&b);
	faults_add(upper, &(struct fault){.calls = CALL_ANY_SYNC, .times = 1, .err = EIO});
	faults_disk(upper, 6, ENOSPC);
	assert_int_equal(put(fd, "0123456789"), 6);
	assert_int_equal(backing_sync(&b, fd, false), -EIO);
	faults_detach(upper);
	record_stop(r);
	assert_null(record_problem(r));
	for (i = r->nr_initial; i < r->nr_ops; i++) {
		assert_int_equal(r->ops[i].kind, RECORD_WRITE);
		bytes += r->ops[i].len;
	}
	assert_int_equal(bytes, 6);
	record_free(r);
	close(fd);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(every_call_is_counted_and_can_fail),
		T(some_fail_and_others_pass),
		T(failing_can_be_by_name),
		T(failing_can_be_of_one_file),
		T(what_failed_may_have_been_done),
		T(each_call_of_a_program_can_fail_in_turn),
		T(a_call_may_do_nothing),
		T(short_calls_are_continued),
		T(a_full_disk_takes_a_part),
		T(room_is_given_back),
		T(frozen_calls_wait_until_let_go),
		T(freezing_again_does_not_hold_those_let_go),
		T(slow_calls_take_their_time),
		T(slow_calls_can_be_let_go),
		T(it_can_be_told_while_in_use),
		T(what_failed_is_not_recorded),
	};

	umask(0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
