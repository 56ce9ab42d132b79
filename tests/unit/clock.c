/* SPDX-License-Identifier: MIT */
/* The clock: the kernel's, or one that a test moves. */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>

#include "engine/base/clock.h"
#include "engine/base/wait.h"

static void the_kernel_tells_the_time(void **state)
{
	uint64_t mono = clock_mono_ns(), wall = clock_wall_ns();

	(void)state;
	assert_false(clock_is_owned());
	assert_true(clock_mono_ns() >= mono);
	assert_true(wall > 1600000000ull * NSEC_PER_SEC);
	assert_true(clock_boot_ns() >= mono);
}

static void an_owned_clock_moves_by_hand_alone(void **state)
{
	uint64_t mono, wall;

	(void)state;
	clock_own();
	mono = clock_mono_ns();
	wall = clock_wall_ns();
	assert_true(clock_is_owned());
	assert_int_equal(clock_mono_ns(), mono);
	clock_advance(5 * NSEC_PER_SEC);
	assert_int_equal(clock_mono_ns(), mono + 5 * NSEC_PER_SEC);
	assert_int_equal(clock_wall_ns(), wall + 5 * NSEC_PER_SEC);
	clock_set(mono + 6 * NSEC_PER_SEC, wall - NSEC_PER_SEC); /* the wall clock was set back */
	assert_int_equal(clock_mono_ns(), mono + 6 * NSEC_PER_SEC);
	assert_int_equal(clock_wall_ns(), wall - NSEC_PER_SEC);
	assert_int_equal(clock_boot_ns(), clock_mono_ns());
	clock_disown();
	assert_false(clock_is_owned());
}

static uint64_t seven(void *arg)
{
	return *(uint64_t *)arg;
}

static void a_source_is_asked_each_time(void **state)
{
	uint64_t time = 7;
	const struct clock_source source = {.mono_ns = seven, .wall_ns = seven, .arg = &time};

	(void)state;
	clock_set_source(&source);
	assert_int_equal(clock_mono_ns(), 7);
	time = 8;
	assert_int_equal(clock_wall_ns(), 8);
	clock_set_source(NULL);
	assert_true(clock_wall_ns() > 8);
}

/* --- waits by it --- */

static struct lock lock = LOCK_INIT(LOCK_UNITS);
static struct waitq queue;
static sem_t blocks;
static uint64_t deadline;

static void tell_block(void)
{
	sem_post(&blocks);
}

static void *wait_once(void *err)
{
	LOCK_SCOPE(&lock);
	do {
		*(int *)err = wait_on(&queue, deadline);
	} while (!*(int *)err);
	return NULL;
}

static void *sleep_once(void *err)
{
	*(int *)err = wait_ns(10 * NSEC_PER_SEC);
	return NULL;
}

/* Two advances short of the deadline wake nobody for good; the one that reaches it does. */
static void moving_it_ends_the_waits_that_are_due(void **state)
{
	void *(*const threads[])(void *) = {wait_once, sleep_once};
	pthread_t ids[2];
	int errs[2] = {1, 1}, i;

	(void)state;
	clock_own();
	waitq_init(&queue, &lock);
	sem_init(&blocks, 0, 0);
	wait_observe(tell_block);
	deadline = clock_mono_ns() + 10 * NSEC_PER_SEC;
	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&ids[i], NULL, threads[i], &errs[i]), 0);
	for (i = 0; i < 2; i++)
		sem_wait(&blocks);
	assert_int_equal(wait_next_deadline(), deadline);
	clock_advance(9 * NSEC_PER_SEC);
	for (i = 0; i < 2; i++)
		sem_wait(&blocks); /* they have looked, and wait again */
	clock_advance(NSEC_PER_SEC);
	for (i = 0; i < 2; i++)
		pthread_join(ids[i], NULL);
	assert_int_equal(errs[0], -ETIMEDOUT);
	assert_int_equal(errs[1], 0);
	assert_int_equal(wait_next_deadline(), CLOCK_NEVER);
	wait_observe(NULL);
	clock_disown();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_kernel_tells_the_time),
		cmocka_unit_test(an_owned_clock_moves_by_hand_alone),
		cmocka_unit_test(a_source_is_asked_each_time),
		cmocka_unit_test(moving_it_ends_the_waits_that_are_due),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
