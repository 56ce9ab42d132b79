/* SPDX-License-Identifier: MIT */
/* ckptfs umount: asks the daemon; where there is none any more, clears the mount point itself. */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "fs/cmd/cmd.h"
#include "fs/control_socket.h"
#include "fs/unmount.h"

#define PROBE_MS 1000

static int refuse(const struct error *e)
{
	complain(e->text);
	return EXIT_NO;
}

/* The daemon has let go of the mount; wait until it has let go of everything. */
static int wait_for_end(const struct mount_entry *m, int fd, int pid, int timeout_s)
{
	/* Its connections close a moment before the process is gone. */
	__cleanup_fd int process = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	struct pollfd closed = {.fd = fd, .events = POLLIN | POLLRDHUP};
	struct pollfd gone = {.fd = process, .events = POLLIN};
	char text[MESSAGE_MAX];
	struct mount_entry other;

	if (mountinfo_find_device(m->major, m->minor, &other)) {
		MESSAGE(text, UMOUNT_REMAINS, m->path, other.path, pid);
		complain(text);
		return EXIT_DONE;
	}
	if (poll(&closed, 1, timeout_s * 1000) > 0 &&
	    (process < 0 || poll(&gone, 1, timeout_s * 1000) > 0))
		return EXIT_DONE;
	MESSAGE(text, UMOUNT_TIMEOUT, m->path, pid, timeout_s);
	complain(text);
	return EXIT_NO;
}

static int by_force(const struct mount_entry *m)
{
	struct error e;

	if (geteuid() != 0 && geteuid() != m->user) {
		FAIL(&e, EPERM, UMOUNT_DENIED, m->path, (unsigned)m->user);
		return refuse(&e);
	}
	return unmount_path(m, true, &e) ? refuse(&e) : EXIT_DONE;
}

/* No daemon answers. If it is dead, nothing can be lost by detaching. */
static int without_daemon(const struct mount_entry *m, const struct error *why)
{
	struct error e;

	if (why->err != ECONNREFUSED || mountinfo_probe(m->path, PROBE_MS) == MOUNT_ALIVE)
		return refuse(why);
	return unmount_path(m, false, &e) ? refuse(&e) : EXIT_DONE;
}

static int do_umount(const char *path, int timeout_s, bool force)
{
	char resolved[PATH_MAX];
	struct mount_entry m;
	struct error e;
	json_t *answer;
	__cleanup_fd int fd = -1;
	bool elsewhere;
	int pid;

	if (!find_mount(path, &m))
		return EXIT_NO;
	if (mountinfo_resolve(path, resolved) || strcmp(resolved, m.path)) {
		FAIL(&e, EINVAL, NOT_A_MOUNT, path);
		return refuse(&e);
	}
	if (force)
		return by_force(&m);
	if (!control_ask(&m, "umount", &answer, &pid, &fd, &e)) {
		elsewhere = json_is_true(json_object_get(answer, "elsewhere"));
		json_decref(answer);
		if (elsewhere)
			return unmount_bind(&m, &e) ? refuse(&e) : EXIT_DONE;
		return wait_for_end(&m, fd, pid, timeout_s);
	}
	if (e.err == ECONNREFUSED || e.err == ETIMEDOUT)
		return without_daemon(&m, &e);
	return refuse(&e);
}

static int run_umount(const struct verb *v, int argc, char **argv)
{
	static const struct option longs[] = {{"help", no_argument, NULL, 'h'},
					      {"timeout", required_argument, NULL, 't'},
					      {"force", no_argument, NULL, 'f'},
					      {NULL, 0, NULL, 0}};
	bool force = false;
	long timeout_s;
	const char *given = "600";
	char *end;
	int c;

	while ((c = getopt_long(argc, argv, "hft:", longs, NULL)) != -1) {
		if (c == 'h')
			return verb_help(v);
		else if (c == 'f')
			force = true;
		else if (c == 't')
			given = optarg;
		else
			return usage_error(v, "cannot use these options");
	}
	timeout_s = strtol(given, &end, 10);
	if (!*given || *end || timeout_s < 0 || timeout_s > 1000000)
		return usage_error(v, "--timeout wants whole seconds");
	if (argc - optind != 1)
		return usage_error(v, "give one mount point");
	return do_umount(argv[optind], (int)timeout_s, force);
}

const struct verb verb_umount = {
	.name = "umount",
	.args = "[--timeout SECONDS] [--force] MOUNTPOINT",
	.summary = "unmount MOUNTPOINT, and clear what a dead daemon left there",
	.help = "Returns 0 once the mount is gone and its daemon has ended. While a program uses "
		"the mount\n"
		"it stays, and the programs are named.\n"
		"\n"
		"  --timeout SECONDS    how long to wait for the daemon (600)\n"
		"  --force              abort every request first: programs get errors; works with "
		"a\n"
		"                       hanging or stopped daemon\n",
	.run = run_umount,
};
