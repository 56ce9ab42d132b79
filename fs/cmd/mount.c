/* SPDX-License-Identifier: MIT */
/* ckptfs mount: checks what can be checked, then becomes the daemon and waits until it answers. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/ckptfs_abi.h"
#include "engine/base/cleanup.h"
#include "fs/cmd/cmd.h"
#include "fs/control_socket.h"
#include "fs/daemon.h"
#include "fs/unmount.h"

#define MOUNT_TIMEOUT_S 30
#define PROBE_MS	2000

/* --- before anything is touched --- */

/* A live mount is left alone; the remains of a dead one are cleared away. */
static int clear_mountpoint(const char *point, struct error *e)
{
	struct mount_entry m;
	json_t *answer;
	int pid = 0, err;

	if (!mountinfo_find_ckptfs(point, &m) || strcmp(m.path, point))
		return 0;
	err = control_ask(&m, "status", CONTROL_ASK_MS, &answer, &pid, NULL, e);
	json_decref(answer);
	if (err != -ECONNREFUSED || mountinfo_probe(point, PROBE_MS) != MOUNT_DEAD)
		return FAIL(e, EBUSY, ALREADY_MOUNTED, point, m.source, pid, point);
	err = unmount_path(&m, false, e);
	if (!err) {
		char text[MESSAGE_MAX];

		MESSAGE(text, STALE_CLEARED, point);
		complain(text);
	}
	return err;
}

/* Is the directory @fd, or an ancestor of it, the one @wanted describes? */
static bool is_inside(int fd, const struct stat *wanted)
{
	__cleanup_fd int at = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat st, last = {0};

	while (at >= 0 && !fstat(at, &st)) {
		int up;

		if (st.st_dev == wanted->st_dev && st.st_ino == wanted->st_ino)
			return true;
		if (st.st_dev == last.st_dev && st.st_ino == last.st_ino)
			return false;
		last = st;
		up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		close(at);
		at = up;
	}
	return false;
}

static int check_mountpoint(const char *point, const char *backing, struct error *e)
{
	struct stat st;
	__cleanup_fd int fd = open(point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return FAIL(e, errno, MOUNTPOINT_UNUSABLE, point, strerror(errno));
	/* The backing itself is checked later, with the rest about it. */
	if (!stat(backing, &st) && is_inside(fd, &st))
		return FAIL(e, ELOOP, MOUNTPOINT_INSIDE, point, backing);
	return 0;
}

/* A mount over a mount would wait for itself; this must be known without touching it. */
static int check_backing_is_no_mount(const char *backing, struct error *e)
{
	char resolved[PATH_MAX];
	struct mount_entry m;

	if (!mountinfo_resolve(backing, resolved) && mountinfo_find_ckptfs(resolved, &m))
		return FAIL(e, EBUSY, BACKING_IS_MOUNT, backing, m.path);
	return 0;
}

static void warn_without_effect(const struct config *c)
{
	char text[MESSAGE_MAX];
	enum key k;

	for (k = 0; k < NR_KEYS; k++) {
		if (!config_given(c, k) || key_table[k].effective)
			continue;
		MESSAGE(text, OPTION_NO_EFFECT, key_table[k].name, CKPTFS_VERSION);
		complain(text);
	}
}

/* --- the daemon in a process of its own --- */

static void report_ready(void *arg)
{
	int fd = *(int *)arg, null;
	ssize_t ignored;

	if (fd < 0) {
		fprintf(stderr, "ckptfs: mounted; Ctrl-C unmounts\n");
		return;
	}
	null = open("/dev/null", O_RDWR);
	if (null >= 0) {
		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		if (null > 2)
			close(null);
	}
	ignored = write(fd, "+", 1);
	(void)ignored;
	close(fd);
}

static void report_waiting(void *arg)
{
	int fd = *(int *)arg;
	ssize_t ignored = fd < 0 ? 0 : write(fd, ".", 1);

	(void)ignored;
}

/* The caller's pipes and locks must not live as long as the mount. */
static void close_inherited(int but)
{
	if (but > 3)
		close_range(3, (unsigned)but - 1, 0);
	close_range((unsigned)but + 1, ~0u, 0);
}

/* The child's whole life. What went wrong goes up the pipe. */
static int be_daemon(struct daemon_options *o, int fd)
{
	struct error e = {0};
	ssize_t ignored;
	int err;

	setsid();
	if (chdir("/"))
		return EXIT_NO;
	o->ready = report_ready;
	o->waits = report_waiting;
	o->arg = &fd;
	err = daemon_run(o, &e);
	if (!err)
		return EXIT_DONE;
	ignored = write(fd, e.text, strlen(e.text));
	(void)ignored;
	return EXIT_NO;
}

/* Reads the child's report: dots while it waits, then "+" or an error text; 0 bytes if it died. -ETIMEDOUT if late. */
static int wait_for_report(int fd, char *text, size_t size)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	size_t len = 0, dots;
	ssize_t n;

	do {
		if (poll(&p, 1, MOUNT_TIMEOUT_S * 1000) == 0)
			return -ETIMEDOUT;
		n = read(fd, text + len, size - 1 - len);
		if (n <= 0)
			break;
		len += (size_t)n;
		text[len] = '\0';
		dots = strspn(text, ".");
		memmove(text, text + dots, len - dots + 1);
		len -= dots;
	} while (text[0] != '+' && len < size - 1);
	text[len] = '\0';
	return 0;
}

static int start_daemon(struct daemon_options *o)
{
	char text[MESSAGE_MAX] = "";
	int pipes[2];
	pid_t child;

	if (pipe2(pipes, O_CLOEXEC) || (child = fork()) < 0) {
		complain(strerror(errno));
		return EXIT_NO;
	}
	if (child == 0) {
		close(pipes[0]);
		close_inherited(pipes[1]);
		exit(be_daemon(o, pipes[1]));
	}
	close(pipes[1]);
	if (wait_for_report(pipes[0], text, sizeof(text)) ||
	    (text[0] == '+' && mountinfo_probe(o->mountpoint, PROBE_MS) == MOUNT_SILENT)) {
		kill(child, SIGTERM);
		MESSAGE(text, MOUNT_SILENT, (int)child, o->mountpoint, MOUNT_TIMEOUT_S);
	} else if (!*text) {
		MESSAGE(text, MOUNT_DIED, o->mountpoint);
	} else if (text[0] == '+') {
		return EXIT_DONE;
	}
	complain(text);
	return EXIT_NO;
}

static int run_foreground(struct daemon_options *o)
{
	struct error e = {0};
	int no_pipe = -1;

	o->ready = report_ready;
	o->arg = &no_pipe;
	if (!daemon_run(o, &e))
		return EXIT_DONE;
	complain(e.text);
	return EXIT_NO;
}

static int do_mount(const char *backing, const char *point, const char *options, bool foreground)
{
	struct config config;
	struct error e = {0};
	char resolved_point[PATH_MAX], resolved_backing[PATH_MAX];
	struct daemon_options o = {.config = &config,
				   .backing = resolved_backing,
				   .mountpoint = resolved_point,
				   .foreground = foreground};
	int err;

	config_init(&config);
	err = config_apply_options(&config, options, &e);
	if (!err)
		err = check_backing_is_no_mount(backing, &e);
	if (!err) {
		err = mountinfo_resolve(point, resolved_point);
		if (err)
			FAIL(&e, -err, MOUNTPOINT_UNUSABLE, point, strerror(-err));
	}
	/* Relative paths are the caller's; the daemon has another working directory. */
	if (!err && !realpath(backing, resolved_backing))
		snprintf(resolved_backing, sizeof(resolved_backing), "%s", backing);
	if (!err)
		err = clear_mountpoint(resolved_point, &e);
	if (!err)
		err = check_mountpoint(resolved_point, resolved_backing, &e);
	if (err) {
		complain(e.text);
		err = EXIT_NO;
	} else {
		warn_without_effect(&config);
		err = foreground ? run_foreground(&o) : start_daemon(&o);
	}
	config_finish(&config); /* this process's copy, unless a daemon in it took it over */
	return err;
}

/* --- the verb --- */

static int mount_help(const struct verb *v)
{
	enum key k;

	verb_help(v);
	printf("\nMount options (-o KEY=VALUE,...; the same keys stand in the config file, as "
	       "JSON):\n");
	printf("  config=FILE          read options from this JSON file first\n");
	printf("  ro                   read-only\n");
	for (k = 0; k < NR_KEYS; k++) {
		const struct key_info *i = &key_table[k];

		printf("  %-20s %s", i->name, i->help);
		if (i->value[0])
			printf(" (%s)", i->value);
		printf("%s\n", i->effective ? "" : " [no effect yet]");
	}
	return EXIT_DONE;
}

/* Joins the -o options given so far with one more. */
static bool add_options(char **list, const char *more)
{
	char *joined;

	if (asprintf(&joined, "%s%s%s", *list ? *list : "", *list ? "," : "", more) < 0)
		return false;
	free(*list);
	*list = joined;
	return true;
}

static int run_mount(const struct verb *v, int argc, char **argv)
{
	static const struct option longs[] = {{"help", no_argument, NULL, 'h'},
					      {"foreground", no_argument, NULL, 'f'},
					      {NULL, 0, NULL, 0}};
	__cleanup_free char *options = NULL;
	bool foreground = false;
	int c;

	while ((c = getopt_long(argc, argv, "+fho:", longs, NULL)) != -1) {
		if (c == 'f')
			foreground = true;
		else if (c == 'h')
			return mount_help(v);
		else if (c != 'o' || !add_options(&options, optarg))
			return usage_error(v, "cannot use these options");
	}
	/* As mount(8) helpers are called: options may also follow the two paths. */
	if (argc - optind == 4 && !strcmp(argv[optind + 2], "-o")) {
		if (!add_options(&options, argv[optind + 3]))
			return EXIT_NO;
	} else if (argc - optind != 2) {
		return usage_error(v, "give a backing directory and a mount point");
	}
	return do_mount(argv[optind], argv[optind + 1], options ? options : "", foreground);
}

const struct verb verb_mount = {
	.name = "mount",
	.args = "[-f] [-o OPTIONS] BACKING MOUNTPOINT",
	.summary = "mount the directory BACKING at MOUNTPOINT",
	.help = "Returns 0 once the mount answers. Works as root and, where /dev/fuse and "
		"fusermount3\n"
		"allow it, as an ordinary user (then only for that user, unless allow_other is "
		"given).\n"
		"\n"
		"  -f, --foreground     stay in the foreground and log to stderr\n"
		"  -o OPTIONS           comma-separated, see below\n"
		"\n"
		"Examples:\n"
		"  ckptfs mount /pfs/ckpt /ckpt\n"
		"  ckptfs mount -o config=/etc/ckptfs.json,node=gpu07 /pfs/ckpt /ckpt\n"
		"  mount -t ckptfs /pfs/ckpt /ckpt\n",
	.run = run_mount,
};
