/* SPDX-License-Identifier: MIT */
/* Who a process is, and which job it is of. */
#include "tests/unit/job.h"

#include <linux/sched.h>

#include "engine/liveness/proc.h"

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
	assert_true(epoch_same(pa, pb));
	assert_false(epoch_same(pa, pc));
	assert_false(epoch_same(pa, ps));
	assert_true(ps->weak);
	assert_true(epoch_same(ps, pt)); /* one process session */
	assert_true(epoch_same(pa, hidden));
	assert_false(epoch_same(pa, other));
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
	assert_false(epoch_same(p, q));
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

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		T(a_process_is_one_for_all_its_threads),
		T(jobs_are_compared),
		T(long_environments_are_read),
		T(what_is_not_seen_is_invisible),
		T(another_user_is_another),
		T(not_more_are_kept_than_are_of_use),
		T(an_id_used_again_is_another),
		T(nothing_stays_open),
	};

	if (argc == 2 && !strcmp(argv[1], "--child"))
		return child_main();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
