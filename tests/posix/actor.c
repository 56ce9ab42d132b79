// SPDX-License-Identifier: MIT
/*
 * An actor is a child process that has the credentials of one user and does
 * steps of a script for its parent, one at a time, over a socket pair. Its
 * credentials are switched once and for good, before the first step.
 */
#include "posixcmp.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STEP_TIMEOUT_MS 10000
#define REAP_TIMEOUT_MS 2000

static void become(const struct cred *cr)
{
	if (cr->keep)
		return;
	if (setgroups(cr->nr_groups, cr->groups) || setresgid(cr->gid, cr->gid, cr->gid) ||
	    setresuid(cr->uid, cr->uid, cr->uid)) {
		perror("posixcmp: cannot become another user");
		_exit(125);
	}
	/* else /proc/self/fd would belong to root */
	prctl(PR_SET_DUMPABLE, 1);
}

static void actor_main(int sock)
{
	static struct ctx c;
	static char step[STEP_MAX];
	ssize_t n;

	ctx_init(&c);
	send(sock, "o", 1, MSG_NOSIGNAL);
	while ((n = recv(sock, step, sizeof(step) - 1, 0)) > 0) {
		step[n] = 0;
		/* the first byte of the answer is the kind of reply */
		step_run(&c, step);
		memmove(c.out + 1, c.out, c.len < REPLY_MAX - 1 ? c.len : REPLY_MAX - 1);
		c.out[0] = c.bad ? 'b' : c.failed ? 'f' : 'o';
		if (send(sock, c.out, c.len + 1 < REPLY_MAX ? c.len + 1 : REPLY_MAX, MSG_NOSIGNAL) <
		    0)
			break;
	}
	_exit(0);
}

static void child_main(int sock, const struct cred *cr, const char *dir)
{
	struct rlimit no_core = {0, 0};

	/* the sockets of the other actors are none of our business */
	if ((sock != 3 && dup2(sock, 3) < 0) || close_range(4, ~0U, 0))
		_exit(125);
	fcntl(3, F_SETFD, FD_CLOEXEC);
	setrlimit(RLIMIT_CORE, &no_core);
	signal(SIGPIPE, SIG_IGN);
	/* a terminal sends it to us too; the parent will see to the end */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	umask(0);
	if (chdir(dir)) {
		fprintf(stderr, "posixcmp: %s: %s\n", dir, strerror(errno));
		_exit(125);
	}
	become(cr);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	actor_main(3);
}

int actor_start(struct actor *a, const struct cred *cr, const char *dir)
{
	char text[REPLY_MAX];
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv))
		return -errno;
	fflush(stdout);
	a->pid = fork();
	if (a->pid == 0)
		child_main(sv[1], cr, dir);
	close(sv[1]);
	a->sock = sv[0];
	if (a->pid < 0) {
		a->pid = 0;
		close(sv[0]);
		return -EAGAIN;
	}
	return actor_ask(a, NULL, text) == REPLY_OK ? 0 : -EIO;
}

/* A process stuck in an uninterruptible wait is left behind. */
static int reap(pid_t pid, int *status)
{
	struct timespec tick = {.tv_nsec = 50000};
	int i;

	for (i = 0; i < REAP_TIMEOUT_MS * 20; i++) {
		if (waitpid(pid, status, WNOHANG) == pid)
			return 0;
		nanosleep(&tick, NULL);
	}
	return -1;
}

static void actor_kill(struct actor *a)
{
	int status;

	kill(a->pid, SIGKILL);
	reap(a->pid, &status);
	close(a->sock);
	a->pid = 0;
}

static enum reply actor_died(struct actor *a, char *text)
{
	int status = 0;

	if (reap(a->pid, &status))
		snprintf(text, REPLY_MAX, "no answer from its process");
	else if (WIFSIGNALED(status))
		snprintf(text, REPLY_MAX, "killed by SIG%s", sigabbrev_np(WTERMSIG(status)));
	else
		snprintf(text, REPLY_MAX, "its process ended with %d", WEXITSTATUS(status));
	close(a->sock);
	a->pid = 0;
	return REPLY_DIED;
}

/* How many times longer everything may take: tests/run --slow. */
static int slowness(void)
{
	const char *text = getenv("TEST_SLOW");
	int n = text ? atoi(text) : 0;

	return n > 0 ? n : 1;
}

enum reply actor_ask(struct actor *a, const char *step, char *text)
{
	struct pollfd p = {.fd = a->sock, .events = POLLIN};
	ssize_t n;

	if (step && send(a->sock, step, strlen(step), MSG_NOSIGNAL) < 0)
		return actor_died(a, text);
	do
		n = poll(&p, 1, STEP_TIMEOUT_MS * slowness());
	while (n < 0 && errno == EINTR);
	if (n <= 0) {
		actor_kill(a);
		snprintf(text, REPLY_MAX, "hung");
		return REPLY_HUNG;
	}
	n = recv(a->sock, text, REPLY_MAX - 1, 0);
	if (n <= 0)
		return actor_died(a, text);
	text[n] = 0;
	enum reply kind = text[0] == 'o' ? REPLY_OK : text[0] == 'f' ? REPLY_FAILED : REPLY_BAD;
	memmove(text, text + 1, n);
	return kind;
}

void actor_stop(struct actor *a)
{
	int status;

	if (!a->pid)
		return;
	/* it ends by itself at the end of its input, with 0 */
	shutdown(a->sock, SHUT_WR);
	if (reap(a->pid, &status)) {
		actor_kill(a);
		return;
	}
	close(a->sock);
	a->pid = 0;
}
