/* SPDX-License-Identifier: MIT */
/* ckptfs umount: has the daemon unmount; without a daemon, clears the mount point itself. */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/message.h"
#include "fs/cmd/cmd.h"
#include "fs/control_socket.h"
#include "fs/unmount.h"

#define PROBE_MS   1000
#define PATIENCE_S 15

static int refuse(const struct error *e)
{
	complain(e->text);
	return EXIT_NO;
}

static int left_ms(uint64_t deadline)
{
	uint64_t now = clock_mono_ns();

	return now < deadline ? (int)((deadline - now) / NSEC_PER_MSEC) : 0;
}

#define SILENT_MS 1000 /* until a message says what it waits for */

static int patience_ms(uint64_t deadline)
{
	int left = left_ms(deadline);

	return left < SILENT_MS ? left : SILENT_MS;
}

/* The daemon has let go of the mount: waits until it has let go of everything. */
static int wait_for_end(const struct mount_entry *m, int fd, int pid, int timeout_s,
			uint64_t deadline)
{
	/* Its connections close a moment before the process is gone. */
	__cleanup_fd int process = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	struct pollfd closed = {.fd = fd, .events = POLLIN | POLLRDHUP};
	struct pollfd gone = {.fd = process, .events = POLLIN};
	char text[MESSAGE_MAX], why[256];
	struct mount_entry other;

	if (mountinfo_find_device(m->major, m->minor, &other)) {
		MESSAGE(text, UMOUNT_REMAINS, m->path, other.path, pid);
		complain(text);
		return EXIT_DONE;
	}
	if (poll(&closed, 1, patience_ms(deadline)) == 0 && left_ms(deadline)) {
		unmount_held(m, pid, why, sizeof(why));
		MESSAGE(text, UMOUNT_WAITS, m->path, pid, why);
		complain(text);
	}
	if (poll(&closed, 1, left_ms(deadline)) > 0 &&
	    (process < 0 || poll(&gone, 1, left_ms(deadline)) > 0))
		return EXIT_DONE;
	unmount_held(m, pid, why, sizeof(why));
	MESSAGE(text, UMOUNT_TIMEOUT, m->path, pid, timeout_s, why);
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

/* There is no daemon. If the mount is dead, too, detaching it loses nothing. */
static int without_daemon(const struct mount_entry *m, const struct error *why)
{
	struct error e;

	if (mountinfo_probe(m->path, PROBE_MS) == MOUNT_ALIVE)
		return refuse(why);
	return unmount_path(m, false, &e) ? refuse(&e) : EXIT_DONE;
}

/* True if the daemon of status @s serves its mount at another path: @m is a bind mount. */
static bool is_elsewhere(const struct mount_entry *m, const json_t *s)
{
	json_t *here = json_text(m->path), *there = json_object_get(s, "mountpoint");
	bool elsewhere = there && !json_equal(here, there);

	json_decref(here);
	return elsewhere;
}

#define POLL_MS 200

/* Counts saves that are not open. While no file is open, an open save gets nothing more. */
static size_t count_ended(const json_t *pending)
{
	size_t i, nr = 0;

	for (i = 0; i < json_array_size(pending); i++)
		nr += strcmp(json_get_text(json_array_get(pending, i), "state", ""), "open") != 0;
	return nr;
}

/*
 * Waits until everything that is closed is on the backing, with progress if that takes a while.
 * True if something failed meanwhile.
 */
static bool wait_for_drain(const struct mount_entry *m, uint64_t deadline)
{
	struct progress_line line = progress_line_start(false);
	json_int_t failures = -1, before = -1;

	for (;;) {
		json_int_t dirty, flying;
		size_t files;
		json_t *status;
		struct error e;

		if (control_ask(m, "status", CONTROL_ASK_MS, &status, NULL, NULL, &e))
			break;
		dirty = json_get_int(json_object_get(status, "cache"), "dirty", 0);
		flying = json_get_int(json_object_get(status, "cache"), "flying", 0);
		files = count_ended(json_object_get(status, "pending"));
		failures = json_get_int(status, "failures", 0);
		before = before < 0 ? failures : before;
		if (json_get_int(status, "open_handles", 0))
			files = dirty = flying = 0; /* in use, as the daemon will report */
		json_decref(status);
		if ((!files && !dirty && !flying) || clock_mono_ns() >= deadline)
			break;
		progress_line_show(&line, "%s: %lld MiB and %zu files left to save", m->path,
				   (long long)(dirty + flying) >> 20, files);
		poll(NULL, 0, POLL_MS);
	}
	progress_line_end(&line);
	return failures > before;
}

/* Reports what was not saved, and why. */
static void report_failure(const struct mount_entry *m, const json_t *answer)
{
	const json_t *left = json_object_get(answer, "left");
	char text[MESSAGE_MAX];
	size_t i;

	for (i = 0; i + 1 < json_array_size(left); i++) /* the last one is last_failure */
		complain(json_string_value(json_array_get(left, i)));
	MESSAGE(text, DRAIN_FAILED, m->path, json_get_text(answer, "last_failure", "?"));
	complain(text);
}

/* Asks the daemon, which answered a moment ago. Unmounting may take its time. */
static int by_daemon(const struct mount_entry *m, int timeout_s)
{
	int ms = timeout_s * 1000 > CONTROL_ASK_MS ? timeout_s * 1000 : CONTROL_ASK_MS, pid, err;
	uint64_t deadline = clock_mono_ns() + (uint64_t)ms * NSEC_PER_MSEC;
	bool failed = wait_for_drain(m, deadline);
	__cleanup_fd int fd = -1;
	struct error e;
	json_t *answer;

	ms = left_ms(deadline) > CONTROL_ASK_MS ? left_ms(deadline) : CONTROL_ASK_MS;
	err = control_ask(m, "umount", ms, &answer, &pid, &fd, &e);
	if (err == -ETIMEDOUT)
		FAIL(&e, ETIMEDOUT, UMOUNT_SLOW, m->path, pid, timeout_s, m->path);
	if (err)
		return err == -ECONNREFUSED ? without_daemon(m, &e) : refuse(&e);
	failed = failed || json_is_true(json_object_get(answer, "failed"));
	if (failed)
		report_failure(m, answer);
	json_decref(answer);
	err = wait_for_end(m, fd, pid, timeout_s, deadline);
	return failed ? EXIT_NO : err;
}

static bool is_stopped(int pid)
{
	char path[64], line[128] = "", state = '?';
	__cleanup_file FILE *f = NULL;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (f && fgets(line, sizeof(line), f) && strrchr(line, ')'))
		state = strrchr(line, ')')[1] ? strrchr(line, ')')[2] : '?';
	return state == 'T' || state == 't';
}

/*
 * A daemon that is slow to answer, on a busy machine, gets more time; one that was stopped does
 * not.
 */
static int ask_status(const struct mount_entry *m, int timeout_s, json_t **status, struct error *e)
{
	int pid, err = control_ask(m, "status", CONTROL_ASK_MS, status, &pid, NULL, e);

	if (err == -ETIMEDOUT && timeout_s * 1000 > CONTROL_ASK_MS && !is_stopped(pid))
		err = control_ask(m, "status",
				  (timeout_s < PATIENCE_S ? timeout_s : PATIENCE_S) * 1000, status,
				  NULL, NULL, e);
	return err;
}

static int do_umount(const char *path, int timeout_s, bool force)
{
	char resolved[PATH_MAX];
	struct mount_entry m;
	struct error e;
	json_t *status;
	bool elsewhere;

	if (!find_mount(path, &m))
		return EXIT_NO;
	if (mountinfo_resolve(path, resolved) || strcmp(resolved, m.path)) {
		FAIL(&e, EINVAL, UMOUNT_INSIDE, path, m.path, m.path);
		return refuse(&e);
	}
	if (force)
		return by_force(&m);
	if (ask_status(&m, timeout_s, &status, &e))
		return e.err == ECONNREFUSED ? without_daemon(&m, &e) : refuse(&e);
	elsewhere = is_elsewhere(&m, status);
	json_decref(status);
	if (!elsewhere)
		return by_daemon(&m, timeout_s);
	return unmount_bind(&m, &e) ? refuse(&e) : EXIT_DONE;
}

static const struct option longs[] = {{"help", no_argument, NULL, 'h'},
				      {"timeout", required_argument, NULL, 't'},
				      {"force", no_argument, NULL, 'f'},
				      {NULL, 0, NULL, 0}};

static int run_umount(const struct verb *v, int argc, char **argv)
{
	bool force = false;
	int timeout_s = 600, c;

	while ((c = getopt_long(argc, argv, "hft:", longs, NULL)) != -1) {
		if (c == 'h')
			return verb_help(v);
		else if (c == 'f')
			force = true;
		else if (c != 't')
			return option_error(v, argv);
		else if (!whole_seconds(optarg, &timeout_s))
			return usage_error(v, "--timeout wants whole seconds");
	}
	if (argc - optind != 1)
		return usage_error(v, "give one mount point");
	return do_umount(argv[optind], timeout_s, force);
}

const struct verb verb_umount = {
	.name = "umount",
	.args = "[--timeout SECONDS] [--force] MOUNTPOINT",
	.summary = "save what is left, then unmount",
	.help = "Returns 0 once everything that was closed is on the backing, the mount is gone "
		"and\n"
		"its daemon has ended; 1 if a file could not be saved, and stderr names it. While "
		"a\n"
		"program uses the mount, the mount stays and stderr names the program. What a "
		"dead\n"
		"daemon left at the mount point is cleared.\n"
		"\n"
		"  --timeout SECONDS    how long to wait for the daemon (600)\n"
		"  --force              abort every request first: programs get errors; works with "
		"a\n"
		"                       daemon that hangs or is stopped\n",
	.longs = longs,
	.run = run_umount,
};
