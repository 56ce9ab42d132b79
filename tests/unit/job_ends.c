/* SPDX-License-Identifier: MIT */
/* How a process ended is told to who watches it. */
#include "tests/unit/job.h"

static void end_is_told(int status, enum writer_fate fate, int code)
{
	struct child c = START("RANK=0", "WORLD_SIZE=1");
	struct process *p = ask(c.pid);
	struct writer_end how;

	nr_told = 0;
	assert_false(process_is_gone(p, &how));
	assert_int_equal(jobs_watch(p), 0);
	tell_to_end(&c, status);
	wait_told(1); /* though its parent does not yet know */
	last_told_is(c.pid, fate, code);
	assert_true(process_is_gone(p, &how));
	assert_int_equal(how.fate, fate);
	assert_int_equal(how.code, code);
	jobs_unwatch(p);
	process_put(p);
	reap(c.pid);
	assert_int_equal(times_told(c.pid), 1);
}

static void ends_are_told(void **state)
{
	(void)state;
	end_is_told(0, WRITER_EXITED_OK, 0);
	end_is_told(3, WRITER_DIED, 3);
	end_is_told(-SIGKILL, WRITER_DIED, -SIGKILL);
	end_is_told(-SIGTERM, WRITER_DIED, -SIGTERM);
}

static void ends_of_many_are_told(void **state)
{
	enum { MANY = 20 };
	struct process *p[MANY];
	struct child c[MANY];
	int i;

	(void)state;
	for (i = 0; i < MANY; i++) {
		c[i] = START("A=1");
		p[i] = ask(c[i].pid);
		assert_int_equal(jobs_watch(p[i]), 0);
	}
	for (i = 0; i < MANY; i++)
		tell_to_end(&c[i], i);
	wait_told(MANY);
	for (i = 0; i < MANY; i++) {
		struct writer_end how;

		reap(c[i].pid);
		assert_int_equal(times_told(c[i].pid), 1);
		assert_true(process_is_gone(p[i], &how));
		assert_int_equal(how.fate, i ? WRITER_DIED : WRITER_EXITED_OK);
		assert_int_equal(how.code, i);
		jobs_unwatch(p[i]);
		process_put(p[i]);
	}
	assert_int_equal(nr_told, MANY);
}

static void an_end_before_the_watch_is_told(void **state)
{
	struct child c = START("RANK=0", "WORLD_SIZE=1");
	struct process *p = ask(c.pid);
	struct writer_end how;

	(void)state;
	assert_int_equal(jobs_watch(p), 0);
	tell_to_end(&c, 3);
	wait_told(1);
	jobs_unwatch(p);
	assert_int_equal(jobs_watch(p), 0); /* it is gone */
	wait_told(2);
	last_told_is(c.pid, WRITER_DIED, 3);
	jobs_unwatch(p);
	reap(c.pid);
	assert_true(process_is_gone(p, &how));
	process_put(p);
}

/* Whether or not the end was seen before. */
static void an_end_about_the_watch_is_told(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < 20; i++) {
		struct child c = START("A=1");
		struct process *p = ask(c.pid);

		tell_to_end(&c, 3);
		assert_int_equal(jobs_watch(p), 0);
		wait_told((unsigned)i + 1);
		last_told_is(c.pid, WRITER_DIED, 3);
		jobs_unwatch(p);
		process_put(p);
		reap(c.pid);
	}
}

static void watches_are_counted(void **state)
{
	struct child a = START("A=1"), b = START("A=1");
	struct process *p = ask(a.pid), *q = ask(b.pid);

	(void)state;
	assert_int_equal(jobs_watch(p), 0);
	jobs_unwatch(p);
	assert_int_equal(jobs_watch(q), 0);
	assert_int_equal(jobs_watch(q), 0);
	jobs_unwatch(q);
	end(&a, 1);
	end(&b, 1);
	wait_told(1);
	last_told_is(b.pid, WRITER_DIED, 1);
	assert_int_equal(jobs_watch(p), 0);
	wait_told(2); /* of the first it was never told before */
	last_told_is(a.pid, WRITER_DIED, 1);
	jobs_unwatch(p);
	jobs_unwatch(q);
	process_put(p);
	process_put(q);
}

/* The main thread may have ended long before. */
static void a_process_ends_with_its_last_thread(void **state)
{
	int in[2], out[2], status = 5;
	struct process *p;
	pid_t pid, tid;

	(void)state;
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		pthread_t thread;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], 0);
		dup2(out[1], 1);
		if (pthread_create(&thread, NULL, child_thread, NULL))
			_exit(1);
		pthread_exit(NULL);
	}
	assert_int_equal(read(out[0], &tid, sizeof(tid)), sizeof(tid));
	p = ask(tid);
	assert_int_equal(p->tgid, pid);
	assert_int_equal(jobs_watch(p), 0);
	assert_int_equal(write(in[1], &status, sizeof(status)), sizeof(status));
	wait_told(1);
	last_told_is(pid, WRITER_DIED, 5);
	jobs_unwatch(p);
	process_put(p);
	reap(pid);
	close(in[0]);
	close(in[1]);
	close(out[0]);
	close(out[1]);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		T(ends_are_told),
		T(ends_of_many_are_told),
		T(an_end_before_the_watch_is_told),
		T(an_end_about_the_watch_is_told),
		T(watches_are_counted),
		T(a_process_ends_with_its_last_thread),
	};

	if (argc == 2 && !strcmp(argv[1], "--child"))
		return child_main();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
