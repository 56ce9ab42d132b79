/* SPDX-License-Identifier: MIT */
/* Threads of the daemon: their names, and that signals are not for them. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_has_a_name_and_no_signals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
