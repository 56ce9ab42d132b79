/* SPDX-License-Identifier: MIT */
/* Processes that one may not look at, or that there are no descriptors for. */
#include "tests/unit/job.h"

#include <grp.h>
#include <sys/resource.h>

#include "engine/liveness/proc.h"

#define NOBODY 65534

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
	execl("/proc/self/exe", program_invocation_short_name, what, id, NULL);
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

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		T(others_are_seen_without_the_right_to_look),
		T(without_descriptors_nobody_is_seen),
	};

	if (argc == 2 && !strcmp(argv[1], "--child"))
		return child_main();
	if (argc == 3 && !strcmp(argv[1], "--nobody"))
		return nobody_main((pid_t)atoi(argv[2]));
	if (argc == 3 && !strcmp(argv[1], "--starved"))
		return starved_main();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
