/* SPDX-License-Identifier: MIT */
/*
 * ckptfs mount: checks what it can, then becomes the daemon (-f), or starts it in a child process
 * and waits until the mount answers.
 */
#include <dirent.h>
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
#include "engine/base/message.h"
#include "engine/config/config.h"
#include "engine/format/format.h"
#include "fs/cmd/cmd.h"
#include "fs/control_socket.h"
#include "fs/daemon.h"
#include "fs/remount.h"
#include "fs/show.h"
#include "fs/unmount.h"

#define MOUNT_TIMEOUT_S 30
#define PROBE_MS	2000

/* --- before anything is touched --- */

/* Refuses a live mount at @point; clears the remains of a dead one. */
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

/* True if @wanted describes an ancestor of the directory @fd. */
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

#define NAMES_SHOWN 3

/* Lists the first names in @dir as text: "'a', 'b', 'c' and more". False: it is empty. */
static bool list_names(int dir, char *buf, size_t size)
{
	__cleanup_fd int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	size_t len = 0;
	int nr = 0;

	*buf = '\0';
	if (d)
		take_fd(&fd);
	while (d && nr <= NAMES_SHOWN && (entry = readdir(d))) {
		char name[NAME_MAX + 1];

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (nr++ == NAMES_SHOWN)
			snprintf(buf + len, size - len, " and more");
		else
			len += (size_t)snprintf(buf + len, size - len, "%s'%s'", len ? ", " : "",
						show_name(name, sizeof(name), entry->d_name));
	}
	if (d)
		closedir(d);
	return nr > 0;
}

/* True if @backing is an empty directory, or @fd is what another mount has as its backing. */
static bool look_swapped(int fd, const char *backing)
{
	__cleanup_fd int other = open(backing, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char names[MESSAGE_MAX];
	struct stat st;

	return !fstatat(fd, FORMAT_DIR "/" FORMAT_FILE, &st, AT_SYMLINK_NOFOLLOW) ||
	       (other >= 0 && !list_names(other, names, sizeof(names)));
}

/* Refuses a mount point whose names the mount would hide. One mounted over itself hides nothing. */
static int check_empty(int fd, const char *point, const char *backing, struct error *e)
{
	char names[(NAMES_SHOWN + 1) * NAME_MAX];
	struct stat st, own;

	if ((!stat(backing, &st) && !fstat(fd, &own) && st.st_dev == own.st_dev &&
	     st.st_ino == own.st_ino) ||
	    !list_names(fd, names, sizeof(names)))
		return 0;
	if (look_swapped(fd, backing))
		return FAIL(e, ENOTEMPTY, MOUNT_SWAPPED, point, names, point, backing);
	return FAIL(e, ENOTEMPTY, MOUNTPOINT_NOT_EMPTY, point, names);
}

static int check_mountpoint(const char *point, const char *backing, bool non_empty, struct error *e)
{
	struct stat st;
	__cleanup_fd int fd = open(point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT && *backing && stat(backing, &st) && errno == ENOENT)
		return FAIL(e, ENOENT, BOTH_MISSING, backing, point, backing, point);
	if (fd < 0 && errno == ENOENT)
		return FAIL(e, ENOENT, MOUNTPOINT_MISSING, point, point);
	if (fd < 0)
		return FAIL(e, errno, MOUNTPOINT_UNUSABLE, point, strerror(errno));
	/* The backing itself is checked later, with all else about it. */
	if (!stat(backing, &st) && is_inside(fd, &st))
		return FAIL(e, ELOOP, MOUNTPOINT_INSIDE, point, backing);
	return non_empty ? 0 : check_empty(fd, point, backing, e);
}

/* Refuses "host:/path" and "s3://bucket", unless such a directory exists. */
static int check_backing_is_local(const char *backing, struct error *e)
{
	const char *colon = strchr(backing, ':');
	struct stat st;

	if (!colon || colon[1] != '/' || strchr(backing, '/') < colon || !stat(backing, &st))
		return 0;
	return FAIL(e, EINVAL, BACKING_REMOTE, backing);
}

/* Refuses, without touching it, a mount as a backing: it would wait for itself. */
static int check_backing_is_no_mount(const char *backing, struct error *e)
{
	char resolved[PATH_MAX];
	struct mount_entry m;

	if (!mountinfo_resolve(backing, resolved) && mountinfo_find_ckptfs(resolved, &m))
		return FAIL(e, EBUSY, BACKING_IS_MOUNT, backing, m.path);
	return 0;
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

/* The child's whole life. An error text goes up the pipe. */
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

/*
 * Reads the child's report: dots while it waits, then "+" or an error text; nothing if it died. 0
 * or -ETIMEDOUT.
 */
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

/* Options that are not given keep their values: reads them on top of the mount's. */
static int do_remount(const char *point, const char *options)
{
	struct config config;
	struct mount_entry m;
	struct error e;
	int err = remount_find(point, &m, &e);

	config_init(&config);
	if (!err) {
		config.read_only = m.read_only;
		config.no_exec = m.no_exec;
		config.no_atime = m.no_atime;
		err = config_apply_options(&config, options, &e);
	}
	if (!err)
		err = remount(&m, &config, &e);
	if (err)
		complain(e.text);
	config_finish(&config);
	return err ? EXIT_NO : EXIT_DONE;
}

/* Takes over @config. */
static int do_mount(const char *backing, const char *point, struct config *config, bool foreground)
{
	struct error e = {0};
	char resolved_point[PATH_MAX], resolved_backing[PATH_MAX];
	struct daemon_options o = {.config = config,
				   .backing = resolved_backing,
				   .mountpoint = resolved_point,
				   .foreground = foreground};
	int err = check_backing_is_local(backing, &e);

	if (!err)
		err = check_backing_is_no_mount(backing, &e);
	if (!err) {
		err = mountinfo_resolve(point, resolved_point);
		if (err)
			FAIL(&e, -err, MOUNTPOINT_UNUSABLE, point, strerror(-err));
	}
	/* A relative path starts at the caller's working directory; the daemon has another. */
	if (!err && !realpath(backing, resolved_backing))
		snprintf(resolved_backing, sizeof(resolved_backing), "%s", backing);
	if (!err)
		err = clear_mountpoint(resolved_point, &e);
	if (!err)
		err = check_mountpoint(resolved_point, resolved_backing, config->non_empty, &e);
	if (err) {
		complain(e.text);
		err = EXIT_NO;
	} else {
		err = foreground ? run_foreground(&o) : start_daemon(&o);
	}
	config_finish(config); /* this process's copy; empty if a daemon in it took it over */
	return err;
}

/* --- the verb --- */

static void print_options(void)
{
	enum key k;

	printf("\nMount options (-o KEY=VALUE,...; the same keys stand in the config file, as "
	       "JSON):\n");
	printf("  config=FILE          read options from this JSON file first\n");
	printf("  ro                   read-only\n");
	printf("  noatime              reads change no access time (root only)\n");
	printf("  nonempty             hide what is in MOUNTPOINT\n");
	for (k = 0; k < NR_KEYS; k++) {
		const struct key_info *i = &key_table[k];

		printf("  %-20s %s", i->name, i->help);
		if (i->value[0])
			printf(" (%s)", i->value);
		putchar('\n');
	}
}

/* Appends one more -o argument to the options so far. False: no memory. */
static bool add_options(char **list, const char *more)
{
	char *joined;

	if (asprintf(&joined, "%s%s%s", *list ? *list : "", *list ? "," : "", more) < 0)
		return false;
	free(*list);
	*list = joined;
	return true;
}

static const struct option longs[] = {{"help", no_argument, NULL, 'h'},
				      {"foreground", no_argument, NULL, 'f'},
				      {"options", required_argument, NULL, 'o'},
				      {NULL, 0, NULL, 0}};

/* Tells where a mount option belongs that was given as an option of the command: "--cache 4G". */
static int wrong_option(const struct verb *v, int argc, char **argv)
{
	const char *given = argv[optind - 1], *value = strchr(given, '=');
	size_t len = strcspn(given, "=");
	char name[64];
	enum key k;

	snprintf(name, sizeof(name), "%.*s", (int)len, given);
	k = optopt || len < 5 ? NR_KEYS : key_find(name + 2);
	if (k == NR_KEYS && !optopt && len >= 5)
		k = key_meant(name + 2);
	if (k == NR_KEYS)
		return option_error(v, argv);
	/* If three words follow, the first one is its value. */
	value = value ? value + 1 : argc - optind == 3 ? argv[optind] : "...";
	if (key_table[k].type == KEY_BOOL)
		return usage_error(v, "mount options go behind -o: -o %s", key_table[k].name);
	return usage_error(v, "mount options go behind -o: -o %s=%s", key_table[k].name, value);
}

static int run_mount(const struct verb *v, int argc, char **argv)
{
	__cleanup_free char *options = NULL;
	bool foreground = false;
	struct config config;
	struct error e = {0};
	bool is_remount;
	int c;

	while ((c = getopt_long(argc, argv, "fho:", longs, NULL)) != -1) {
		if (c == 'f')
			foreground = true;
		else if (c == 'h')
			return verb_help(v);
		else if (c != 'o')
			return wrong_option(v, argc, argv);
		else if (!add_options(&options, optarg))
			return EXIT_NO;
	}
	config_init(&config);
	if (config_apply_options(&config, options ? options : "", &e)) {
		complain(e.text);
		config_finish(&config);
		return EXIT_NO;
	}
	is_remount = config.remount;
	if (is_remount)
		config_finish(&config);
	if (is_remount && (argc - optind == 1 || argc - optind == 2))
		return do_remount(argv[argc - 1], options);
	if (!is_remount && argc - optind == 2)
		return do_mount(argv[optind], argv[optind + 1], &config, foreground);
	if (!is_remount)
		config_finish(&config);
	return usage_error(v, "give a backing directory and a mount point");
}

const struct verb verb_mount = {
	.name = "mount",
	.args = "[-f] [-o OPTIONS] BACKING MOUNTPOINT",
	.summary = "mount the directory BACKING at MOUNTPOINT",
	.help = "Returns 0 once the mount answers. Root may mount anywhere; an ordinary user "
		"where\n"
		"/dev/fuse and fusermount3 allow it, and then for that user alone unless\n"
		"allow_other is given. A mount point that is not empty is refused (see nonempty).\n"
		"\n"
		"  -f, --foreground     stay in the foreground and log to stderr\n"
		"  -o, --options LIST   comma-separated, see below; -o remount,ro and -o "
		"remount,rw\n"
		"                       change a mount that is there\n"
		"\n"
		"Examples:\n"
		"  ckptfs mount /pfs/ckpt /ckpt\n"
		"  ckptfs mount -o config=/etc/ckptfs.json,node=gpu07 /pfs/ckpt /ckpt\n"
		"  mount -t ckptfs /pfs/ckpt /ckpt\n",
	.more = print_options,
	.longs = longs,
	.run = run_mount,
};
