/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/*
 * The environments of processes are held before they are read: who hangs so holds up nobody else.
 */
#include "tests/unit/job.h"

#include "engine/base/wait.h"

static pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t held_changed = PTHREAD_COND_INITIALIZER;
static bool hold;
static unsigned nr_held;

/* In place of libc's, also for the engine. */
int openat(int dir, const char *name, int flags, ...)
{
	mode_t mode = 0;
	va_list ap;

	va_start(ap, flags);
	if (flags & O_CREAT)
		mode = va_arg(ap, mode_t);
	va_end(ap);
	if (strstr(name, "/environ")) {
		MUTEX_SCOPE(&held_lock);
		nr_held++;
		pthread_cond_broadcast(&held_changed);
		while (hold)
			pthread_cond_wait(&held_changed, &held_lock);
		nr_held--;
		pthread_cond_broadcast(&held_changed);
	}
	return (int)syscall(SYS_openat, dir, name, flags, mode);
}

static void hold_environ(bool on)
{
	MUTEX_SCOPE(&held_lock);
	hold = on;
	pthread_cond_broadcast(&held_changed);
	while (!on && nr_held)
		pthread_cond_wait(&held_changed, &held_lock);
}

static void wait_held(unsigned nr)
{
	MUTEX_SCOPE(&held_lock);
	while (nr_held < nr)
		pthread_cond_wait(&held_changed, &held_lock);
}

static unsigned held(void)
{
	MUTEX_SCOPE(&held_lock);
	return nr_held;
}

/* The same while its environment is held: what could be had without. */
static struct process *ask_in_vain(pid_t tid)
{
	struct process *p;

	for (;;) {
		p = jobs_process(jobs, tid, getuid());
		assert_non_null(p);
		assert_false(p->read);
		if (p->visible)
			return p;
		process_put(p);
	}
}

static void who_was_read_is_not_read_again(void **state)
{
	struct child c = START("RANK=2", "WORLD_SIZE=4");
	struct process *p;

	(void)state;
	process_put(ask(c.pid));
	hold_environ(true);
	p = jobs_process(jobs, c.pid, getuid());
	assert_int_equal(p->rank, 2);
	process_put(p);
	p = jobs_process(jobs, c.thread, getuid());
	assert_int_equal(p->rank, 2);
	process_put(p);
	assert_int_equal(held(), 0);
	hold_environ(false);
	end(&c, 0);
}

static void who_hangs_is_unread_and_harms_nobody(void **state)
{
	struct child bad = START("RANK=2", "WORLD_SIZE=4"), good = START("RANK=3", "WORLD_SIZE=4");
	struct process *p, *q;

	(void)state;
	hold_environ(true);
	p = ask_in_vain(bad.thread);
	wait_held(1);
	assert_int_equal(p->tgid, bad.pid);
	assert_int_equal(p->rank, -1);
	assert_true(p->weak);
	q = ask_in_vain(bad.pid); /* no second one hangs for it */
	assert_int_equal(held(), 1);
	process_put(q);
	/* Whoever is let through is read. */
	{
		MUTEX_SCOPE(&held_lock);
		hold = false; /* but the one that waits does not know yet */
	}
	q = ask(good.pid);
	assert_int_equal(q->rank, 3);
	process_put(q);
	/* Its end is seen nevertheless. */
	assert_int_equal(jobs_watch(p), 0);
	hold_environ(false);
	q = ask(bad.pid);
	assert_int_equal(q->rank, 2);
	assert_ptr_not_equal(p, q);
	assert_true(epoch_same(p, q));
	process_put(q);
	end(&good, 0);
	end(&bad, 4);
	wait_told(1);
	last_told_is(bad.pid, WRITER_DIED, 4);
	jobs_unwatch(p);
	process_put(p);
}

static void many_may_hang(void **state)
{
	enum { MANY = 10 };
	struct process *p;
	struct child c[MANY];
	int i;

	(void)state;
	hold_environ(true);
	for (i = 0; i < MANY; i++) {
		c[i] = START("RANK=2", "WORLD_SIZE=4");
		p = ask_in_vain(c[i].pid);
		assert_int_equal(p->tgid, c[i].pid);
		process_put(p);
	}
	wait_held(8);
	assert_int_equal(held(), 8);
	hold_environ(false);
	for (i = 0; i < MANY; i++) {
		p = ask(c[i].pid);
		assert_int_equal(p->rank, 2);
		process_put(p);
		end(&c[i], 0);
	}
}

static void who_gives_up_waits_no_more(void **state)
{
	struct child c = START("RANK=2", "WORLD_SIZE=4");
	struct interruptible call;
	struct process *p;

	(void)state;
	hold_environ(true);
	interruptible_init(&call);
	wait_serve(&call);
	wait_interrupt(&call);
	p = jobs_process(jobs, c.pid, getuid());
	wait_serve(NULL);
	assert_false(p->read);
	process_put(p);
	hold_environ(false);
	p = ask(c.pid);
	assert_true(p->read);
	process_put(p);
	end(&c, 0);
}

/* Of some that ask at once, all get one. */
static void *asks(void *arg)
{
	return ask(*(pid_t *)arg);
}

static void who_asks_at_once_gets_the_same(void **state)
{
	struct child c = START("RANK=2", "WORLD_SIZE=4");
	pthread_t threads[6];
	void *got[6];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(threads); i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, asks, i % 2 ? &c.pid : &c.thread), 0);
	for (i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_join(threads[i], &got[i]);
	for (i = 0; i < ARRAY_SIZE(threads); i++) {
		assert_ptr_equal(got[i], got[0]);
		process_put(got[i]);
	}
	end(&c, 0);
}

static void destroying_waits_for_nobody_who_hangs(void **state)
{
	struct child c = START("RANK=2", "WORLD_SIZE=4");

	hold_environ(true);
	process_put(jobs_process(jobs, c.pid, getuid()));
	jobs_destroy(jobs);
	hold_environ(false);
	end(&c, 0);
	setup(state);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		T(who_was_read_is_not_read_again),
		T(who_hangs_is_unread_and_harms_nobody),
		T(many_may_hang),
		T(who_gives_up_waits_no_more),
		T(who_asks_at_once_gets_the_same),
		T(destroying_waits_for_nobody_who_hangs),
	};

	if (argc == 2 && !strcmp(argv[1], "--child"))
		return child_main();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
