/* SPDX-License-Identifier: MIT */
/* Waiting: what ends it, and that no wake-up is lost. */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>

#include <unistd.h>

#include "engine/base/wait.h"

#define WAITERS 8
#define ROUNDS	20000

static struct lock lock = LOCK_INIT(LOCK_UNITS);
static struct waitq queue;
static sem_t blocks;

static void tell_block(void)
{
	sem_post(&blocks);
}

static int setup(void **state)
{
	(void)state;
	waitq_init(&queue, &lock);
	sem_init(&blocks, 0, 0);
	wait_observe(tell_block);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	wait_observe(NULL);
	wait_serve(NULL);
	return 0;
}

struct one {
	pthread_t thread;
	struct interruptible call;
	int (*wait)(struct waitq *q, uint64_t deadline_ns);
	atomic_int err; /* 1: it waits */
};

static void *wait_once(void *one)
{
	struct one *o = one;

	wait_serve(&o->call);
	LOCK_SCOPE(&lock);
	atomic_store(&o->err, o->wait(&queue, CLOCK_NEVER));
	return NULL;
}

static void start(struct one *o, int (*wait)(struct waitq *q, uint64_t deadline_ns))
{
	o->wait = wait;
	interruptible_init(&o->call);
	atomic_store(&o->err, 1);
	assert_int_equal(pthread_create(&o->thread, NULL, wait_once, o), 0);
	assert_int_equal(sem_wait(&blocks), 0);
}

static int end(struct one *o)
{
	assert_int_equal(pthread_join(o->thread, NULL), 0);
	return atomic_load(&o->err);
}

static void wake(void)
{
	LOCK_SCOPE(&lock);
	waitq_wake(&queue);
}

static void the_oldest_is_woken_first(void **state)
{
	struct one ones[2];

	(void)state;
	start(&ones[0], wait_on);
	start(&ones[1], wait_on);
	wake();
	assert_int_equal(end(&ones[0]), 0);
	assert_int_equal(atomic_load(&ones[1].err), 1);
	wake();
	assert_int_equal(end(&ones[1]), 0);
}

static void all_are_woken_at_the_end(void **state)
{
	struct one ones[WAITERS];
	int i;

	(void)state;
	for (i = 0; i < WAITERS; i++)
		start(&ones[i], wait_on);
	lock_take(&lock);
	waitq_wake_all(&queue);
	lock_drop(&lock);
	for (i = 0; i < WAITERS; i++)
		assert_int_equal(end(&ones[i]), 0);
}

/* At once, and it alone. */
static void an_interruption_ends_the_wait(void **state)
{
	struct one ones[2];

	(void)state;
	start(&ones[0], wait_on);
	start(&ones[1], wait_on);
	wait_interrupt(&ones[0].call);
	assert_int_equal(end(&ones[0]), -EINTR);
	wake();
	assert_int_equal(end(&ones[1]), 0);
}

/* It is woken by the queue alone. */
static void some_waits_are_not_interrupted(void **state)
{
	struct one one;

	(void)state;
	start(&one, wait_out);
	wait_interrupt(&one.call);
	assert_int_equal(sem_trywait(&blocks), -1);
	wake();
	assert_int_equal(end(&one), 0);
}

static void an_interruption_counts_for_what_is_served(void **state)
{
	struct interruptible call, next;

	(void)state;
	interruptible_init(&call);
	interruptible_init(&next);
	wait_interrupt(&call); /* before its thread has it */
	wait_serve(&call);
	assert_true(wait_interrupted());
	assert_int_equal(wait_ns(NSEC_PER_SEC), -EINTR);
	lock_take(&lock);
	assert_int_equal(wait_on(&queue, CLOCK_NEVER), -EINTR);
	assert_int_equal(wait_on(&queue, clock_mono_ns() + 1000 * NSEC_PER_SEC), -EINTR);
	wait_serve(&next);
	assert_false(wait_interrupted());
	assert_int_equal(wait_on(&queue, clock_mono_ns()), -ETIMEDOUT);
	assert_int_equal(wait_on(&queue, clock_mono_ns() + NSEC_PER_MSEC), -ETIMEDOUT);
	lock_drop(&lock);
	assert_int_equal(wait_ns(NSEC_PER_MSEC), 0);
}

static void a_descriptor_or_the_deadline_ends_a_wait_for_it(void **state)
{
	uint64_t begun = clock_mono_ns();
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	wait_fd(fds[0], begun + 2 * NSEC_PER_MSEC);
	assert_true(clock_mono_ns() >= begun + 2 * NSEC_PER_MSEC);
	assert_int_equal(write(fds[1], "x", 1), 1);
	wait_fd(fds[0], CLOCK_NEVER);
	close(fds[0]);
	close(fds[1]);
}

/* --- no wake-up is lost --- */

static unsigned tokens; /* lock */

static void *take_tokens(void *unused)
{
	unsigned i;
	LOCK_SCOPE(&lock);

	for (i = 0; i < ROUNDS; i++) {
		while (!tokens)
			wait_on(&queue, CLOCK_NEVER);
		tokens--;
	}
	return unused;
}

static void each_wake_up_arrives(void **state)
{
	pthread_t ids[2];
	unsigned i;

	(void)state;
	wait_observe(NULL);
	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&ids[i], NULL, take_tokens, NULL), 0);
	for (i = 0; i < 2 * ROUNDS; i++) {
		LOCK_SCOPE(&lock);
		tokens++;
		waitq_wake(&queue);
	}
	for (i = 0; i < 2; i++)
		pthread_join(ids[i], NULL);
	assert_int_equal(tokens, 0);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(the_oldest_is_woken_first),
		T(all_are_woken_at_the_end),
		T(an_interruption_ends_the_wait),
		T(some_waits_are_not_interrupted),
		T(an_interruption_counts_for_what_is_served),
		T(a_descriptor_or_the_deadline_ends_a_wait_for_it),
		T(each_wake_up_arrives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
