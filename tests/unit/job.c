/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/* Who writes, of which job, and how it ended: of real processes. */
#include "tests/unit/unit.h"

#include <grp.h>
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "engine/base/cleanup.h"
#include "engine/base/wait.h"
#include "engine/liveness/job.h"
#include "engine/liveness/proc.h"

#define NOBODY	65534
#define BOOT_ID "01234567-89ab-4def-8123-456789abcdef"

static struct jobs *jobs;

/* --- what was told --- */

static pthread_mutex_t told_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told_more = PTHREAD_COND_INITIALIZER;
static struct {
	pid_t tgid;
	struct writer_end end;
} told[64];
static unsigned nr_told;

static void ended(void *arg, const struct process *p, struct writer_end end)
{
	MUTEX_SCOPE(&told_lock);
	assert_ptr_equal(arg, &jobs);
	assert_true(nr_told < ARRAY_SIZE(told));
	told[nr_told].tgid = p->tgid;
	told[nr_told++].end = end;
	pthread_cond_broadcast(&told_more);
}

static void wait_told(unsigned nr)
{
	MUTEX_SCOPE(&told_lock);
	while (nr_told < nr)
		pthread_cond_wait(&told_more, &told_lock);
}

static unsigned times_told(pid_t tgid)
{
	unsigned i, nr = 0;
	MUTEX_SCOPE(&told_lock);

	for (i = 0; i < nr_told; i++)
		nr += told[i].tgid == tgid;
	return nr;
}

static void last_told_is(pid_t tgid, enum writer_fate fate, int code)
{
	MUTEX_SCOPE(&told_lock);
	assert_true(nr_told);
	assert_int_equal(told[nr_told - 1].tgid, tgid);
	assert_int_equal(told[nr_told - 1].end.fate, fate);
	assert_int_equal(told[nr_told - 1].end.code, code);
}

/* --- environments that cannot be read before they are let go --- */

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

/* --- children --- */

struct child {
	pid_t pid, thread;
	int in; /* it ends as it is told here */
};

/* This program, run anew: tells the id of its second thread, and ends as it is told. */
static void *child_thread(void *arg)
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

static int child_main(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, child_thread, NULL))
		return 98;
	pthread_join(thread, NULL);
	return 97;
}

static struct child start(char *const env[])
{
	char *const args[] = {"job.t", "--child", NULL};
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

static void pause_for_ever(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

#define START(...) start((char *const[]){__VA_ARGS__, NULL})

static void reap(pid_t pid)
{
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void tell_to_end(struct child *c, int status)
{
	assert_int_equal(write(c->in, &status, sizeof(status)), sizeof(status));
	close(c->in);
}

static void end(struct child *c, int status)
{
	tell_to_end(c, status);
	reap(c->pid);
}

/* The machine may be so busy that it is not read in time; then once more. */
static struct process *ask(pid_t tid)
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

static int setup(void **state)
{
	struct error e;

	(void)state;
	nr_told = 0;
	assert_int_equal(jobs_create(&jobs, ended, &jobs, &e), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	jobs_destroy(jobs);
	jobs = NULL;
	return 0;
}

/* --- environments --- */

struct expected {
	const char *env; /* with ; for NUL */
	int rank, world;
	const char *key; /* NULL: weak */
};

static const struct expected environments[] = {
	{"", -1, 0, NULL},
	{"PATH=/bin;HOME=/;", -1, 0, NULL},
	{"RANK=3;WORLD_SIZE=8;", 3, 8, NULL},
	{"RANK=0;WORLD_SIZE=1;", 0, 1, NULL},
	{"RANK=3;RANK=4;WORLD_SIZE=8;", 3, 8, NULL},
	{"XRANK=1;RANK=3;WORLD_SIZE=8;RANKX=4;", 3, 8, NULL},
	/* what no launcher writes */
	{"RANK=8;WORLD_SIZE=8;", -1, 0, NULL},
	{"RANK=-1;WORLD_SIZE=8;", -1, 0, NULL},
	{"RANK=+1;WORLD_SIZE=8;", -1, 0, NULL},
	{"RANK= 1;WORLD_SIZE=8;", -1, 0, NULL},
	{"RANK=1x;WORLD_SIZE=8;", -1, 0, NULL},
	{"RANK=;WORLD_SIZE=8;", -1, 0, NULL},
	{"RANK=0;WORLD_SIZE=0;", -1, 0, NULL},
	{"RANK=0;WORLD_SIZE=;", -1, 0, NULL},
	{"RANK=0;WORLD_SIZE=16777217;", -1, 0, NULL},
	{"RANK=0;WORLD_SIZE=18446744073709551617;", -1, 0, NULL},
	{"RANK=4294967297;WORLD_SIZE=8;", -1, 0, NULL},
	{"RANK=1;", -1, 0, NULL},
	{"WORLD_SIZE=8;", -1, 0, NULL},
	{"RANK;WORLD_SIZE;=;", -1, 0, NULL},
	{"RANK=1;WORLD_SIZE=8", -1, 0, NULL}, /* cut off */
	/* the others, and which comes first */
	{"OMPI_COMM_WORLD_RANK=1;OMPI_COMM_WORLD_SIZE=2;", 1, 2, NULL},
	{"PMI_RANK=1;PMI_SIZE=3;", 1, 3, NULL},
	{"PMIX_RANK=1;PMIX_SIZE=4;", 1, 4, NULL},
	{"PMIX_RANK=5;", 5, 0, NULL},
	{"PMIX_RANK=5;PMIX_SIZE=4;", -1, 0, NULL},
	{"RANK=x;WORLD_SIZE=8;PMI_RANK=1;PMI_SIZE=3;", 1, 3, NULL},
	{"RANK=3;WORLD_SIZE=8;OMPI_COMM_WORLD_RANK=0;OMPI_COMM_WORLD_SIZE=2;", 3, 8, NULL},
	/* SLURM */
	{"SLURM_JOB_ID=12;SLURM_STEP_ID=0;SLURM_PROCID=5;SLURM_NTASKS=16;", 5, 16,
	 "7/slurm/12.0/r0.0"},
	{"SLURM_JOB_ID=12;SLURM_STEP_ID=3;SLURM_PROCID=5;SLURM_NTASKS=16;PMIX_RANK=5;", 5, 16,
	 "7/slurm/12.3/r0.0"},
	{"SLURM_JOB_ID=12;SLURM_STEP_ID=0;SLURM_PROCID=0;SLURM_NTASKS=1;", -1, 0,
	 "7/slurm/12.0/r0.0"},
	{"SLURM_JOB_ID=12;SLURM_PROCID=0;SLURM_NTASKS=16;", -1, 0, "7/slurm/12.batch/r0.0"},
	{"SLURM_JOB_ID=12;SLURM_STEP_ID=4294967291;SLURM_PROCID=0;SLURM_NTASKS=16;", -1, 0,
	 "7/slurm/12.batch/r0.0"},
	{"SLURM_JOB_ID=12;SLURM_STEP_ID=0;SLURM_PROCID=0;SLURM_NTASKS=2;RANK=9;WORLD_SIZE=16;"
	 "TORCHELASTIC_RUN_ID=run;TORCHELASTIC_RESTART_COUNT=2;SLURM_RESTART_COUNT=1;",
	 9, 16, "7/slurm/12.0/r1.2"},
	{"SLURM_JOB_ID=0;", -1, 0, NULL},
	{"SLURM_JOB_ID=x;", -1, 0, NULL},
	{"SLURM_JOB_ID=12;SLURM_STEP_ID=x;", -1, 0, NULL},
	{"SLURM_JOB_ID=12;SLURM_RESTART_COUNT=99999999999;", -1, 0, NULL},
	{"SLURM_JOB_ID=12;SLURM_RESTART_COUNT=x;TORCHELASTIC_RUN_ID=run;", -1, 0,
	 "7/elastic/run/r0"},
	/* torchrun */
	{"TORCHELASTIC_RUN_ID=run-1;TORCHELASTIC_RESTART_COUNT=2;", -1, 0, "7/elastic/run-1/r2"},
	{"TORCHELASTIC_RUN_ID=a/b c%;", -1, 0, "7/elastic/a%2Fb%20c%25/r0"},
	{"TORCHELASTIC_RUN_ID=;", -1, 0, NULL},
	{"TORCHELASTIC_RUN_ID=none;", -1, 0, NULL},
	{"TORCHELASTIC_RUN_ID=none;MASTER_ADDR=n1;MASTER_PORT=29500;", -1, 0, "7/master/n1:29500"},
	{"TORCHELASTIC_RUN_ID=run;TORCHELASTIC_RESTART_COUNT=x;MASTER_ADDR=n1;MASTER_PORT=1;", -1,
	 0, "7/master/n1:1"},
	/* the rendezvous; on this host many have the same */
	{"MASTER_ADDR=10.0.0.1;MASTER_PORT=29500;", -1, 0, "7/master/10.0.0.1:29500"},
	{"MASTER_ADDR=fe80::1;MASTER_PORT=29500;", -1, 0, "7/master/fe80::1:29500"},
	{"MASTER_ADDR=127.0.0.1;MASTER_PORT=29500;", -1, 0, "7/master/127.0.0.1:29500@" BOOT_ID},
	{"MASTER_ADDR=LocalHost;MASTER_PORT=29500;", -1, 0, "7/master/LocalHost:29500@" BOOT_ID},
	{"MASTER_ADDR=::1;MASTER_PORT=29500;", -1, 0, "7/master/::1:29500@" BOOT_ID},
	{"MASTER_ADDR=10.0.0.1;", -1, 0, NULL},
	{"MASTER_PORT=29500;", -1, 0, NULL},
	{"MASTER_ADDR=10.0.0.1;MASTER_PORT=0;", -1, 0, NULL},
	{"MASTER_ADDR=10.0.0.1;MASTER_PORT=65536;", -1, 0, NULL},
	{"MASTER_ADDR=;MASTER_PORT=29500;", -1, 0, NULL},
};

static void parse(const char *text, struct process *p)
{
	size_t len = strlen(text), i;
	char *env = malloc(len ? len : 1); /* no terminator behind it */

	assert_non_null(env);
	for (i = 0; i < len; i++)
		env[i] = text[i] == ';' ? '\0' : text[i];
	memset(p, 0x55, sizeof(*p));
	job_parse(env, len, 7, 42, BOOT_ID, p);
	free(env);
}

static void environments_are_understood(void **state)
{
	struct process p;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(environments); i++) {
		const struct expected *x = &environments[i];

		parse(x->env, &p);
		if (p.rank != x->rank || p.world != x->world || p.weak != !x->key ||
		    strcmp(p.key, x->key ? x->key : "7/session/42@" BOOT_ID))
			fail_msg("%s: rank %d of %d, %s", x->env, p.rank, p.world, p.key);
	}
}

/* Cut, two long names could become one. */
static void jobs_are_named_by_people(void **state)
{
	static const struct {
		const char *key, *name;
		bool is;
	} cases[] = {
		{"1000/slurm/8123.0/r0.0", "1000/slurm/8123.0/r0.0", true},
		{"1000/slurm/8123.0/r0.0", "1000/slurm/8123.0/r0", true},
		{"1000/slurm/8123.0/r0.0", "1000/slurm/8123.0", true},
		{"1000/slurm/8123.0/r0.0", "1000/slurm/8123", true},
		{"1000/slurm/8123.0/r0.0", "slurm/8123.0", true},
		{"1000/slurm/8123.0/r0.0", "8123", true},
		{"1000/slurm/8123.0/r0.0", "8123.0", true},
		{"1000/slurm/8123.batch/r1.2", "8123.batch", true},
		{"1000/slurm/8123.0/r0.0", "812", false},
		{"1000/slurm/8123.0/r0.0", "81230", false},
		{"1000/slurm/8123.0/r0.0", "1000", false}, /* of a user is no job */
		{"1000/slurm/8123.0/r0.0", "1000/slurm/812", false},
		{"1000/slurm/8123.0/r0.0", "1/slurm/8123", false},
		{"1000/slurm/8123.10/r0.0", "8123.1", false},
		{"1000/slurm/8123.0/r0.0", "", false},
		{"1000/elastic/8123/r0", "8123", false},
		{"1000/elastic/run.1/r0", "elastic/run.1", true},
		{"1000/elastic/run.1/r0", "1000/elastic/run", false},
		{"1000/master/host:29500", "1000/master/host:29500", true},
		{"1000/master/host:29500", "1000/master/host", false},
		{"1000/unknown", "1000/unknown", true},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++)
		if (job_is(cases[i].key, cases[i].name) != cases[i].is)
			fail_msg("%s as %s", cases[i].key, cases[i].name);
	assert_true(job_name_ok("8123") && job_name_ok("8123.0") && job_name_ok("1000/unknown"));
	assert_false(job_name_ok("") || job_name_ok("8123_4") || job_name_ok("8123.") ||
		     job_name_ok("/8123") || job_name_ok("run"));
}

static void names_too_long_for_a_key_are_none(void **state)
{
	char env[4096], name[1024];
	struct process p;

	(void)state;
	memset(name, 'x', sizeof(name));
	name[198] = '\0';
	snprintf(env, sizeof(env), "TORCHELASTIC_RUN_ID=%s;", name);
	parse(env, &p);
	assert_false(p.weak);
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	snprintf(env, sizeof(env), "TORCHELASTIC_RUN_ID=%s;", name);
	parse(env, &p);
	assert_true(p.weak);
	memset(name, '/', 100);
	name[100] = '\0';
	snprintf(env, sizeof(env), "TORCHELASTIC_RUN_ID=%s;", name);
	parse(env, &p);
	assert_true(p.weak);
}

/* --- who it is --- */

static void a_process_is_one_for_all_its_threads(void **state)
{
	struct child c = START("RANK=2", "WORLD_SIZE=4", "MASTER_ADDR=n1", "MASTER_PORT=5");
	struct process *p = ask(c.thread), *q;
	char key[64];

	(void)state;
	snprintf(key, sizeof(key), "%u/master/n1:5", (unsigned)getuid());
	assert_int_equal(p->tgid, c.pid);
	assert_true(p->start > 0);
	assert_int_equal(p->uid, getuid());
	assert_int_equal(p->rank, 2);
	assert_int_equal(p->world, 4);
	assert_string_equal(p->key, key);
	assert_false(p->weak);
	assert_true(p->visible);
	q = ask(c.pid);
	assert_ptr_equal(p, q);
	process_put(q);
	assert_ptr_equal(process_get(p), p);
	process_put(p);
	process_put(p);
	q = ask(c.thread); /* kept for whom nobody had a reference */
	assert_int_equal(q->tgid, c.pid);
	process_put(q);
	end(&c, 0);
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

static void jobs_are_compared(void **state)
{
	struct child a = START("MASTER_ADDR=n1", "MASTER_PORT=5"),
		     b = START("MASTER_ADDR=n1", "MASTER_PORT=5"),
		     c = START("MASTER_ADDR=n1", "MASTER_PORT=6"), s = START("A=1"),
		     t = START("B=1");
	struct process *pa = ask(a.pid), *pb = ask(b.pid), *pc = ask(c.pid), *ps = ask(s.pid),
		       *pt = ask(t.pid), *hidden = jobs_process(jobs, 0, getuid()),
		       *other = jobs_process(jobs, 0, getuid() + 1);

	(void)state;
	assert_true(job_same(pa, pb));
	assert_false(job_same(pa, pc));
	assert_false(job_same(pa, ps));
	assert_true(ps->weak);
	assert_true(job_same(ps, pt)); /* one process session */
	assert_true(job_same(pa, hidden));
	assert_false(job_same(pa, other));
	process_put(pa);
	process_put(pb);
	process_put(pc);
	process_put(ps);
	process_put(pt);
	process_put(hidden);
	process_put(other);
	end(&a, 0);
	end(&b, 0);
	end(&c, 0);
	end(&s, 0);
	end(&t, 0);
}

static void long_environments_are_read(void **state)
{
	char *filler = malloc(100000);
	struct process *p;
	struct child c;

	(void)state;
	assert_non_null(filler);
	memset(filler, 'x', 99999);
	filler[99999] = '\0';
	filler[1] = '=';
	c = START(filler, "RANK=2", "WORLD_SIZE=4");
	p = ask(c.pid);
	assert_int_equal(p->rank, 2);
	process_put(p);
	end(&c, 0);
	free(filler);
}

static void what_is_not_seen_is_invisible(void **state)
{
	static const pid_t ids[] = {0, -1, INT_MAX};
	struct writer_end how;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(ids); i++) {
		struct process *p = jobs_process(jobs, ids[i], 5);

		assert_false(p->visible);
		assert_false(p->read);
		assert_true(p->weak);
		assert_int_equal(p->rank, -1);
		assert_int_equal(p->tgid, 0);
		assert_string_equal(p->key, "5/unknown");
		assert_int_equal(jobs_watch(p), -ESRCH);
		assert_false(process_is_gone(p, &how));
		process_put(p);
	}
}

static void a_job_is_started_again(void **state)
{
	struct process p = {.read = true, .key = "1/elastic/run/r10"};

	(void)state;
	assert_true(job_restarted("1/elastic/run/r9", &p));
	assert_true(job_restarted("1/elastic/run/r0", &p));
	assert_false(job_restarted("1/elastic/run/r10", &p));
	assert_false(job_restarted("1/elastic/run/r11", &p)); /* it is the former one itself */
	assert_false(job_restarted("1/elastic/other/r9", &p));
	assert_false(job_restarted("2/elastic/run/r9", &p));
	assert_false(job_restarted("", &p));
	strcpy(p.key, "1/slurm/7.0/r1.0");
	assert_true(job_restarted("1/slurm/7.0/r0.3", &p));
	assert_false(job_restarted("1/slurm/7.0/r", &p));
	strcpy(p.key, "1/master/rack2-n1:5"); /* the name of a host */
	assert_false(job_restarted("1/master/rack1-n1:5", &p));
	assert_false(job_restarted("1/master/r1:5", &p));
	p.read = false;
	strcpy(p.key, "1/elastic/run/r10");
	assert_false(job_restarted("1/elastic/run/r9", &p));
}

/* A user is a part of who it is. */
static void another_user_is_another(void **state)
{
	struct child c = START("MASTER_ADDR=n1", "MASTER_PORT=5");
	struct process *p = ask(c.pid), *q;

	(void)state;
	do {
		q = jobs_process(jobs, c.pid, 12345);
	} while (!q->read && (process_put(q), true));
	assert_ptr_not_equal(p, q);
	assert_string_equal(q->key, "12345/master/n1:5");
	assert_false(job_same(p, q));
	process_put(p);
	process_put(q);
	end(&c, 0);
}

static void not_more_are_kept_than_are_of_use(void **state)
{
	enum { MANY = 300 };
	int before = count_fds(), i;
	pid_t pids[MANY];

	(void)state;
	for (i = 0; i < MANY; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (!pids[i])
			pause_for_ever();
		process_put(ask(pids[i]));
	}
	assert_true(count_fds() <= before + 256);
	for (i = 0; i < MANY; i++)
		kill(pids[i], SIGKILL);
	for (i = 0; i < MANY; i++)
		reap(pids[i]);
}

/* --- how it ends --- */

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

/* --- without the right to look --- */

/* This program, run anew: asks for a thread of root's process. */
static int nobody_main(pid_t tid)
{
	struct process *p;
	struct error e;
	int r = 0;
	char go = 'g';

	if (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
	    setresuid(NOBODY, NOBODY, NOBODY) || jobs_create(&jobs, ended, &jobs, &e))
		return 1;
	do {
		p = jobs_process(jobs, tid, 0);
	} while (!p->read && (process_put(p), true));
	if (p->tgid == tid || !p->visible || !p->weak || p->rank != -1 || !p->start)
		return 2;
	if (jobs_watch(p) || write(1, &go, 1) != 1)
		return 3;
	wait_told(1);
	if (writer_pidfd_tells())
		r = told[0].end.fate == WRITER_DIED && told[0].end.code == 3 ? 0 : 4;
	else
		r = told[0].end.fate == WRITER_EXIT_UNKNOWN ? 0 : 5;
	jobs_unwatch(p);
	process_put(p);
	jobs_destroy(jobs);
	return r;
}

/* Another process, not forked only: threads that fork are too much for a sanitizer. */
static pid_t run_self(const char *what, pid_t tid, int out)
{
	char id[16];
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid)
		return pid;
	snprintf(id, sizeof(id), "%d", (int)tid);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(out, 1);
	execl("/proc/self/exe", "job.t", what, id, NULL);
	_exit(96);
}

static void others_are_seen_without_the_right_to_look(void **state)
{
	struct child c;
	int out[2], status;
	char go;
	pid_t pid;

	(void)state;
	if (geteuid())
		skip();
	c = START("RANK=2", "WORLD_SIZE=4");
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	pid = run_self("--nobody", c.thread, out[1]);
	close(out[1]);
	assert_int_equal(read(out[0], &go, 1), 1);
	close(out[0]);
	end(&c, 3); /* the kernel tells once it is waited for */
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* --- ids that are used again --- */

static pid_t fork_as(pid_t pid)
{
	struct clone_args args = {
		.exit_signal = SIGCHLD,
		.set_tid = (uint64_t)(uintptr_t)&pid,
		.set_tid_size = 1,
	};

	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

static void an_id_used_again_is_another(void **state)
{
	struct child c = START("RANK=2", "WORLD_SIZE=4");
	struct process *p = ask(c.pid), *q;
	struct writer_end how;
	pid_t again;

	(void)state;
	assert_int_equal(jobs_watch(p), 0);
	end(&c, 3);
	again = fork_as(c.pid);
	if (!again)
		pause_for_ever();
	wait_told(1);
	last_told_is(c.pid, p->end.fate, p->end.code);
	assert_true(process_is_gone(p, &how));
	assert_true((how.fate == WRITER_DIED && how.code == 3) ||
		    (how.fate == WRITER_EXIT_UNKNOWN && !writer_pidfd_tells()));
	if (again == c.pid) {
		q = ask(again);
		assert_ptr_not_equal(p, q);
		assert_int_equal(q->rank, -1);
		assert_false(process_is_gone(q, &how));
		process_put(q);
		kill(again, SIGKILL);
		reap(again);
	} else {
		print_message("ids cannot be chosen here: %s\n", strerror(errno));
	}
	jobs_unwatch(p);
	process_put(p);
}

/* --- processes that hang --- */

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
	assert_true(job_same(p, q));
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

/* --- what it takes --- */

/* This program, run anew. */
static int starved_main(void)
{
	struct rlimit usual, none;
	struct process *p;
	struct jobs *js;
	struct error e;

	if (proc_dir() < 0 || jobs_create(&js, ended, NULL, &e) || getrlimit(RLIMIT_NOFILE, &usual))
		return 1;
	none = (struct rlimit){0, usual.rlim_max};
	setrlimit(RLIMIT_NOFILE, &none);
	p = jobs_process(js, getppid(), getuid());
	if (!p || p->visible || p->tgid)
		return 2;
	process_put(p);
	jobs_destroy(js);
	/* With one descriptor more each time: whatever it is that fails for want of one. */
	while (jobs_create(&js, ended, NULL, &e)) {
		if (e.err != EMFILE || js || !strstr(e.text, "cannot watch the processes"))
			return 3;
		none.rlim_cur++;
		setrlimit(RLIMIT_NOFILE, &none);
	}
	jobs_destroy(js);
	setrlimit(RLIMIT_NOFILE, &usual); /* for what looks for leaks at the end */
	return none.rlim_cur ? 0 : 4;
}

static void without_descriptors_nobody_is_seen(void **state)
{
	pid_t pid = run_self("--starved", 0, 1);
	int status;

	(void)state;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void nothing_stays_open(void **state)
{
	struct child c = START("A=1"), d = START("A=1");
	struct process *p;
	int before;

	jobs_destroy(jobs);
	assert_true(proc_dir() >= 0); /* kept open */
	before = count_fds();
	setup(state);
	process_put(ask(c.pid));
	p = ask(d.pid);
	assert_int_equal(jobs_watch(p), 0);
	end(&d, 0);
	wait_told(1);
	jobs_unwatch(p);
	process_put(p);
	jobs_destroy(jobs);
	jobs_destroy(NULL);
	process_put(NULL);
	assert_int_equal(count_fds(), before - 1); /* the end of d's pipe */
	end(&c, 0);
	setup(state);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(environments_are_understood),
		cmocka_unit_test(jobs_are_named_by_people),
		cmocka_unit_test(names_too_long_for_a_key_are_none),
		T(a_process_is_one_for_all_its_threads),
		T(who_was_read_is_not_read_again),
		T(jobs_are_compared),
		T(long_environments_are_read),
		T(what_is_not_seen_is_invisible),
		T(a_job_is_started_again),
		T(another_user_is_another),
		T(not_more_are_kept_than_are_of_use),
		T(ends_are_told),
		T(ends_of_many_are_told),
		T(an_end_before_the_watch_is_told),
		T(an_end_about_the_watch_is_told),
		T(watches_are_counted),
		T(a_process_ends_with_its_last_thread),
		T(others_are_seen_without_the_right_to_look),
		T(an_id_used_again_is_another),
		T(who_hangs_is_unread_and_harms_nobody),
		T(many_may_hang),
		T(who_gives_up_waits_no_more),
		T(who_asks_at_once_gets_the_same),
		T(destroying_waits_for_nobody_who_hangs),
		T(without_descriptors_nobody_is_seen),
		T(nothing_stays_open),
	};

	if (argc == 2 && !strcmp(argv[1], "--child"))
		return child_main();
	if (argc == 3 && !strcmp(argv[1], "--nobody"))
		return nobody_main((pid_t)atoi(argv[2]));
	if (argc == 3 && !strcmp(argv[1], "--starved"))
		return starved_main();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
