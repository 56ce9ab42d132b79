/* SPDX-License-Identifier: MIT */
/*
 * writer KIND FILE: makes FILE, writes some bytes into it, and then ends, or lets go of it, in the
 * way that KIND names. One that waits for the test prints "ready" when all is written. By each KIND
 * stands what a filesystem should think of the senders of the FLUSH requests that it gets, in their
 * order: "+" goes on, "0" ends with exit status 0.
 *
 *	close			+
 *	exit0			0
 *	exit1			exit status 1
 *	sigkill			SIGKILL; so sigterm, sigsegv
 *	core			SIGABRT, with a core dump where one can be made
 *	hold			what the test sends, after "ready"
 *	wait-exit0		0, after "ready" and SIGUSR1
 *	nodump-exit0		0, with PR_SET_DUMPABLE off
 *	nodump-sigkill		SIGKILL, likewise
 *	threads-exit3		exit status 3, by a thread that is not the main one
 *	threads-sigkill		SIGKILL of three threads
 *	leaderless-exit0	0, by a thread after the main one ended
 *	leaderless-sigkill	SIGKILL, likewise
 *	lone-thread		0 of a thread that alone had the file open, after "ready" and
 *				SIGUSR1. Meanwhile the process stops itself
 *	lone-thread-exec	the same; meanwhile the process calls execve
 *	exec			+ inside execve, which closes the file
 *	exec-thread		the same, called by a thread that is not the main one
 *	exec-kept		0 of the program executed
 *	exec-kept-fails		exit status 1 of the program executed
 *	fork-close		+ child, + parent
 *	fork-exit0		0 child, + parent
 *	fork-sigkill		SIGKILL child, + parent
 *	fork-exec		+ child inside execve, + parent
 *	parent-killed		SIGKILL parent, then 0 child
 *	system			0 shell, + parent
 *	system-fails		exit status 5 shell, + parent
 *	system-cloexec		+ shell inside execve, + parent
 *	spawn			0 child, + parent
 *	spawn-cloexec		+ child inside execve, + parent
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *file;
static int fd = -1;
static sigset_t usr1; /* what a forked child, or a KIND that the test has to tell, waits for */

static void open_file(int flags)
{
	static const char bytes[10000];

	fd = open(file, O_CREAT | O_WRONLY | flags, 0644);
	if (fd < 0 || write(fd, bytes, sizeof(bytes)) != sizeof(bytes))
		err(99, "%s", file);
}

static void ready(void)
{
	puts("ready");
	fflush(stdout);
}

static void wait_for_usr1(void)
{
	int sig;

	sigwait(&usr1, &sig);
}

static void wait_for_child(pid_t pid)
{
	if (pid < 0 || waitpid(pid, NULL, 0) != pid)
		err(99, "child");
}

static pthread_t start_thread(void *(*run)(void *))
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, NULL))
		errx(99, "thread");
	return thread;
}

/*
 * --- ends of a process that has the file open --- _exit is all that a filesystem sees of exit, and
 * what sanitizers do in exit fails in some of these.
 */

static void by_signal(int sig)
{
	signal(sig, SIG_DFL); /* sanitizers have handlers */
	raise(sig);
	pause();
}

static void do_close(void)
{
	if (close(fd))
		err(99, "close");
}
static void do_exit0(void)
{
	_exit(0);
}
static void do_exit1(void)
{
	_exit(1);
}
static void do_sigkill(void)
{
	by_signal(SIGKILL);
}
static void do_sigterm(void)
{
	by_signal(SIGTERM);
}
static void do_sigsegv(void)
{
	by_signal(SIGSEGV);
}
static void do_core(void)
{
	const struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};

	setrlimit(RLIMIT_CORE, &all);
	by_signal(SIGABRT);
}
static void do_hold(void)
{
	ready();
	pause();
}
static void do_wait_exit0(void)
{
	ready();
	wait_for_usr1();
	_exit(0);
}
static void do_nodump_exit0(void)
{
	prctl(PR_SET_DUMPABLE, 0);
	_exit(0);
}
static void do_nodump_sigkill(void)
{
	prctl(PR_SET_DUMPABLE, 0);
	by_signal(SIGKILL);
}

/* --- threads --- */

static void *idle_main(void *arg)
{
	pause();
	return arg;
}

static void *exit3_main(void *arg)
{
	(void)arg;
	_exit(3);
}

static void *kill_main(void *arg)
{
	by_signal(SIGKILL);
	return arg;
}

static void do_threads_exit3(void)
{
	start_thread(idle_main);
	start_thread(exit3_main);
	pause();
}
static void do_threads_sigkill(void)
{
	start_thread(idle_main);
	start_thread(kill_main);
	pause();
}

/* Until the main thread is a zombie: the other is then the last that has the file. */
static void wait_for_leaders_end(void)
{
	char state = 0;

	while (state != 'Z') {
		FILE *f = fopen("/proc/self/stat", "re");

		if (!f || fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
			err(99, "/proc/self/stat");
		fclose(f);
		sched_yield();
	}
}

static void *survivor_exit0_main(void *arg)
{
	(void)arg;
	wait_for_leaders_end();
	_exit(0);
}

static void *survivor_kill_main(void *arg)
{
	wait_for_leaders_end();
	by_signal(SIGKILL);
	return arg;
}

static void do_leaderless_exit0(void)
{
	start_thread(survivor_exit0_main);
	syscall(SYS_exit, 0); /* of this thread alone */
}
static void do_leaderless_sigkill(void)
{
	start_thread(survivor_kill_main);
	syscall(SYS_exit, 0); /* of this thread alone */
}

/* A thread with a table of descriptors of its own, and the file in it, ends alone. */
static void *lone_main(void *arg)
{
	if (unshare(CLONE_FILES))
		err(99, "unshare");
	open_file(0);
	ready();
	wait_for_usr1();
	return arg;
}

/* When this returns the thread may still be about to close the file. */
static void wait_for_lone_thread(void)
{
	pthread_join(start_thread(lone_main), NULL);
}

static void do_lone_thread(void)
{
	wait_for_lone_thread();
	raise(SIGSTOP);
}

/* --- exec --- */

static void do_exec(void)
{
	execl("/bin/true", "true", (char *)NULL);
	err(99, "exec");
}
static void do_exec_fail(void)
{
	execl("/bin/false", "false", (char *)NULL);
	err(99, "exec");
}

static void do_lone_thread_exec(void)
{
	wait_for_lone_thread();
	do_exec();
}

static void *exec_main(void *arg)
{
	do_exec();
	return arg;
}

static void do_exec_thread(void)
{
	start_thread(exec_main);
	pause();
}

/* --- children --- */

static void do_fork_close(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		close(fd);
		_exit(0);
	}
	wait_for_child(pid);
	do_close();
}
static void do_fork_exit0(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	wait_for_child(pid);
	do_close();
}
static void do_fork_sigkill(void)
{
	pid_t pid = fork();

	if (pid == 0)
		by_signal(SIGKILL);
	wait_for_child(pid);
	do_close();
}
static void do_fork_exec(void)
{
	pid_t pid = fork();

	if (pid == 0)
		do_exec();
	wait_for_child(pid);
	do_close();
}
/* The kernel sends the child SIGUSR1 when its parent has closed all that it had open. */
static void do_parent_killed(void)
{
	pid_t parent = getpid(), pid;
	int up[2];
	char c = 0;

	if (pipe(up))
		err(99, "pipe");
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGUSR1);
		if (getppid() != parent || write(up[1], &c, 1) != 1)
			_exit(99);
		wait_for_usr1();
		_exit(0);
	}
	if (pid < 0 || read(up[0], &c, 1) != 1)
		err(99, "child");
	by_signal(SIGKILL);
}

static void run_system(const char *command, int want)
{
	int status = system(command);

	if (!WIFEXITED(status) || WEXITSTATUS(status) != want)
		errx(99, "system: %d", status);
	do_close();
}

static void do_system(void)
{
	run_system("exit 0", 0);
}
static void do_system_fails(void)
{
	run_system("exit 5", 5);
}

static void do_spawn(void)
{
	char *const argv[] = {"true", NULL}, *const none[] = {NULL};
	pid_t pid;

	errno = posix_spawn(&pid, "/bin/true", NULL, NULL, argv, none);
	if (errno)
		err(99, "spawn");
	wait_for_child(pid);
	do_close();
}

static const struct kind {
	const char *name;
	void (*end)(void);
	int flags; /* of open; -1: opens it itself */
		   /* FLUSH: + alive, 0 ended with exit status 0, else what it died of. */
} kinds[] = {
	{"close", do_close, 0},
	{"exit0", do_exit0, 0},
	{"exit1", do_exit1, 0},
	{"sigkill", do_sigkill, 0},
	{"sigterm", do_sigterm, 0},
	{"sigsegv", do_sigsegv, 0},
	{"core", do_core, 0},
	{"hold", do_hold, 0},
	{"wait-exit0", do_wait_exit0, 0},
	{"nodump-exit0", do_nodump_exit0, 0},
	{"nodump-sigkill", do_nodump_sigkill, 0},
	{"threads-exit3", do_threads_exit3, 0},
	{"threads-sigkill", do_threads_sigkill, 0},
	{"leaderless-exit0", do_leaderless_exit0, 0},
	{"leaderless-sigkill", do_leaderless_sigkill, 0},
	{"lone-thread", do_lone_thread, -1},
	{"lone-thread-exec", do_lone_thread_exec, -1},
	{"exec", do_exec, O_CLOEXEC},
	{"exec-thread", do_exec_thread, O_CLOEXEC},
	{"exec-kept", do_exec, 0},
	{"exec-kept-fails", do_exec_fail, 0},
	{"fork-close", do_fork_close, 0},
	{"fork-exit0", do_fork_exit0, 0},
	{"fork-sigkill", do_fork_sigkill, 0},
	{"fork-exec", do_fork_exec, O_CLOEXEC},
	{"parent-killed", do_parent_killed, 0},
	{"system", do_system, 0},
	{"system-fails", do_system_fails, 0},
	{"system-cloexec", do_system, O_CLOEXEC},
	{"spawn", do_spawn, 0},
	{"spawn-cloexec", do_spawn, O_CLOEXEC},
};

int main(int argc, char **argv)
{
	const size_t nr = sizeof(kinds) / sizeof(*kinds);
	size_t i;

	for (i = 0; argc == 3 && i < nr; i++)
		if (!strcmp(kinds[i].name, argv[1]))
			break;
	if (argc != 3 || i == nr)
		errx(2, "usage: writer KIND FILE");
	file = argv[2];
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, NULL);
	if (kinds[i].flags >= 0)
		open_file(kinds[i].flags);
	kinds[i].end();
	_exit(0);
}
