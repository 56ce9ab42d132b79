/* SPDX-License-Identifier: MIT */
/*
 * fs_signals DIR ROUNDS: file calls in DIR under a 1 kHz timer; fails at the first that
 * gives EINTR, or any other error. SIGTERM ends it with success.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

static volatile sig_atomic_t ticks, ended;

static void on_tick(int sig)
{
	if (sig == SIGTERM)
		ended = 1;
	else
		ticks++;
}

static void must(int ok, const char *what, int round)
{
	if (!ok)
		err(1, "%s, round %d, tick %d", what, round, (int)ticks);
}

int main(int argc, char **argv)
{
	struct sigaction tick = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
	struct itimerval every = {{0, 1000}, {0, 1000}};
	static char block[65536];
	struct stat st;
	int i, fd, rounds = argc == 3 ? atoi(argv[2]) : 0;

	if (!rounds || chdir(argv[1]))
		errx(2, "usage: fs_signals DIR ROUNDS");
	sigaction(SIGALRM, &tick, NULL);
	sigaction(SIGTERM, &tick, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	close(open("signals.started", O_CREAT | O_WRONLY, 0600));
	for (i = 0; i < rounds && !ended; i++) {
		must((fd = open("a", O_CREAT | O_RDWR, 0600)) >= 0, "open", i);
		must(write(fd, block, sizeof(block)) == sizeof(block), "write", i);
		must(pread(fd, block, sizeof(block), 0) == sizeof(block), "read", i);
		must(!ftruncate(fd, 100), "ftruncate", i);
		must(!close(fd), "close", i);
		must(!stat("a", &st), "stat", i);
		must(!rename("a", "b"), "rename", i);
		must(!mkdir("d", 0700), "mkdir", i);
		must(!rmdir("d"), "rmdir", i);
		must(!link("b", "c"), "link", i);
		must(!unlink("b"), "unlink", i);
		must(!unlink("c"), "unlink", i);
	}
	printf("%d rounds, %d ticks\n", i, (int)ticks);
	return ticks ? 0 : 1;
}
