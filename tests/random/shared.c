/* SPDX-License-Identifier: MIT */
/* The shared-file mode: writers, readers, the renamer. See shared.h. */
#include "shared.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

const char *const shared_names[NR_SHARED_NAMES] = {"data", "data.moved", "sub/data"};

void shared_fail(struct shared *sh, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	sh->stop = 1;
	if (!atomic_exchange(&sh->failed, 1))
		say("DIFFERENCE: %s", text);
}

static void nap(unsigned int ms)
{
	struct timespec ts = {0, ms * 1000000L};

	nanosleep(&ts, NULL);
}

/*
 * The renamer moves the file while this looks for it, and puts empty decoys
 * where it will move it to: try until the real one is found.
 */
int shared_open(struct shared *sh, int flags)
{
	char path[ROOT_MAX + 64];
	struct stat st;
	int tries, fd;

	for (tries = 0; tries < 3000; tries++) {
		snprintf(path, sizeof(path), "%s/%s", sh->root,
			 shared_names[tries % NR_SHARED_NAMES]);
		fd = open(path, flags | O_CLOEXEC);
		if (fd < 0 && errno != ENOENT) {
			shared_fail(sh, "open %s: %s", path, strerror(errno));
			return -1;
		}
		if (fd >= 0 && !fstat(fd, &st) && st.st_size == sh->size)
			return fd;
		if (fd >= 0)
			close(fd);
		if (tries % NR_SHARED_NAMES == NR_SHARED_NAMES - 1)
			nap(1);
	}
	shared_fail(sh, "the file of %lld bytes is found by none of its names",
		    (long long)sh->size);
	return -1;
}

/* One writer thread. */
struct writer {
	struct shared *sh;
	unsigned int id;
	int common_fd; /* all threads of the process write through this too */
	int own_fd;    /* or through this, opened anew now and then */
	int append_fd;
	struct rng rng;
	uint64_t *buf;
	pthread_t thread;
};

static struct region *pick_region(struct writer *w, bool own)
{
	struct shared *sh = w->sh;
	unsigned int at = rng_below(&w->rng, sh->nr_regions), i;

	for (i = 0; i < sh->nr_regions; i++, at++) {
		if (!own || sh->regions[at % sh->nr_regions].writer == w->id)
			break;
	}
	return i < sh->nr_regions ? &sh->regions[at % sh->nr_regions] : NULL;
}

static bool write_all(struct writer *w, int fd, off_t off, size_t len, bool pieces)
{
	const char *from = (const char *)w->buf;
	size_t n;
	ssize_t put;

	for (; len; from += n, off += n, len -= n) {
		/* whole words: one in two pieces would look torn */
		n = pieces ? 8 + rng_below(&w->rng, len) / 8 * 8 : len;
		n = n > len ? len : n;
		put = pwrite(fd, from, n, off);
		if (put == (ssize_t)n)
			continue;
		shared_fail(w->sh, "pwrite of %zu at %lld: %s", n, (long long)off,
			    put < 0 ? strerror(errno) : "short");
		return false;
	}
	return true;
}

static void write_region(struct writer *w)
{
	struct region *reg = pick_region(w, true);
	int fd = rng_chance(&w->rng, 50) ? w->common_fd : w->own_fd;
	uint32_t seq;
	size_t i;

	if (!reg)
		return;
	seq = reg->done + 1;
	reg->started = seq;
	for (i = 0; i < reg->len / 8; i++)
		w->buf[i] = stamp(w->id, seq, reg->off + 8 * i);
	if (fault == FAULT_DROP_WRITE && seq % 16 == 0)
		say("self-test: a write is left out");
	else if (!write_all(w, fd, reg->off, reg->len, rng_chance(&w->rng, 30)))
		return;
	reg->done = seq;
	w->sh->writes++;
	if (rng_chance(&w->rng, 2) && (rng_chance(&w->rng, 50) ? fsync(fd) : fdatasync(fd)))
		shared_fail(w->sh, "fsync: %s", strerror(errno));
}

static void append_record(struct writer *w)
{
	uint32_t seq = w->sh->appended[w->id] + 1;
	size_t len = 64 + 8 * rng_below(&w->rng, rng_chance(&w->rng, 5) ? 8000 : 500), i;
	struct record rec = {RECORD_MAGIC, w->id, seq, len};
	ssize_t put;

	if (seq > APPENDS_MAX)
		return;
	for (i = 0; i < len / 8; i++)
		w->buf[i] = stamp(w->id, seq, 8 * i);
	memcpy(w->buf, &rec, sizeof(rec));
	put = write(w->append_fd, w->buf, len);
	if (put != (ssize_t)len)
		shared_fail(w->sh, "append of %zu: %s", len, put < 0 ? strerror(errno) : "short");
	else
		w->sh->appended[w->id] = seq;
}

static void *writer_main(void *arg)
{
	struct writer *w = arg;
	unsigned int round;

	for (round = 1; !w->sh->stop; round++) {
		write_region(w);
		if (rng_chance(&w->rng, 25))
			append_record(w);
		if (rng_chance(&w->rng, 40) && !w->sh->stop)
			region_read(w->sh, pick_region(w, false), w->common_fd, w->buf);
		if (round % 32 || w->sh->stop)
			continue;
		if (close(w->own_fd))
			shared_fail(w->sh, "close: %s", strerror(errno));
		w->own_fd = shared_open(w->sh, O_RDWR);
	}
	if (w->own_fd >= 0 && close(w->own_fd))
		shared_fail(w->sh, "close: %s", strerror(errno));
	return NULL;
}

static int append_open(struct shared *sh)
{
	int mode = fault == FAULT_LOST_APPEND ? 0 : O_APPEND;
	char path[ROOT_MAX + 64];
	int fd;

	snprintf(path, sizeof(path), "%s/append", sh->root);
	fd = open(path, O_WRONLY | mode | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		shared_fail(sh, "open %s: %s", path, strerror(errno));
	return fd;
}

static void writer_process(struct shared *sh, const struct config *cfg, unsigned int nr)
{
	struct writer *all = xmalloc(cfg->threads * sizeof(*all)), *w;
	int common = shared_open(sh, O_RDWR), append = append_open(sh);
	unsigned int i, started = 0;

	for (i = 0; i < cfg->threads && !sh->failed; i++) {
		w = &all[i];
		*w = (struct writer){
			.sh = sh, .id = 1 + nr * cfg->threads + i, .common_fd = common};
		w->rng.state = cfg->seed * 1000003 + w->id;
		w->own_fd = shared_open(sh, O_RDWR);
		/* the first thread appends through an open file of its own */
		w->append_fd = i ? append : append_open(sh);
		w->buf = xmalloc(REGION_MAX);
		if (pthread_create(&w->thread, NULL, writer_main, w))
			die("cannot make a thread");
		started++;
	}
	for (i = 0; i < started; i++) {
		pthread_join(all[i].thread, NULL);
		free(all[i].buf);
	}
	free(all);
	if (close(common) || close(append))
		shared_fail(sh, "close: %s", strerror(errno));
	exit(sh->failed);
}

static void map_process(struct shared *sh, const struct config *cfg)
{
	struct rng rng = {cfg->seed + 77};
	unsigned int round = 0;
	int fd = shared_open(sh, O_RDONLY);

	while (!sh->stop && fd >= 0) {
		region_map(sh, &sh->regions[rng_below(&rng, sh->nr_regions)], fd);
		nap(1);
		if (++round % 64)
			continue;
		close(fd);
		fd = shared_open(sh, O_RDONLY);
	}
	exit(sh->failed);
}

static void rename_process(struct shared *sh, const struct config *cfg)
{
	struct rng rng = {cfg->seed + 99};
	char from[ROOT_MAX + 64], to[ROOT_MAX + 64];
	unsigned int at = 0, next;
	int fd;

	while (!sh->stop) {
		next = (at + 1 + rng_below(&rng, NR_SHARED_NAMES - 1)) % NR_SHARED_NAMES;
		snprintf(from, sizeof(from), "%s/%s", sh->root, shared_names[at]);
		snprintf(to, sizeof(to), "%s/%s", sh->root, shared_names[next]);
		if (rng_chance(&rng, 50)) { /* an empty decoy to replace */
			fd = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
			if (fd >= 0)
				close(fd);
		}
		if (rename(from, to))
			shared_fail(sh, "rename %s to %s: %s", from, to, strerror(errno));
		at = next;
		sh->renames++;
		nap(5 + rng_below(&rng, 30));
	}
	exit(sh->failed);
}

static void layout(struct shared *sh, const struct config *cfg)
{
	struct rng rng = {cfg->seed};
	off_t off = 0, limit = 4 * cfg->max_size;
	struct region *reg;

	sh->nr_writers = cfg->procs * cfg->threads;
	if (sh->nr_writers > MAX_WRITERS)
		die("more than %d writers", MAX_WRITERS);
	while (off < limit && sh->nr_regions < MAX_REGIONS) {
		reg = &sh->regions[sh->nr_regions];
		reg->off = off;
		reg->len =
			PAGE +
			8 * rng_below(&rng, rng_chance(&rng, 70) ? 8000 : (REGION_MAX - PAGE) / 8);
		reg->writer = 1 + sh->nr_regions % sh->nr_writers;
		off += reg->len;
		sh->nr_regions++;
	}
	sh->size = off;
}

static void make_files(struct shared *sh, const struct config *cfg, const char *reference)
{
	char path[ROOT_MAX + 64];
	int fd, err;

	err = remove_tree(AT_FDCWD, sh->root);
	err = err ? err : remove_tree(AT_FDCWD, reference);
	if (err || mkdir(sh->root, 0755) || mkdir(reference, 0755))
		die("cannot make %s and %s: %s", sh->root, reference, strerror(err ? -err : errno));
	snprintf(path, sizeof(path), "%s/sub", reference);
	if (mkdir(path, 0755))
		die("%s: %s", path, strerror(errno));
	snprintf(path, sizeof(path), "%s/sub", sh->root);
	if (mkdir(path, 0755))
		die("%s: %s", path, strerror(errno));
	layout(sh, cfg);
	snprintf(path, sizeof(path), "%s/%s", sh->root, shared_names[0]);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0 || ftruncate(fd, sh->size) || close(fd))
		die("%s: %s", path, strerror(errno));
}

static pid_t start(struct shared *sh, const struct config *cfg, unsigned int nr)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (pid)
		return pid;
	snprintf(say_prefix, sizeof(say_prefix), "[p%u] ", nr);
	if (nr < cfg->procs)
		writer_process(sh, cfg, nr);
	else if (nr == cfg->procs)
		rename_process(sh, cfg);
	else
		map_process(sh, cfg);
	exit(2);
}

static void forget(pid_t *pids, unsigned int nr, pid_t pid)
{
	unsigned int i;

	for (i = 0; i < nr; i++) {
		if (pids[i] == pid)
			pids[i] = 0;
	}
}

static _Noreturn void give_up(const pid_t *pids, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++) {
		if (!pids[i])
			continue;
		say("STUCK: process %d does not end", (int)pids[i]);
		kill(pids[i], SIGKILL);
	}
	exit(3);
}

static void supervise(struct shared *sh, const struct config *cfg, pid_t *pids, unsigned int nr)
{
	double stop_at = seconds_now() + cfg->seconds;
	double stuck_at = stop_at + cfg->op_timeout;
	unsigned int left = nr;
	int status;
	pid_t pid;

	while (left) {
		pid = waitpid(-1, &status, WNOHANG);
		if (pid > 0) {
			left--;
			forget(pids, nr, pid);
			if (!WIFEXITED(status) || WEXITSTATUS(status))
				shared_fail(sh, "process %d ended badly (status 0x%x)", (int)pid,
					    status);
			continue;
		}
		if (seconds_now() > stop_at)
			sh->stop = 1;
		if (cfg->op_timeout && seconds_now() > stuck_at)
			give_up(pids, nr);
		nap(20);
	}
}

int shared_main(const struct config *cfg)
{
	struct shared *sh =
		mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	bool maps = has_kind(cfg, OP_MMAP_SHARED) && has_kind(cfg, OP_MMAP_PRIVATE);
	char reference[ROOT_MAX];
	unsigned int nr, children = cfg->procs + 1 + maps;
	pid_t pids[128];
	int ret;

	if (sh == MAP_FAILED)
		die("no shared memory: %s", strerror(errno));
	snprintf(sh->root, sizeof(sh->root), "%s/randops.shared", cfg->dir[0]);
	snprintf(reference, sizeof(reference), "%s/randops.shared", cfg->dir[1]);
	say("seed %llu, shared file, %u processes of %u threads, %u s",
	    (unsigned long long)cfg->seed, cfg->procs, cfg->threads, cfg->seconds);
	make_files(sh, cfg, reference);
	for (nr = 0; nr < children; nr++)
		pids[nr] = start(sh, cfg, nr);
	supervise(sh, cfg, pids, children);
	ret = sh->failed ? 1 : shared_verify(sh, reference);
	if (!ret)
		say("ok: %u regions, %llu writes, %llu reads, %llu mmap reads, %llu renames",
		    sh->nr_regions, (unsigned long long)sh->writes, (unsigned long long)sh->reads,
		    (unsigned long long)sh->maps, (unsigned long long)sh->renames);
	if (!ret && !cfg->keep) {
		remove_tree(AT_FDCWD, sh->root);
		remove_tree(AT_FDCWD, reference);
	}
	return ret;
}
