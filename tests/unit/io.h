/* SPDX-License-Identifier: MIT */
/*
 * Asynchronous writes of the tests of these, each by io_uring and by the pool of threads: T() by
 * one of them, BOTH() by each.
 */
#ifndef TESTS_UNIT_IO_H
#define TESTS_UNIT_IO_H

#include "tests/unit/unit.h"

#include <linux/fs.h>
#include <pthread.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>

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

static inline void note(struct io_write *w, ssize_t result)
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

static inline void start(struct req *r, int fd, const void *buf, size_t len, uint64_t off)
{
	*r = (struct req){.w = {.fd = fd, .buf = buf, .len = len, .off = off, .done = note}};
	io_submit(io, &r->w);
}

static inline ssize_t result_of(struct req *r)
{
	MUTEX_SCOPE(&lock);

	while (!r->calls)
		pthread_cond_wait(&ended, &lock);
	return r->result;
}

static inline ssize_t write_now(int fd, const void *buf, size_t len, uint64_t off)
{
	struct req r;

	start(&r, fd, buf, len, off);
	return result_of(&r);
}

static inline bool has_ended(struct req *r)
{
	MUTEX_SCOPE(&lock);

	return r->calls;
}

static inline int new_file(const char *name, int flags)
{
	int fd = openat(top, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | flags, 0644);

	assert_true(fd >= 0);
	return fd;
}

static inline void *pattern(size_t size, uint64_t seed)
{
	uint64_t *p = aligned_alloc(4096, (size + 4095) & ~4095ul);
	size_t i;

	assert_non_null(p);
	seed = seed * 2 + 1;
	for (i = 0; i < size / 8; i++)
		p[i] = next_random(&seed);
	return p;
}

static inline void assert_holds(int fd, const void *data, size_t size)
{
	__cleanup_free char *got = malloc(size + 1);

	assert_non_null(got);
	assert_int_equal(fcntl(fd, F_SETFL, 0), 0); /* no O_DIRECT */
	assert_int_equal(pread(fd, got, size + 1, 0), size);
	assert_true(!memcmp(got, data, size));
}

/* --- engines --- */

static inline bool uring_works(void)
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

static inline void open_backing(void)
{
	char path[PATH_MAX];
	struct error e;

	if (backing_open(&back, scratch_dir(path), &e))
		fail_msg("%s", e.text);
	top = back.root_fd;
}

static inline void create_io(const struct io_ops *ops, unsigned depth)
{
	struct error e;

	if (io_create(&io, &back, depth, ops == &io_uring_ops, &e))
		fail_msg("%s", e.text);
	assert_string_equal(io_name(io), ops->name);
}

static inline int setup(void **state)
{
	open_backing();
	if (*state != &io_uring_ops || uring_works())
		create_io(*state, DEPTH);
	return 0;
}

static inline int teardown(void **state)
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

static inline unsigned nr_threads(void)
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

static char image[PATH_MAX + 16], mounted[PATH_MAX];

/* A small filesystem on a loop device, mounted at `mounted`, until this test's namespace ends. */
static inline bool loop_fs(const char *mkfs_options)
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

#define T(f, ops) cmocka_unit_test_prestate_setup_teardown(f, setup, teardown, (void *)(ops))
#define BOTH(f)	  T(f, &io_uring_ops), T(f, &io_threads_ops)

#endif
