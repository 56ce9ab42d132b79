/* SPDX-License-Identifier: MIT */
/*
 * The pool of threads: it grows as needed, shrinks when idle, and a write that is held up holds up
 * no other.
 */
#include "tests/unit/io.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(the_pool_grows_as_needed_and_shrinks_when_idle, &io_threads_ops),
		T(one_held_write_holds_up_no_other, &io_threads_ops),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
