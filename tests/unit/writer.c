/* SPDX-License-Identifier: MIT */
/*
 * What is read of a process that is gone but not waited for: like one that closes its files as it
 * exits, it has no memory any more. tests/fs/writer-fates.sh has the real ones.
 */
#include "tests/unit/unit.h"

#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "engine/liveness/writer.h"

#define NOBODY 65534

static void is_judged(pid_t tid, enum writer_fate fate, int code)
{
	struct writer_end end = writer_judge(tid);

	assert_int_equal(end.fate, fate);
	assert_int_equal(end.code, code);
}

/* A child that ended with exit status @code, or by the signal -@code; named @name. */
static pid_t zombie(int code, const char *name)
{
	siginfo_t info;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_NAME, name);
		if (code < 0) {
			signal(-code, SIG_DFL);
			raise(-code);
		}
		_exit(code);
	}
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	return pid;
}

static void zombie_is_judged(int code, const char *name, enum writer_fate fate, int judged)
{
	pid_t pid = zombie(code, name);

	is_judged(pid, fate, judged);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	is_judged(pid, WRITER_INVISIBLE, 0);
}

static void *judges_itself(void *arg)
{
	is_judged((pid_t)syscall(SYS_gettid), WRITER_ALIVE, 0);
	return arg;
}

static void the_living_are_alive(void **state)
{
	pthread_t thread;

	(void)state;
	is_judged(getpid(), WRITER_ALIVE, 0);
	is_judged(getppid(), WRITER_ALIVE, 0);
	assert_int_equal(pthread_create(&thread, NULL, judges_itself, NULL), 0);
	pthread_join(thread, NULL);
}

static void what_has_no_id_is_invisible(void **state)
{
	(void)state;
	is_judged(0, WRITER_INVISIBLE, 0);
	is_judged(-1, WRITER_INVISIBLE, 0);
	is_judged(INT_MAX, WRITER_INVISIBLE, 0);
}

static void exit_statuses_are_read(void **state)
{
	(void)state;
	zombie_is_judged(0, "writer", WRITER_EXITED_OK, 0);
	zombie_is_judged(1, "writer", WRITER_DIED, 1);
	zombie_is_judged(255, "writer", WRITER_DIED, 255);
	zombie_is_judged(-SIGKILL, "writer", WRITER_DIED, -SIGKILL);
	zombie_is_judged(-SIGTERM, "writer", WRITER_DIED, -SIGTERM);
	zombie_is_judged(-SIGSEGV, "writer", WRITER_DIED, -SIGSEGV);
	zombie_is_judged(-SIGRTMAX, "writer", WRITER_DIED, -SIGRTMAX);
}

static void names_of_programs_confuse_nobody(void **state)
{
	(void)state;
	zombie_is_judged(3, ") Z 1 1 1 1 1 4", WRITER_DIED, 3);
	zombie_is_judged(3, "))))) 0\n", WRITER_DIED, 3);
	zombie_is_judged(0, "a b (c", WRITER_EXITED_OK, 0);
}

static void kernel_threads_are_alive(void **state)
{
	char name[16] = "";
	FILE *f = fopen("/proc/2/comm", "re");

	(void)state;
	if (f && fgets(name, sizeof(name), f) && !strcmp(name, "kthreadd\n"))
		is_judged(2, WRITER_ALIVE, 0);
	else
		print_message("no kernel thread is seen here\n");
	if (f)
		fclose(f);
}

static void judge_as_nobody(pid_t ok, pid_t died)
{
	if (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
	    setresuid(NOBODY, NOBODY, NOBODY))
		_exit(1);
	if (writer_judge(getppid()).fate != WRITER_ALIVE)
		_exit(2);
	if (writer_judge(ok).fate != WRITER_EXIT_UNKNOWN)
		_exit(3);
	if (writer_judge(died).fate != WRITER_EXIT_UNKNOWN)
		_exit(4);
	_exit(writer_status_readable() ? 5 : 0);
}

static void others_ends_are_unknown_without_the_right(void **state)
{
	pid_t ok, died, pid;
	int status;

	(void)state;
	if (geteuid())
		skip();
	ok = zombie(0, "writer");
	died = zombie(-SIGKILL, "writer");
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		judge_as_nobody(ok, died);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(waitpid(ok, NULL, 0), ok);
	assert_int_equal(waitpid(died, NULL, 0), died);
}

static void nothing_stays_open(void **state)
{
	int before;

	(void)state;
	is_judged(getpid(), WRITER_ALIVE, 0);
	before = count_fds();
	is_judged(getpid(), WRITER_ALIVE, 0);
	is_judged(INT_MAX, WRITER_INVISIBLE, 0);
	zombie_is_judged(0, "writer", WRITER_EXITED_OK, 0);
	assert_int_equal(writer_pidfd_tells(), writer_pidfd_tells());
	assert_int_equal(count_fds(), before);
	assert_int_equal(waitpid(-1, NULL, 0), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_living_are_alive),
		cmocka_unit_test(what_has_no_id_is_invisible),
		cmocka_unit_test(exit_statuses_are_read),
		cmocka_unit_test(names_of_programs_confuse_nobody),
		cmocka_unit_test(kernel_threads_are_alive),
		cmocka_unit_test(others_ends_are_unknown_without_the_right),
		cmocka_unit_test(nothing_stays_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
