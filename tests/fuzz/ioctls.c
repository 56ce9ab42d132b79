/* SPDX-License-Identifier: MIT */
/*
 * Sequences of the ioctls of client/ckptfs_abi.h, as FUSE requests, against a whole engine over a
 * directory: several sessions, of two users, that register, write, fetch grants, report, fail and
 * leave at any time and with any numbers, beside plain calls on the same files. Where a call would
 * wait for what this program itself is to do, it was given up before it is served.
 *
 * Kept: each request is answered once; a grant lies in the arena and in its capture, and its place
 * is nobody else's until it is reported or void; a byte of a file is 0 or what was captured to or
 * written at that place; when all is closed, no session, slot, promise, generation, file or
 * descriptor is left, and the cache is whole.
 */
#include <dirent.h>
#include <ftw.h>
#include <signal.h>
#include <sys/resource.h>

#include "tests/fuzz/ioctls_session.h"

/* --- the world --- */

static int remove_all(const char *path, const struct stat *st, int type, struct FTW *where)
{
	(void)st;
	(void)type;
	(void)where;
	remove(path);
	return 0;
}

static void clean_up(void)
{
	nftw(w.top, remove_all, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_top(void)
{
	const char *tmp = getenv("TMPDIR");
	char path[PATH_MAX + 16];

	/* Nothing of it is to be kept: memory is faster. */
	if (!access("/dev/shm", W_OK))
		tmp = "/dev/shm";
	snprintf(w.top, sizeof(w.top), "%s/fuzz-ioctls-XXXXXX", tmp ? tmp : "/tmp");
	REQUIRE(mkdtemp(w.top));
	atexit(clean_up);
	REQUIRE(!chmod(w.top, 0755));
	snprintf(path, sizeof(path), "%s/root", w.top);
	REQUIRE(!mkdir(path, 0777) && !chmod(path, 0777));
	snprintf(path, sizeof(path), "%s/control", w.top);
	REQUIRE(!mkdir(path, 0777));
}

static void start_engine(void)
{
	char path[PATH_MAX + 16];
	struct config config;
	struct stat st;
	struct error e;

	snprintf(path, sizeof(path), "%s/root", w.top);
	config_init(&config);
	REQUIRE(!config_apply_options(&config,
				      "log_level=error,pin_host_cache=false,chunk_size=64K,"
				      "host_cache_size=1M,io_retry_s=1,stall_timeout_s=1",
				      &e));
	REQUIRE(!engine_open(&w.engine, &config, path, &e));
	REQUIRE(!engine_start(&w.engine, "n1", request_decide, &e));
	w.fs = (struct fs){.engine = &w.engine, .mountpoint = "/mnt", .label = "n1"};
	snprintf(path, sizeof(path), "%s/control", w.top);
	REQUIRE(!stat(path, &st));
	captures_mounted(w.engine.captures, path, st.st_dev);
}

static int lowest_free_fd(void)
{
	int fd = dup(w.fs.requests->fd);

	REQUIRE(fd >= 0);
	close(fd);
	return fd;
}

static void set_up(void)
{
	static struct fuse_lowlevel_ops ops;
	struct fuse_init_in in = {.major = 7, .minor = 36, .max_readahead = 1 << 20, .flags = ~0u};
	char *argv[] = {"fuzz", NULL};
	struct fuse_args args = FUSE_ARGS_INIT(1, argv);
	struct rlimit limit = {FILE_MAX, FILE_MAX};
	int fd;

	make_top();
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &limit);
	start_engine();
	w.fs.requests = requests_create(&w.fs);
	ops_name(&ops);
	ops_attr(&ops);
	ops_file(&ops);
	ops_ioctl(&ops);
	w.fs.session = fuse_session_new(&args, &ops, sizeof(ops), &w.fs);
	REQUIRE(w.fs.requests && w.fs.session);
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	REQUIRE(!fuse_session_custom_io(w.fs.session, &requests_io, fd));
	w.fs.requests->se = w.fs.session;
	w.fs.requests->fd = fd;
	fuse_opt_free_args(&args);
	w.fs.tree = tree_create(&w.engine, 16);
	REQUIRE(w.fs.tree && ask_plainly(FUSE_INIT, 0, &in, sizeof(in)));
	tree_destroy(w.fs.tree);
	w.lowest_fd = lowest_free_fd();
}

/* What threads of the engine end soon. */
#define AWAIT(condition) \
	do { \
		uint64_t until_ = clock_mono_ns() + PATIENCE_NS; \
		while (!(condition)) { \
			REQUIRE(clock_mono_ns() < until_ && "in vain: " #condition); \
			usleep(20); \
		} \
	} while (0)

static bool sessions_are_gone(void)
{
	LOCK_SCOPE(&w.engine.captures->lock);
	return !w.engine.captures->nr;
}

static bool generations_are_gone(void)
{
	struct units *us = w.engine.units;
	LOCK_SCOPE(&us->lock);

	return list_empty(&us->live.all) && list_empty(&us->litter) && list_empty(&us->trash);
}

static bool cache_is_whole(void)
{
	struct cache *c = w.engine.cache;
	LOCK_SCOPE(&c->lock);

	return !c->nr_lent && list_empty(&c->waiting) && !c->nr_flying &&
	       c->nr_free + c->nr_clean + c->nr_dirty == c->nr_chunks;
}

static unsigned nr_entries(void)
{
	char path[PATH_MAX + 16];
	struct dirent *entry;
	unsigned nr = 0;
	DIR *d;

	snprintf(path, sizeof(path), "%s/root", w.top);
	d = opendir(path);
	REQUIRE(d);
	while ((entry = readdir(d)))
		nr++;
	closedir(d);
	return nr;
}

/* Of the engine's; it has no pipes, but a sanitizer may. */
static unsigned nr_open(bool show)
{
	char path[64], target[256];
	unsigned nr = 0;

	for (int fd = w.lowest_fd; fd < w.lowest_fd + 32; fd++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, target, sizeof(target) - 1);
		if (n <= 0 || !strncmp(target, "pipe:", 5))
			continue;
		nr++;
		if (show)
			fprintf(stderr, "%d %.*s\n", fd, (int)n, target);
	}
	return nr;
}

/* Those of contents go with the last chunk. */
static bool contents_are_gone(void)
{
	contents_sweep(w.engine.contents);
	return !w.engine.contents->nr;
}

static void await_descriptors(void)
{
	uint64_t until = clock_mono_ns() + PATIENCE_NS;

	while (lowest_free_fd() > w.lowest_fd && nr_open(false)) {
		if (clock_mono_ns() > until) {
			nr_open(true);
			REQUIRE(!"no descriptor is left");
		}
		usleep(20);
	}
}

static void tear_down(void)
{
	const struct session_counts *past = &w.engine.captures->past;

	for (unsigned i = 0; i < SESSIONS; i++)
		close_control(&w.trainers[i]);
	AWAIT(sessions_are_gone());
	REQUIRE(!past->stats.pending && !past->stats.pending_bytes);
	REQUIRE(!is_promised_at(0, UINT64_MAX));
	for (unsigned i = 0; i < FILES; i++) {
		unlink_file(i);
		forget_file(i);
		w.files[i].closed = false;
	}
	AWAIT(generations_are_gone());
	AWAIT(cache_is_whole());
	REQUIRE(w.engine.metrics.open_handles == 0 && w.engine.metrics.nodes == 1);
	tree_destroy(w.fs.tree);
	AWAIT(contents_are_gone());
	await_descriptors();
	REQUIRE(nr_entries() == 3); /* . .. .ckptfs */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const steps[])(struct step *) = {
		step_hello, step_register, step_register,   step_write,
		step_write, step_write,	   step_next,	    step_next,
		step_next,  step_fail,	   step_tell,	    step_plain,
		step_plain, step_raw,	   step_unregister, step_close_control};
	struct input in = {data, data + size};
	struct step s = {.in = &in};

	if (!w.fs.session)
		set_up();
	w.fs.tree = tree_create(&w.engine, 16);
	REQUIRE(w.fs.tree);
	for (unsigned i = 0; i < MAX_STEPS && in.at < in.end; i++) {
		uint8_t what = get8(&in), who = get8(&in);

		s.how = get8(&in);
		s.t = &w.trainers[who % 16 < 10 ? 0 : who % SESSIONS];
		s.file = who >> 4 & 3 ? 0 : (who >> 6) % FILES;
		s.uid = s.t->begun || s.t->open ? s.t->uid : who % 5 == 4 ? 1000 : 0;
		if (what >= 240)
			s.uid ^= 1000;
		s.given_up = (what & 0xf0) == 0xe0;
		if (what == 255)
			step_bye(&s);
		else
			steps[what % 16](&s);
	}
	tear_down();
	return 0;
}
