/* SPDX-License-Identifier: MIT */
/*
 * For the tests of who writes, of which job, and how it ended: real processes, which are the test's
 * program, run anew. The main() of a test that starts them calls child_main() where it is told so.
 */
#ifndef TESTS_UNIT_JOB_H
#define TESTS_UNIT_JOB_H

#include "tests/unit/unit.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "engine/base/cleanup.h"
#include "engine/liveness/epoch.h"
#include "engine/liveness/job.h"

static struct jobs *jobs;

/* --- what was told --- */

static pthread_mutex_t told_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told_more = PTHREAD_COND_INITIALIZER;
static struct {
	pid_t tgid;
	struct writer_end end;
} told[64];
static unsigned nr_told;

static inline void ended(void *arg, const struct process *p, struct writer_end end)
{
	MUTEX_SCOPE(&told_lock);
	assert_ptr_equal(arg, &jobs);
	assert_true(nr_told < ARRAY_SIZE(told));
	told[nr_told].tgid = p->tgid;
	told[nr_told++].end = end;
	pthread_cond_broadcast(&told_more);
}

static inline void wait_told(unsigned nr)
{
	MUTEX_SCOPE(&told_lock);
	while (nr_told < nr)
		pthread_cond_wait(&told_more, &told_lock);
}

static inline unsigned times_told(pid_t tgid)
{
	unsigned i, nr = 0;
	MUTEX_SCOPE(&told_lock);

	for (i = 0; i < nr_told; i++)
		nr += told[i].tgid == tgid;
	return nr;
}

static inline void last_told_is(pid_t tgid, enum writer_fate fate, int code)
{
	MUTEX_SCOPE(&told_lock);
	assert_true(nr_told);
	assert_int_equal(told[nr_told - 1].tgid, tgid);
	assert_int_equal(told[nr_told - 1].end.fate, fate);
	assert_int_equal(told[nr_told - 1].end.code, code);
}

/* --- children --- */

struct child {
	pid_t pid, thread;
	int in; /* it ends as it is told here */
};

/* This program, run anew: tells the id of its second thread, and ends as it is told. */
static inline void *child_thread(void *arg)
{
	pid_t tid = (pid_t)syscall(SYS_gettid);
	int status;

	(void)arg;
	if (write(1, &tid, sizeof(tid)) != sizeof(tid) ||
	    read(0, &status, sizeof(status)) != sizeof(status))
		_exit(99);
	if (status < 0)
		raise(-status);
	_exit(status);
}

static inline int child_main(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, child_thread, NULL))
		return 98;
	pthread_join(thread, NULL);
	return 97;
}

static inline struct child start(char *const env[])
{
	char *const args[] = {program_invocation_short_name, "--child", NULL};
	struct child c;
	int in[2], out[2];

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	c.pid = fork();
	assert_true(c.pid >= 0);
	if (!c.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], 0);
		dup2(out[1], 1);
		execve("/proc/self/exe", args, env);
		_exit(96);
	}
	close(in[0]);
	close(out[1]);
	assert_int_equal(read(out[0], &c.thread, sizeof(c.thread)), sizeof(c.thread));
	close(out[0]);
	c.in = in[1];
	return c;
}

static inline void pause_for_ever(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

#define START(...) start((char *const[]){__VA_ARGS__, NULL})

static inline void reap(pid_t pid)
{
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static inline void tell_to_end(struct child *c, int status)
{
	assert_int_equal(write(c->in, &status, sizeof(status)), sizeof(status));
	close(c->in);
}

static inline void end(struct child *c, int status)
{
	tell_to_end(c, status);
	reap(c->pid);
}

/* The machine may be so busy that it is not read in time; then once more. */
static inline struct process *ask(pid_t tid)
{
	struct process *p;

	for (;;) {
		p = jobs_process(jobs, tid, getuid());
		assert_non_null(p);
		if (p->read)
			return p;
		process_put(p);
	}
}

static inline int setup(void **state)
{
	struct error e;

	(void)state;
	nr_told = 0;
	assert_int_equal(jobs_create(&jobs, ended, &jobs, &e), 0);
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	jobs_destroy(jobs);
	jobs = NULL;
	return 0;
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#endif
