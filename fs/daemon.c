/* SPDX-License-Identifier: MIT */
#include "fs/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "client/ckptfs_abi.h"
#include "engine/backing/backing.h"
#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/list.h"
#include "engine/base/log.h"
#include "engine/base/message.h"
#include "engine/base/worker.h"
#include "engine/capture/capture.h"
#include "engine/commit/start.h"
#include "engine/config/config.h"
#include "fs/control_socket.h"
#include "fs/copied_commit.h"
#include "fs/fs.h"
#include "fs/indexer.h"
#include "fs/mountinfo.h"
#include "fs/rundir.h"
#include "fs/unmount.h"
#include "fs/views.h"

#define PIN_BUDGET   16384u
#define OOM_SCORE    "-900"
#define EXIT_DRAIN_S 5
#define DRAIN_SAY_S  10	 /* between two messages of a drain at the end */
#define DRAIN_MAX_S  600 /* without progress; too short gives up on a slow backing */

/* What daemon_run builds up, and takes down. */
struct daemon {
	const struct daemon_options *options;
	struct engine engine;
	struct fs fs;
	char run_dir[RUNDIR_PATH_MAX];
	char label[128];
	int label_fd;
	bool mounted;
	int init_err; /* of the kernel's first request */
	bool listening;
	ino_t socket_ino;
	struct control *control;
	struct indexer indexer;
	struct worker signal_thread;
	atomic_bool ending; /* from now on a signal only wakes the signal thread */
};

static char libfuse_said[512]; /* last complaint, for MOUNT_REFUSED; set before threads start */

static void keep_libfuse_log(enum fuse_log_level level, const char *fmt, va_list ap)
{
	char text[512];
	size_t len;

	vsnprintf(text, sizeof(text), fmt, ap);
	len = strlen(text);
	while (len && text[len - 1] == '\n')
		text[--len] = '\0';
	if (level <= FUSE_LOG_ERR)
		snprintf(libfuse_said, sizeof(libfuse_said), "%s", text);
	log_debug("libfuse: %s", text);
}

/* --- the environment of the process --- */

static void raise_fd_limit(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl))
		return;
	if (geteuid() == 0 && rl.rlim_max < 1048576)
		rl.rlim_max = 1048576;
	rl.rlim_cur = rl.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &rl) && !getrlimit(RLIMIT_NOFILE, &rl)) {
		rl.rlim_cur = rl.rlim_max;
		setrlimit(RLIMIT_NOFILE, &rl);
	}
}

/* This limits how much of the cache is locked. */
static void raise_lock_limit(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_MEMLOCK, &rl))
		return;
	rl.rlim_cur = rl.rlim_max;
	setrlimit(RLIMIT_MEMLOCK, &rl);
}

/*
 * Asks the kernel not to kill this process, which holds every user's unsaved checkpoints, when
 * memory is short; and not to let this process wait for memory that its own writes would free. Both
 * need privilege; without it the daemon goes on.
 */
static void ask_for_mercy(void)
{
	__cleanup_fd int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	ssize_t ignored = fd >= 0 ? write(fd, OOM_SCORE, strlen(OOM_SCORE)) : 0;

	(void)ignored;
	if (prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0))
		log_debug("PR_SET_IO_FLUSHER: %m");
}

/* Tests make it small by CKPTFS_PIN_BUDGET. */
static unsigned pin_budget(void)
{
	const char *given = getenv("CKPTFS_PIN_BUDGET");
	unsigned budget = given ? (unsigned)strtoul(given, NULL, 10) : PIN_BUDGET;
	struct rlimit rl;

	if (!getrlimit(RLIMIT_NOFILE, &rl) && rl.rlim_cur / 4 < budget)
		budget = (unsigned)rl.rlim_cur / 4;
	return budget ? budget : 1;
}

/* Only signal_main gets signals. */
static void block_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGHUP);
	pthread_sigmask(SIG_BLOCK, set, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* the kernel applies the caller's limit */
}

static void *signal_main(void *arg)
{
	struct daemon *d = arg;
	sigset_t set;
	int sig;

	block_signals(&set);
	while (!sigwait(&set, &sig) && !d->ending) {
		struct error e;
		int err = unmount_self(&d->fs, &e);

		if (!err)
			return NULL; /* the process ends; more signals change nothing */
		/* Busy: detached at once, gone when the last file is closed. */
		log_warn("%s", e.text);
		err = unmount_detach(&d->fs, &e);
		log_warn("%s", e.text);
		if (err)
			continue;
		if (sigwait(&set, &sig) || d->ending)
			return NULL;
		log_warn("stopped by a second signal");
		_exit(1);
	}
	return NULL;
}

/* --- mounting --- */

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	static const unsigned unwanted = FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE |
					 FUSE_CAP_SPLICE_MOVE | FUSE_CAP_HANDLE_KILLPRIV |
					 FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_READDIRPLUS |
					 FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_EXPORT_SUPPORT;
	static const unsigned wanted = FUSE_CAP_ASYNC_READ | FUSE_CAP_PARALLEL_DIROPS |
				       FUSE_CAP_AUTO_INVAL_DATA | FUSE_CAP_ASYNC_DIO |
				       FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_POSIX_ACL |
				       FUSE_CAP_DONT_MASK; /* a default ACL outranks the umask */

	(void)userdata;
	conn->want &= ~unwanted;
	conn->want |= wanted & conn->capable;
	conn->max_write = REQUEST_MAX_BYTES;
	conn->max_read = REQUEST_MAX_BYTES;
	conn->max_readahead = 16 << 20; /* the kernel takes the smaller of this and its own */
	conn->max_background = 64;
	conn->congestion_threshold = 48;
	conn->time_gran = 1;
}

/* Appends @from to @to, with option separators escaped. */
static void escape_option(char *to, size_t size, const char *from)
{
	size_t len = strlen(to);

	for (; *from && len + 3 < size; from++) {
		if (*from == ',' || *from == '\\')
			to[len++] = '\\';
		to[len++] = *from;
	}
	to[len] = '\0';
}

static bool wants_allow_other(const struct engine *en)
{
	if (!config_given(&en->config, OPT_ALLOW_OTHER))
		return geteuid() == 0 && feature(en->backing.features, FEATURE_ACT_AS_CALLER);
	return config_number(&en->config, OPT_ALLOW_OTHER);
}

static struct fuse_session *make_session(struct daemon *d)
{
	struct fuse_lowlevel_ops ops = {.init = op_init};
	char options[2 * PATH_MAX];
	char *argv[] = {"ckptfs", "-o", options, NULL};
	struct fuse_args args = FUSE_ARGS_INIT(3, argv);
	const struct config *c = &d->engine.config;
	struct fuse_session *se;
	size_t len;

	snprintf(options, sizeof(options),
		 "subtype=ckptfs,default_permissions,nosuid,nodev,max_read=%u%s%s%s%s,fsname=",
		 REQUEST_MAX_BYTES, wants_allow_other(&d->engine) ? ",allow_other" : "",
		 c->read_only ? ",ro" : "", c->no_exec ? ",noexec" : "",
		 c->no_atime ? ",noatime" : "");
	len = strlen(options);
	escape_option(options + len, sizeof(options) - len, d->engine.backing.path);
	ops_name(&ops);
	ops_attr(&ops);
	ops_file(&ops);
	ops_dir(&ops);
	ops_xattr(&ops);
	ops_ioctl(&ops);
	se = fuse_session_new(&args, &ops, sizeof(ops), &d->fs);
	fuse_opt_free_args(&args);
	return se;
}

static int check_device(struct error *e)
{
	const char *remedy =
		"ask the administrator for access to it (chmod 666 /dev/fuse is usual), "
		"or mount as root";
	__cleanup_fd int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd >= 0)
		return 0;
	if (errno == ENOENT || errno == ENODEV || errno == ENXIO)
		remedy =
			"load the kernel module: modprobe fuse; in a container, pass the device in";
	return FAIL(e, errno, FUSE_UNAVAILABLE, strerror(errno), remedy);
}

static int mount_session(struct daemon *d, struct error *e)
{
	const char *point = d->options->mountpoint;
	struct mount_entry m;

	fuse_set_log_func(keep_libfuse_log);
	d->fs.session = make_session(d);
	if (!d->fs.session || fuse_session_mount(d->fs.session, point))
		return FAIL(e, EIO, MOUNT_REFUSED, point, *libfuse_said ? ": " : "", libfuse_said);
	d->mounted = true;
	if (fuse_session_custom_io(d->fs.session, &requests_io, fuse_session_fd(d->fs.session)))
		return FAIL(e, EIO, MOUNT_REFUSED, point, ": ", libfuse_said);
	if (!mountinfo_find_at(point, &m) || strcmp(m.type, CKPTFS_FSTYPE))
		return FAIL(e, EIO, MOUNT_REFUSED, point, ": ", "it does not show in mountinfo");
	d->fs.major = m.major;
	d->fs.minor = m.minor;
	return 0;
}

/* Makes reads through the page cache larger. Only root may; the gain is small. */
static void raise_readahead(const struct daemon *d)
{
	char path[128];
	ssize_t ignored;

	snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/read_ahead_kb", d->fs.major,
		 d->fs.minor);
	__cleanup_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	ignored = write(fd, "4096", 4);
	(void)ignored;
}

/* From now on sessions can find the control directory. */
static void lend_memory(struct daemon *d)
{
	char path[PATH_MAX];

	if (!d->engine.captures)
		return;
	snprintf(path, sizeof(path), "%s/%s", d->fs.mountpoint, CKPTFS_CONTROL_DIR);
	captures_mounted(d->engine.captures, path, makedev(d->fs.major, d->fs.minor));
}

static void on_ready(struct fs *fs, int err)
{
	struct daemon *d = container_of(fs, struct daemon, fs);

	d->init_err = err;
	if (err) {
		unmount_detach(fs, &(struct error){0}); /* ends the loop */
		return;
	}
	raise_readahead(d);
	lend_memory(d);
	if (!d->options->foreground)
		log_to_syslog();
	log_info("%s is mounted at %s as node %s", d->engine.backing.path, fs->mountpoint,
		 d->label);
	d->options->ready(d->options->arg);
}

/* --- building up and taking down --- */

static int prepare(struct daemon *d, struct error *e)
{
	const struct daemon_options *o = d->options;
	int err = rundir_make(d->run_dir, e);

	/* Refuses what it can before it touches the backing. */
	if (!err)
		err = check_device(e);
	if (!err)
		err = rundir_take_label(d->run_dir, config_text(o->config, OPT_NODE), d->label,
					&d->label_fd, e);
	if (!err)
		err = engine_open(&d->engine, o->config, o->backing, e);
	if (err)
		return err;
	d->fs.engine = &d->engine;
	d->fs.mountpoint = o->mountpoint;
	d->fs.label = d->label;
	d->fs.tree = tree_create(&d->engine, pin_budget());
	d->fs.requests = requests_create(&d->fs);
	d->fs.views = views_create(&d->fs);
	if (!d->fs.tree || !d->fs.requests || !d->fs.views)
		return FAIL(e, ENOMEM, MOUNT_REFUSED, o->mountpoint, ": ", strerror(ENOMEM));
	err = engine_meet(&d->engine, d->label, d->run_dir, o->waits, o->arg, e);
	if (!err)
		err = engine_start(&d->engine, d->label, request_decide, e);
	if (!err && d->engine.units)
		units_set_knower(d->engine.units, tree_knows, d->fs.tree);
	return err;
}

static int listen_and_serve(struct daemon *d, struct error *e)
{
	int err, fd = rundir_listen(d->run_dir, d->fs.major, d->fs.minor, &d->socket_ino, e);

	if (fd < 0)
		return fd;
	d->listening = true;
	d->control = control_start(&d->fs, fd, unmount_self);
	err = d->control ? worker_start(&d->signal_thread, "ckptfs-signals", signal_main, d)
			 : -ENOMEM;
	if (!err)
		err = indexer_start(&d->indexer, &d->engine);
	if (!err)
		err = requests_serve(d->fs.requests, d->fs.session, on_ready, EXIT_DRAIN_S);
	if (!err)
		err = d->init_err;
	if (err && err != -EBUSY)
		FAIL(e, -err, MOUNT_REFUSED, d->fs.mountpoint, ": ", strerror(-err));
	return err;
}

/* The mount is gone, and no verb finds the daemon by it any more. Open connections stay. */
static void unlisten(struct daemon *d)
{
	if (d->listening)
		rundir_unlisten(d->run_dir, d->fs.major, d->fs.minor, d->socket_ino);
}

/* Ends the threads, and all else by which others see the daemon. */
static void withdraw(struct daemon *d)
{
	control_finish(d->control);
	if (d->signal_thread.runs) {
		d->ending = true;
		pthread_kill(d->signal_thread.thread, SIGHUP);
		worker_join(&d->signal_thread);
	}
	if (d->label_fd >= 0)
		rundir_drop_label(d->run_dir, d->label, d->label_fd);
}

static void tear_down(struct daemon *d)
{
	if (d->fs.session) {
		fuse_session_unmount(d->fs.session); /* frees what mounting left; it is unmounted */
		fuse_session_destroy(d->fs.session);
	}
	indexer_stop(&d->indexer);
	engine_stop(&d->engine);
	copied_commit_finish(&d->fs);
	if (d->fs.views)
		views_destroy(d->fs.views);
	tree_destroy(d->fs.tree);
	requests_destroy(d->fs.requests);
	engine_close(&d->engine);
	free(d);
}

/* Saves what is closed, after an unmount of any kind. */
static void drain(struct daemon *d)
{
	uint64_t since = clock_mono_ns(), least = UINT64_MAX;
	int err;

	engine_no_more_calls(&d->engine, d->fs.mountpoint);
	for (;;) {
		struct engine_pending p;

		err = engine_drain(&d->engine, clock_mono_ns() + DRAIN_SAY_S * NSEC_PER_SEC);
		if (err != -ETIMEDOUT)
			break;
		engine_pending(&d->engine, &p);
		if (p.dirty_bytes + p.units.closed < least) {
			least = p.dirty_bytes + p.units.closed;
			since = clock_mono_ns();
		}
		if (clock_mono_ns() - since > DRAIN_MAX_S * NSEC_PER_SEC)
			break;
		log_info("%s is unmounted, %llu MiB and %u files are left to save",
			 d->fs.mountpoint, (unsigned long long)p.dirty_bytes >> 20, p.units.closed);
	}
	if (err)
		log_warn("%s ends with files that could not be saved, see above", d->fs.mountpoint);
}

int daemon_run(const struct daemon_options *o, struct error *e)
{
	struct daemon *d = calloc(1, sizeof(*d));
	sigset_t set;
	int err;

	if (!d)
		return FAIL(e, ENOMEM, MOUNT_REFUSED, o->mountpoint, ": ", strerror(ENOMEM));
	d->options = o;
	d->label_fd = d->engine.backing.root_fd = d->engine.backing.proc_fd = -1;
	block_signals(&set);
	umask(0);
	raise_fd_limit();
	raise_lock_limit();
	ask_for_mercy();
	err = prepare(d, e);
	if (!err)
		err = mount_session(d, e);
	if (!err)
		err = listen_and_serve(d, e);
	if (err && err != -EBUSY && d->mounted)
		unmount_detach(&d->fs, &(struct error){0});
	unlisten(d);
	if (d->mounted)
		drain(d);
	withdraw(d);
	if (d->mounted)
		log_info("%s ends", o->mountpoint);
	if (err == -EBUSY && d->mounted)
		_exit(0); /* unmounted; a thread still hangs in the backing, and uses all of this */
	tear_down(d);
	return err;
}
