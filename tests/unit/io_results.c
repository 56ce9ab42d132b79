/* SPDX-License-Identifier: MIT */
/* What a write answers: an error, a part, or nothing; and done() may submit again, or free. */
#include "tests/unit/io.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/resource.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(errors_are_of_each_write),	    BOTH(nothing_is_written_as_nothing),
		BOTH(a_part_is_short_and_no_error), BOTH(a_full_backing_takes_a_part),
		BOTH(done_may_submit_again),	    BOTH(done_may_free),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
