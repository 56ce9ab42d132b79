/* SPDX-License-Identifier: MIT */
/* Threads of the daemon: name, signals, and the loop of those that find work. */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>

#include "engine/base/worker.h"

struct seen {
	char name[16];
	sigset_t blocked;
	sem_t done;
};

static void *look(void *seen)
{
	struct seen *s = seen;

	pthread_getname_np(pthread_self(), s->name, sizeof(s->name));
	pthread_sigmask(SIG_SETMASK, NULL, &s->blocked);
	sem_post(&s->done);
	return NULL;
}

static void check(const struct seen *s)
{
	assert_string_equal(s->name, "ckptfs-flush");
	assert_true(sigismember(&s->blocked, SIGTERM));
	assert_true(sigismember(&s->blocked, SIGHUP));
}

static void a_thread_has_a_name_and_no_signals(void **state)
{
	struct worker w = {.runs = false};
	struct seen s;
	sigset_t mine;

	(void)state;
	sem_init(&s.done, 0, 0);
	assert_int_equal(worker_start(&w, "ckptfs-flush", look, &s), 0);
	worker_join(&w);
	worker_join(&w);
	check(&s);
	sem_wait(&s.done);
	assert_int_equal(worker_start_detached("ckptfs-flush", 256 << 10, look, &s), 0);
	sem_wait(&s.done);
	check(&s);
	pthread_sigmask(SIG_SETMASK, NULL, &mine);
	assert_false(sigismember(&mine, SIGTERM));
}

/* --- the loop --- */

static struct lock lock = LOCK_INIT(LOCK_UNITS);
static struct waitq queue;
static int to_do, taken, done; /* lock */
static bool ending;	       /* lock */
static sem_t finished;

static void *find(void *arg)
{
	lock_assert_held(&lock);
	if (!to_do)
		return NULL;
	to_do--;
	taken++;
	return arg;
}

static void work(void *arg, void *thing)
{
	assert_ptr_equal(arg, thing);
	LOCK_SCOPE(&lock); /* it is free */
	assert_true(taken > 0);
}

static void put(void *arg, void *thing)
{
	(void)arg;
	(void)thing;
	lock_assert_held(&lock);
	taken--;
	done++;
	sem_post(&finished);
}

static void *loop_main(void *arg)
{
	static const struct worker_loop loop = {.queue = &queue,
						.ending = &ending,
						.look_ns = CLOCK_NEVER,
						.find = find,
						.work = work,
						.put = put};

	worker_loop(&loop, arg);
	return NULL;
}

static void each_thing_is_done_once(void **state)
{
	struct worker w[2];
	int i;

	(void)state;
	waitq_init(&queue, &lock);
	sem_init(&finished, 0, 0);
	for (i = 0; i < 2; i++)
		assert_int_equal(worker_start(&w[i], "ckptfs-test", loop_main, &to_do), 0);
	for (i = 0; i < 100; i++) {
		LOCK_SCOPE(&lock);
		to_do++;
		waitq_wake(&queue);
	}
	for (i = 0; i < 100; i++)
		sem_wait(&finished);
	lock_take(&lock);
	assert_int_equal(done, 100);
	to_do = 0;
	ending = true;
	waitq_wake_all(&queue);
	lock_drop(&lock);
	for (i = 0; i < 2; i++)
		worker_join(&w[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_has_a_name_and_no_signals),
		cmocka_unit_test(each_thing_is_done_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
