/* SPDX-License-Identifier: MIT */
/* timeout: 180 */
/* Asynchronous writes, every case by io_uring and by the pool of threads. */
#include "tests/unit/unit.h"

#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/flush/io.h"

#define DEPTH 8

static struct backing back;
static struct io *io;
static int top = -1;	/* scratch directory */
static int frozen = -1; /* a filesystem that must not stay so */

/* --- writes, and waiting for them --- */

struct req {
	struct io_write w;
	ssize_t result; /* lock: lock */
	unsigned calls; /* lock: lock; of done() */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;

static void note(struct io_write *w, ssize_t result)
{
	struct req *r = container_of(w, struct req, w);
	MUTEX_SCOPE(&lock);

	/* As the daemon again. (The call fails, and returns who it is.) */
	if (setfsuid((uid_t)-1) != (int)geteuid() || setfsgid((gid_t)-1) != (int)getegid())
		abort();
	r->result = result;
	r->calls++;
	pthread_cond_broadcast(&ended);
}

static void start(struct req *r, int fd, const void *buf, size_t len, uint64_t off)
{
	*r = (struct req){.w = {.fd = fd, .buf = buf, .len = len, .off = off, .done = note}};
	io_submit(io, &r->w);
}

static ssize_t result_of(struct req *r)
{
	MUTEX_SCOPE(&lock);

	while (!r->calls)
		pthread_cond_wait(&ended, &lock);
	return r->result;
}

static ssize_t write_now(int fd, const void *buf, size_t len, uint64_t off)
{
	struct req r;

	start(&r, fd, buf, len, off);
	return result_of(&r);
}

static bool has_ended(struct req *r)
{
	MUTEX_SCOPE(&lock);

	return r->calls;
}

static int new_file(const char *name, int flags)
{
	int fd = openat(top, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | flags, 0644);

	assert_true(fd >= 0);
	return fd;
}

static void *pattern(size_t size, uint64_t seed)
{
	uint64_t *p = aligned_alloc(4096, (size + 4095) & ~4095ul);
	size_t i;

	assert_non_null(p);
	seed = seed * 2 + 1;
	for (i = 0; i < size / 8; i++)
		p[i] = next_random(&seed);
	return p;
}

static void assert_holds(int fd, const void *data, size_t size)
{
	__cleanup_free char *got = malloc(size + 1);

	assert_non_null(got);
	assert_int_equal(fcntl(fd, F_SETFL, 0), 0); /* no O_DIRECT */
	assert_int_equal(pread(fd, got, size + 1, 0), size);
	assert_true(!memcmp(got, data, size));
}

/* --- engines --- */

static bool uring_works(void)
{
	static int works = -1;
	struct io *try;

	if (works < 0) {
		works = !io_uring_ops.create(&try, &back, DEPTH);
		if (works)
			io_destroy(try);
	}
	return works;
}

static void open_backing(void)
{
	char path[PATH_MAX];
	struct error e;

	if (backing_open(&back, scratch_dir(path), &e))
		fail_msg("%s", e.text);
	top = back.root_fd;
}

static void create_io(const struct io_ops *ops, unsigned depth)
{
	struct error e;

	if (io_create(&io, &back, depth, ops == &io_uring_ops, &e))
		fail_msg("%s", e.text);
	assert_string_equal(io_name(io), ops->name);
}

static int setup(void **state)
{
	open_backing();
	if (*state != &io_uring_ops || uring_works())
		create_io(*state, DEPTH);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (frozen >= 0)
		ioctl(frozen, FITHAW, 0);
	io_destroy(take_ptr(io));
	backing_close(&back);
	return 0;
}

/* The host may forbid one of the engines. */
#define NEEDS_ENGINE() \
	do { \
		if (!io) \
			skip(); \
	} while (0)

static unsigned nr_threads(void)
{
	DIR *d = opendir("/proc/self/task");
	unsigned nr = 0;
	struct dirent *entry;

	assert_non_null(d);
	while ((entry = readdir(d)))
		nr += entry->d_name[0] != '.';
	closedir(d);
	return nr;
}

/* --- content --- */

static void many_writes_to_one_file(void **state)
{
	enum { NR = 1000, SIZE = 3000 };
	static struct req reqs[NR];
	__cleanup_free char *data = pattern(NR * SIZE, 1);
	unsigned order[NR], i;
	uint64_t seed = 5;
	int fd;

	(void)state;
	NEEDS_ENGINE();
	fd = new_file("a", 0);
	for (i = 0; i < NR; i++) {
		unsigned j = (unsigned)(next_random(&seed) % (i + 1));

		order[i] = order[j];
		order[j] = i;
	}
	for (i = 0; i < NR; i++) /* far more than DEPTH */
		start(&reqs[i], fd, data + order[i] * SIZE, SIZE, order[i] * SIZE);
	for (i = 0; i < NR; i++)
		assert_int_equal(result_of(&reqs[i]), SIZE);
	assert_holds(fd, data, NR * SIZE);
	close(fd);
	io_destroy(take_ptr(io));
	for (i = 0; i < NR; i++)
		assert_int_equal(reqs[i].calls, 1);
}

static void many_files(void **state)
{
	enum { NR = 50, SIZE = 1 << 17, PIECE = 1 << 13, PIECES = SIZE / PIECE };
	static struct req reqs[NR][PIECES];
	char *data[NR], name[16];
	int fds[NR], i, j;

	(void)state;
	NEEDS_ENGINE();
	for (i = 0; i < NR; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		data[i] = pattern(SIZE, (uint64_t)i);
		fds[i] = new_file(name, i % 2 ? O_DIRECT : 0);
	}
	for (j = 0; j < PIECES; j++)
		for (i = 0; i < NR; i++)
			start(&reqs[i][j], fds[i], data[i] + j * PIECE, PIECE,
			      (uint64_t)(j * PIECE));
	for (i = 0; i < NR; i++) {
		for (j = 0; j < PIECES; j++)
			assert_int_equal(result_of(&reqs[i][j]), PIECE);
		assert_holds(fds[i], data[i], SIZE);
		close(fds[i]);
		free(data[i]);
	}
}

static void beyond_4_gib(void **state)
{
	const uint64_t far = (5ull << 30) + 77;
	char got[4];
	int fd;

	(void)state;
	NEEDS_ENGINE();
	fd = new_file("a", 0);
	assert_int_equal(write_now(fd, "data", 4, far), 4);
	assert_int_equal(pread(fd, got, 4, (off_t)far), 4);
	assert_memory_equal(got, "data", 4);
	close(fd);
}

struct writer {
	pthread_t thread;
	int fd;
	char *data;
	uint64_t first;
};

enum { WRITES = 300, WRITE_SIZE = 512 };

static void *writer_main(void *arg)
{
	struct writer *me = arg;
	struct req *reqs = calloc(WRITES, sizeof(*reqs));
	uint64_t i, off;

	for (i = 0; i < WRITES; i++) {
		off = (me->first + i) * WRITE_SIZE;
		start(&reqs[i], me->fd, me->data + off, WRITE_SIZE, off);
		if (i % 16 == 15) /* else it is all one queue */
			result_of(&reqs[i]);
	}
	for (i = 0; i < WRITES; i++)
		if (result_of(&reqs[i]) != WRITE_SIZE)
			abort();
	free(reqs);
	return NULL;
}

static void many_threads_submit(void **state)
{
	enum { NR = 6, SIZE = NR * WRITES * WRITE_SIZE };
	struct writer writers[NR];
	__cleanup_free char *data = pattern(SIZE, 3);
	int fd, i;

	(void)state;
	NEEDS_ENGINE();
	fd = new_file("a", 0);
	for (i = 0; i < NR; i++) {
		writers[i] = (struct writer){.fd = fd, .data = data, .first = (uint64_t)i * WRITES};
		pthread_create(&writers[i].thread, NULL, writer_main, &writers[i]);
	}
	for (i = 0; i < NR; i++)
		pthread_join(writers[i].thread, NULL);
	assert_holds(fd, data, SIZE);
	close(fd);
}

static void *submit_and_end(void *arg)
{
	struct writer *me = arg;
	struct req *reqs = (struct req *)me->data;
	int i;

	for (i = 0; i < 20; i++)
		start(&reqs[i], me->fd, "data", 4, (uint64_t)i * 4);
	return NULL;
}

/* The kernel cancels what a thread has in its ring when the thread ends. */
static void writes_outlive_the_thread_that_submitted_them(void **state)
{
	static struct req reqs[20];
	struct writer writer = {.data = (char *)reqs};
	int round, i;

	(void)state;
	NEEDS_ENGINE();
	writer.fd = new_file("a", 0);
	for (round = 0; round < 50; round++) {
		memset(reqs, 0, sizeof(reqs));
		pthread_create(&writer.thread, NULL, submit_and_end, &writer);
		pthread_join(writer.thread, NULL);
		for (i = 0; i < 20; i++)
			assert_int_equal(result_of(&reqs[i]), 4);
	}
	close(writer.fd);
}

/* --- results --- */

static void errors_are_of_each_write(void **state)
{
	enum { NR = 40 };
	struct req good[NR], bad[NR], full[NR], closed[NR];
	int fd, read_only, no_room, i;

	(void)state;
	NEEDS_ENGINE();
	fd = new_file("a", 0);
	read_only = openat(top, "a", O_RDONLY);
	no_room = open("/dev/full", O_WRONLY);
	assert_true(read_only >= 0 && no_room >= 0);
	for (i = 0; i < NR; i++) { /* the ones do not stop the others */
		start(&bad[i], read_only, "x", 1, 0);
		start(&good[i], fd, "data", 4, (uint64_t)i * 4);
		start(&full[i], no_room, "x", 1, 0);
		start(&closed[i], 9999, "x", 1, 0);
	}
	for (i = 0; i < NR; i++) {
		assert_int_equal(result_of(&bad[i]), -EBADF);
		assert_int_equal(result_of(&good[i]), 4);
		assert_int_equal(result_of(&full[i]), -ENOSPC);
		assert_int_equal(result_of(&closed[i]), -EBADF);
	}
	assert_int_equal(write_now(fd, NULL, 100, 0), -EFAULT);
	close(fd);
	close(read_only);
	close(no_room);
}

static void nothing_is_written_as_nothing(void **state)
{
	int fd;

	(void)state;
	NEEDS_ENGINE();
	fd = new_file("a", 0);
	assert_int_equal(write_now(fd, "", 0, 0), 0);
	assert_int_equal(write_now(fd, "", 0, 1000), 0);
	assert_holds(fd, "", 0);
	close(fd);
}

/* After a part, the part counts: the limit on file sizes stands in for a full backing. */
static void a_part_is_short_and_no_error(void **state)
{
	static char big[100000];
	struct rlimit before, limit;
	ssize_t part, rest;
	int fd;

	(void)state;
	NEEDS_ENGINE();
	signal(SIGXFSZ, SIG_IGN);
	fd = new_file("a", 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = (struct rlimit){70000, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	part = write_now(fd, big, sizeof(big), 0);
	rest = write_now(fd, big, sizeof(big) - 70000, 70000);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(part, 70000);
	assert_int_equal(rest, -EFBIG);
	/* The thread that was told of it goes on as if nothing was. */
	assert_int_equal(write_now(fd, big, sizeof(big), 0), sizeof(big));
	close(fd);
}

static void a_full_backing_takes_a_part(void **state)
{
	enum { SIZE = 3 << 20 };
	__cleanup_free char *data = pattern(SIZE, 9);
	char path[PATH_MAX];
	ssize_t part;
	int dir, fd;

	(void)state;
	NEEDS_ENGINE();
	if (!getenv("TEST_PRIVATE") || strcmp(getenv("TEST_PRIVATE"), "1") ||
	    mount("none", scratch_dir(path), "tmpfs", 0, "size=1m"))
		skip();
	dir = open(path, O_RDONLY | O_DIRECTORY);
	fd = openat(dir, "a", O_RDWR | O_CREAT, 0644);
	part = write_now(fd, data, SIZE, 0);
	assert_int_equal(part, 1 << 20);
	assert_int_equal(write_now(fd, data + part, SIZE - (size_t)part, (uint64_t)part), -ENOSPC);
	assert_holds(fd, data, (size_t)part);
	close(fd);
	close(dir);
}

/* --- done() --- */

struct walk {
	struct io_write w;
	const char *data;
	size_t done, size;
	bool ended; /* lock: lock */
};

static void step(struct io_write *w, ssize_t result)
{
	struct walk *k = container_of(w, struct walk, w);

	if (result != 100)
		abort();
	k->done += 100;
	if (k->done < k->size) {
		w->buf = k->data + k->done;
		w->off = k->done;
		io_submit(io, w);
		return;
	}
	MUTEX_SCOPE(&lock);
	k->ended = true;
	pthread_cond_broadcast(&ended);
}

static void done_may_submit_again(void **state)
{
	enum { NR = 20, SIZE = 50000 };
	struct walk walks[NR];
	char name[16];
	int i;

	(void)state;
	NEEDS_ENGINE();
	for (i = 0; i < NR; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		walks[i] = (struct walk){.data = pattern(SIZE + 4096, (uint64_t)i), .size = SIZE};
		walks[i].w = (struct io_write){
			.fd = new_file(name, 0), .buf = walks[i].data, .len = 100, .done = step};
		io_submit(io, &walks[i].w);
	}
	for (i = 0; i < NR; i++) {
		{
			MUTEX_SCOPE(&lock);
			while (!walks[i].ended)
				pthread_cond_wait(&ended, &lock);
		}
		assert_holds(walks[i].w.fd, walks[i].data, SIZE);
		close(walks[i].w.fd);
		free((void *)walks[i].data);
	}
}

static void note_and_free(struct io_write *w, ssize_t result)
{
	atomic_uint *left = (atomic_uint *)w->off;

	(void)result;
	free(w);
	(*left)--;
}

/* The write is the caller's again at once; the engine does not look at it. */
static void done_may_free(void **state)
{
	atomic_uint left = 1000;
	int i;

	(void)state;
	NEEDS_ENGINE();
	for (i = 0; i < 1000; i++) {
		struct io_write *w = calloc(1, sizeof(*w));

		/* It fails; the offset is as good a place as any. */
		*w = (struct io_write){.fd = -1, .buf = "x", .len = 1, .done = note_and_free};
		w->off = (uint64_t)(uintptr_t)&left;
		io_submit(io, w);
	}
	io_destroy(take_ptr(io));
	assert_int_equal(left, 0);
}

/* --- life --- */

static void destroy_waits_for_what_is_submitted(void **state)
{
	enum { NR = 60 };
	static struct req reqs[NR];
	int fds, fd, round, i;
	unsigned threads;

	NEEDS_ENGINE();
	io_destroy(take_ptr(io));
	fd = new_file("a", 0);
	fds = count_fds();
	threads = nr_threads();
	for (round = 0; round < 60; round++) {
		create_io(*state, (unsigned)round / 4); /* 0 is put in range */
		for (i = 0; i < round; i++)
			start(&reqs[i], fd, "data", 4, (uint64_t)i * 4);
		io_destroy(take_ptr(io));
		for (i = 0; i < round; i++)
			assert_int_equal(reqs[i].calls, 1);
	}
	/* Nothing is left, but for a thread that the kernel has not yet forgotten. */
	assert_int_equal(count_fds(), fds);
	while (nr_threads() > threads)
		sched_yield();
	io_destroy(NULL);
	close(fd);
}

static void any_depth_works(void **state)
{
	static const unsigned depths[] = {1, 2, 3, 7, 100, 1023, 1024, IO_MAX_DEPTH, UINT_MAX};
	static struct req reqs[3000];
	size_t i, j;
	int fd;

	NEEDS_ENGINE();
	fd = new_file("a", 0);
	for (i = 0; i < ARRAY_SIZE(depths); i++) {
		io_destroy(take_ptr(io));
		create_io(*state, depths[i]);
		for (j = 0; j < ARRAY_SIZE(reqs); j++)
			start(&reqs[j], fd, "x", 1, j);
		for (j = 0; j < ARRAY_SIZE(reqs); j++)
			assert_int_equal(result_of(&reqs[j]), 1);
	}
	close(fd);
}

/* Is task @tid a thread of the engine? Then its blocked signals. */
static bool engine_thread(const char *tid, unsigned long long *blocked)
{
	char path[300], line[200];
	bool ours = false;
	__cleanup_file FILE *f = NULL;

	snprintf(path, sizeof(path), "/proc/self/task/%s/status", tid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		ours = ours || !strcmp(line, "Name:\tckptfs-write\n");
		sscanf(line, "SigBlk: %llx", blocked);
	}
	return ours;
}

static void no_signal_reaches_the_threads(void **state)
{
	unsigned long long blocked = 0;
	struct dirent *entry;
	unsigned nr = 0;
	int fd;
	DIR *d;

	(void)state;
	NEEDS_ENGINE();
	fd = new_file("a", 0);
	assert_int_equal(write_now(fd, "x", 1, 0), 1);
	close(fd);
	d = opendir("/proc/self/task");
	while ((entry = readdir(d)))
		if (engine_thread(entry->d_name, &blocked)) {
			nr++;
			assert_true(blocked & (1ull << (SIGTERM - 1)));
			assert_true(blocked & (1ull << (SIGXFSZ - 1)));
		}
	closedir(d);
	assert_true(nr >= 1);
}

/* --- one that hangs --- */

static char image[PATH_MAX + 16], mounted[PATH_MAX];

/* A small filesystem on a loop device, mounted at `mounted`, until this test's namespace ends. */
static bool loop_fs(const char *mkfs_options)
{
	char command[4 * PATH_MAX];

	if (!getenv("TEST_PRIVATE") || strcmp(getenv("TEST_PRIVATE"), "1") || geteuid())
		return false;
	snprintf(image, sizeof(image), "%s.img", scratch_dir(mounted));
	snprintf(command, sizeof(command),
		 "mkfs.ext4 -q -F %s %s 32M >/dev/null && mount -o loop %s %s", mkfs_options, image,
		 image, mounted);
	return !system(command);
}

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

/* --- the pool alone --- */

static struct backing_ops held_ops;
static unsigned nr_held;    /* lock: lock */
static bool held_go = true; /* lock: lock */

/* A write of "x" waits to be let go. */
static ssize_t held_write(void *arg, int fd, const void *buf, size_t size, off_t off, int rwf)
{
	{
		MUTEX_SCOPE(&lock);
		nr_held++;
		pthread_cond_broadcast(&ended);
		while (*(const char *)buf == 'x' && !held_go)
			pthread_cond_wait(&ended, &lock);
		nr_held--;
	}
	return backing_real_ops.write(arg, fd, buf, size, off, rwf);
}

static void wait_held(unsigned nr)
{
	MUTEX_SCOPE(&lock);

	while (nr_held != nr)
		pthread_cond_wait(&ended, &lock);
}

static void let_go(bool go)
{
	MUTEX_SCOPE(&lock);

	held_go = go;
	pthread_cond_broadcast(&ended);
}

static void hold_writes(void)
{
	held_ops = backing_real_ops;
	held_ops.write = held_write;
	back.ops = &held_ops;
	let_go(false);
}

/* It goes through the backing, so a test's double sees it; even if io_uring was wanted. */
static void the_pool_grows_as_needed_and_shrinks_when_idle(void **state)
{
	static struct req reqs[100];
	unsigned before = nr_threads(), i, round;
	struct error e;
	int fd;

	(void)state;
	io_destroy(take_ptr(io));
	io_threads_idle_ms = 1;
	hold_writes();
	assert_int_equal(io_create(&io, &back, 64, true, &e), 0);
	assert_string_equal(io_name(io), "threads");
	assert_int_equal(nr_threads(), before);
	fd = new_file("a", 0);
	for (round = 0; round < 3; round++) {
		/* One after the other need no second thread. */
		for (i = 0; i < 20; i++)
			assert_int_equal(write_now(fd, "-", 1, 0), 1);
		let_go(false);
		for (i = 0; i < ARRAY_SIZE(reqs); i++)
			start(&reqs[i], fd, "x", 1, i);
		wait_held(IO_MAX_THREADS);
		assert_int_equal(nr_threads(), before - 1 + IO_MAX_THREADS);
		let_go(true);
		for (i = 0; i < ARRAY_SIZE(reqs); i++)
			assert_int_equal(result_of(&reqs[i]), 1);
		while (nr_threads() > before)
			sched_yield();
	}
	close(fd);
	io_threads_idle_ms = 10000;
}

static void one_held_write_holds_up_no_other(void **state)
{
	struct req hung, reqs[30];
	int fd, i;

	(void)state;
	io_destroy(take_ptr(io));
	hold_writes();
	create_io(&io_threads_ops, 2);
	fd = new_file("a", 0);
	start(&hung, fd, "x", 1, 0);
	for (i = 0; i < 30; i++)
		start(&reqs[i], fd, "-", 1, (uint64_t)i);
	for (i = 0; i < 30; i++)
		assert_int_equal(result_of(&reqs[i]), 1);
	assert_false(has_ended(&hung));
	let_go(true);
	assert_int_equal(result_of(&hung), 1);
	close(fd);
}

/* --- which engine --- */

static void *create_forbidden(void *arg)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, *(unsigned *)arg, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {ARRAY_SIZE(code), code};
	struct error e;

	/* For this thread and those it makes. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
		return NULL;
	return io_create(&io, &back, DEPTH, true, &e) ? NULL : arg;
}

static void where_io_uring_is_forbidden_threads_write(void **state)
{
	static unsigned calls[] = {SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register};
	pthread_t thread;
	void *ok;
	size_t i;
	int fd, fds;

	NEEDS_ENGINE();
	fd = new_file("a", 0);
	io_destroy(take_ptr(io));
	fds = count_fds();
	back.features.state[FEATURE_ACT_AS_CALLER] = FEATURE_YES;
	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		back.features.state[FEATURE_IO_URING] = FEATURE_YES; /* it seemed so */
		assert_int_equal(pthread_create(&thread, NULL, create_forbidden, &calls[i]), 0);
		pthread_join(thread, &ok);
		if (!ok)
			skip(); /* no seccomp */
		assert_string_equal(io_name(io), "threads");
		assert_int_equal(back.features.state[FEATURE_IO_URING], FEATURE_NO);
		assert_int_equal(write_now(fd, "data", 4, 0), 4);
		assert_holds(fd, "data", 4);
		io_destroy(take_ptr(io));
		assert_int_equal(count_fds(), fds);
	}
	(void)state;
	close(fd);
}

static void what_is_turned_off_is_not_used(void **state)
{
	struct error e;

	(void)state;
	NEEDS_ENGINE();
	io_destroy(take_ptr(io));
	setenv("CKPTFS_FEATURES_OFF", "io_uring", 1);
	features_init(&back.features);
	unsetenv("CKPTFS_FEATURES_OFF");
	features_probe(&back.features, top, true);
	assert_int_equal(io_create(&io, &back, DEPTH, true, &e), 0);
	assert_string_equal(io_name(io), "threads");
	assert_int_equal(back.features.state[FEATURE_IO_URING], FEATURE_TURNED_OFF);
	io_destroy(take_ptr(io));

	features_init(&back.features);
	assert_int_equal(io_create(&io, &back, DEPTH, false, &e), 0);
	assert_string_equal(io_name(io), "threads");
	assert_true(feature_untried(&back.features, FEATURE_IO_URING));
	io_destroy(take_ptr(io));

	features_probe(&back.features, top, true);
	assert_true(feature(&back.features, FEATURE_IO_URING));
	assert_int_equal(io_create(&io, &back, DEPTH, true, &e), 0);
	assert_string_equal(io_name(io), "io_uring");
}

static void without_threads_it_says_so(void **state)
{
	pthread_attr_t before, huge;
	struct error e;
	int fds, err;

	(void)state;
	io_destroy(take_ptr(io));
	fds = count_fds();
	pthread_getattr_default_np(&before);
	pthread_attr_init(&huge);
	pthread_attr_setstacksize(&huge, 1ull << 50); /* there is no room for such a stack */
	assert_int_equal(pthread_setattr_default_np(&huge), 0);
	err = io_create(&io, &back, DEPTH, true, &e);
	pthread_setattr_default_np(&before);
	pthread_attr_destroy(&huge);
	pthread_attr_destroy(&before);
	assert_true(err < 0);
	assert_int_equal(e.err, -err);
	assert_contains(e.text, "cannot start the threads");
	assert_int_equal(count_fds(), fds);
	io = NULL;
}

/* --- as whom; last, since creds_init changes this process for good --- */

static bool can_switch(void)
{
	static int can = -1;

	if (can < 0)
		can = !geteuid() && creds_init(true);
	return can;
}

static void create_switching_io(void **state)
{
	const struct caller somebody = {1500, 1500, 0};

	io_destroy(take_ptr(io));
	back.features.state[FEATURE_ACT_AS_CALLER] = FEATURE_YES;
	creds_become(&somebody); /* as a thread that serves somebody may be */
	create_io(*state, DEPTH);
	creds_restore();
}

static ssize_t write_as(uid_t uid, gid_t gid, int fd, const void *buf, size_t len, uint64_t off)
{
	struct req r = {.w = {.fd = fd,
			      .buf = buf,
			      .len = len,
			      .off = off,
			      .as = {uid, gid, 0},
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

/* Blocks that the filesystem has reserved for one user are there for that user alone, not for root. */
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
					     .as = {uid, uid, 0},
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

#define T(f, ops) cmocka_unit_test_prestate_setup_teardown(f, setup, teardown, (void *)(ops))
#define BOTH(f)	  T(f, &io_uring_ops), T(f, &io_threads_ops)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(many_writes_to_one_file),
		BOTH(many_files),
		BOTH(beyond_4_gib),
		BOTH(many_threads_submit),
		BOTH(writes_outlive_the_thread_that_submitted_them),
		BOTH(errors_are_of_each_write),
		BOTH(nothing_is_written_as_nothing),
		BOTH(a_part_is_short_and_no_error),
		BOTH(a_full_backing_takes_a_part),
		BOTH(done_may_submit_again),
		BOTH(done_may_free),
		BOTH(destroy_waits_for_what_is_submitted),
		BOTH(any_depth_works),
		BOTH(no_signal_reaches_the_threads),
		BOTH(a_frozen_filesystem_holds_up_no_other),
		BOTH(submitting_never_waits),
		T(the_pool_grows_as_needed_and_shrinks_when_idle, &io_threads_ops),
		T(one_held_write_holds_up_no_other, &io_threads_ops),
		T(where_io_uring_is_forbidden_threads_write, &io_uring_ops),
		T(what_is_turned_off_is_not_used, &io_uring_ops),
		BOTH(without_threads_it_says_so),
		BOTH(writes_are_the_callers),
		BOTH(reserved_blocks_are_for_whom_they_are),
		BOTH(any_number_of_callers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
