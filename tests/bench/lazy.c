// SPDX-License-Identifier: MIT
/*
 * Saves of registered tensors, timed: each verb prints one line of JSON. What is timed was done
 * once before, unmeasured, as in the other rows on saves.
 *
 * 	lazy handles DIR BYTES		tensors written by handle to DIR/x1.pt, in a
 * 					mount of ckptfs: until the calls return, all is captured,
 * 					and it is committed; and a memcpy of the same pages
 * 	lazy bytes DIR BYTES		the same by write(2), until the calls return
 * 	lazy durable DIR BYTES		the same by write(2) and fsync, by this one thread
 * 	lazy calibrate MS		how much work a step of so long is
 * 	lazy steps DIR BYTES STEPS WORK	that work at each step, the barrier, an update of
 * 					all tensors, a save: of the steps the median.
 * 					DIR -: the same without saves and barriers
 * 	lazy many DIR BYTES SESSIONS NR	so many processes at once, each of which saves its part of
 * 					BYTES in NR tensors to DIR/many-<n>-1.pt: until all of it
 * 					is captured
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "client/ckptfs.h"

#define ALIGN	    64
#define STEPS_MAX   1000
#define MANY_MAX    64
#define PATH_BYTES  4096
#define COMMIT_S    300
#define STATE_XATTR "user.ckptfs.state"

static struct {
	char *at;
	unsigned nr;
	size_t each, all; /* bytes of a tensor, of all */
} state = {.nr = 500};

static volatile uint64_t sink;

__attribute__((format(printf, 1, 2), noreturn)) static void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("lazy: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(1);
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static char *memory_of(size_t size)
{
	char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		die("no memory for %zu bytes", size);
	memset(at, 1, size);
	return at;
}

static void make_state(size_t bytes)
{
	state.each = bytes / state.nr / ALIGN * ALIGN;
	if (!state.each)
		die("%zu bytes are not enough for %u tensors", bytes, state.nr);
	state.all = state.each * state.nr;
	state.at = memory_of(state.all);
}

/* --- by handle --- */

static struct ckptfs_session *open_session(const char *dir, int rank, int world)
{
	struct ckptfs_options o = CKPTFS_OPTIONS_DEFAULT;
	struct ckptfs_tensor_info *infos = calloc(state.nr, sizeof(*infos));
	char(*names)[32] = calloc(state.nr, sizeof(*names));
	struct ckptfs_session *s;

	o.rank = o.local_rank = rank;
	o.world = o.local_world = world;
	if (ckptfs_open(dir, &o, &s))
		die("%s", ckptfs_error(NULL));
	for (unsigned i = 0; i < state.nr; i++) {
		snprintf(names[i], sizeof(names[i]), "layers.%u.weight", i);
		infos[i] = (struct ckptfs_tensor_info){.id = i + 1,
						       .name = names[i],
						       .kind = CKPTFS_TENSOR,
						       .dtype = "F32",
						       .ndim = 1,
						       .global_shape = {state.each / 4},
						       .shard_shape = {state.each / 4},
						       .bytes = state.each};
	}
	if (ckptfs_register(s, infos, state.nr))
		die("%s", ckptfs_error(s));
	free(names);
	free(infos);
	return s;
}

static int create(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	return fd;
}

static void save(struct ckptfs_session *s, const char *path)
{
	struct ckptfs_write_op *ops = calloc(state.nr, sizeof(*ops));
	int fd = create(path);

	for (unsigned i = 0; i < state.nr; i++)
		ops[i] = (struct ckptfs_write_op){.id = i + 1,
						  .file_off = i * state.each,
						  .len = state.each,
						  .addr = state.at + i * state.each};
	if (ckptfs_write(s, fd, ops, state.nr) || close(fd))
		die("%s: %s", path, ckptfs_error(s));
	free(ops);
}

static void barrier(struct ckptfs_session *s)
{
	if (ckptfs_barrier(s, NULL, 0, 0, 0))
		die("barrier: %s", ckptfs_error(s));
}

static void await_commit(const char *path)
{
	const struct timespec nap = {.tv_nsec = 500000};
	double until = now() + COMMIT_S;
	char text[32] = "";

	while (now() < until) {
		ssize_t n = getxattr(path, STATE_XATTR, text, sizeof(text) - 1);

		if (n < 0)
			die("%s: %s", path, strerror(errno));
		text[n] = 0;
		if (!strcmp(text, "committed"))
			return;
		if (!strcmp(text, "failed"))
			break;
		nanosleep(&nap, NULL);
	}
	die("%s: %s, not committed", path, text);
}

static double copy_pages(char *to)
{
	double began = now();

	for (unsigned i = 0; i < state.nr; i++)
		memcpy(to + i * state.each, state.at + i * state.each, state.each);
	sink = (uint64_t)to[state.all / 2];
	return now() - began;
}

static void time_handles(const char *dir)
{
	struct ckptfs_session *s = open_session(dir, 0, 1);
	double returned = 0, captured = 0, durable = 0, copied;
	char path[PATH_BYTES], *to = memory_of(state.all);

	for (unsigned round = 0; round < 2; round++) {
		double began = now();

		snprintf(path, sizeof(path), "%s/x%u.pt", dir, round);
		save(s, path);
		returned = now() - began;
		barrier(s);
		captured = now() - began;
		await_commit(path);
		durable = now() - began;
	}
	copied = copy_pages(to);
	printf("{\"returns\": %.9f, \"captured\": %.9f, \"durable\": %.9f, \"memcpy\": %.9f, "
	       "\"bytes\": %zu}\n",
	       returned, captured, durable, copied, state.all);
	ckptfs_close(s);
	munmap(to, state.all);
}

/* --- by write(2) --- */

static void write_plainly(int fd, const char *path)
{
	for (unsigned i = 0; i < state.nr; i++) {
		const char *from = state.at + i * state.each;
		size_t done = 0;

		while (done < state.each) {
			ssize_t n = write(fd, from + done, state.each - done);

			if (n <= 0)
				die("%s: %s", path, strerror(errno));
			done += (size_t)n;
		}
	}
}

static void time_writes(const char *dir, bool durable)
{
	char path[PATH_BYTES];
	double took = 0, all = 0;

	for (unsigned round = 0; round < 2; round++) {
		double began = now();
		int fd;

		snprintf(path, sizeof(path), "%s/x%u.pt", dir, round);
		fd = create(path);

		write_plainly(fd, path);
		if ((durable && fsync(fd)) || close(fd))
			die("%s: %s", path, strerror(errno));
		took = now() - began;
		if (!durable)
			await_commit(path);
		all = now() - began;
	}
	printf("{\"returns\": %.9f, \"durable\": %.9f, \"bytes\": %zu}\n", took, all, state.all);
}

/* --- a training loop --- */

/* Forward and backward, as far as one core is concerned: nothing of it is in memory. */
static void compute(uint64_t work)
{
	uint64_t x = work;

	while (work--)
		x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9ull;
	sink = x;
}

static void calibrate(double ms)
{
	const uint64_t probe = 100000000;
	double best = 1e9;

	for (unsigned i = 0; i < 3; i++) {
		double began = now(), took;

		compute(probe);
		took = now() - began;
		best = took < best ? took : best;
	}
	printf("{\"work\": %llu}\n", (unsigned long long)((double)probe * ms / 1000 / best));
}

/* A number in each page, so that what is captured too late shows. */
static void update(void)
{
	for (size_t at = 0; at < state.all; at += 4096)
		state.at[at]++;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void time_steps(const char *dir, unsigned steps, uint64_t work)
{
	struct ckptfs_session *s = strcmp(dir, "-") != 0 ? open_session(dir, 0, 1) : NULL;
	double took[STEPS_MAX], blocked = 0;
	char path[PATH_BYTES] = "", old[PATH_BYTES] = "";

	if (!steps || steps > STEPS_MAX)
		die("between 1 and %d steps", STEPS_MAX);
	/*
	 * The first two fill what is to be warm: the save, and what is captured beside its flush.
	 */
	for (unsigned step = 0; step < steps + 2; step++) {
		double began = now();

		compute(work);
		if (s) {
			double waits = now();

			barrier(s);
			blocked += step >= 2 ? now() - waits : 0;
		}
		update();
		if (s) {
			if (*old && unlink(old))
				die("%s: %s", old, strerror(errno));
			memcpy(old, path, sizeof(old));
			snprintf(path, sizeof(path), "%s/step-%u.pt", dir, step);
			save(s, path);
		}
		if (step >= 2)
			took[step - 2] = now() - began;
	}
	qsort(took, steps, sizeof(*took), compare);
	if (s) {
		barrier(s);
		await_commit(path);
		ckptfs_close(s);
	}
	printf("{\"step\": %.9f, \"blocked\": %.9f}\n", took[steps / 2], blocked / steps);
}

/* --- several processes --- */

static void tell(int fd)
{
	if (write(fd, "", 1) != 1)
		die("pipe: %s", strerror(errno));
}

static void hear(int fd)
{
	char byte;

	if (read(fd, &byte, 1) != 1)
		die("a process has ended");
}

/* Saves twice; each time when it is told to, and tells when all is captured. */
static void save_when_told(const char *dir, int rank, int world, int go, int done)
{
	struct ckptfs_session *s = open_session(dir, rank, world);
	char path[PATH_BYTES];

	for (unsigned round = 0; round < 2; round++) {
		snprintf(path, sizeof(path), "%s/many-%d-%u.pt", dir, rank, round);
		tell(done);
		hear(go);
		save(s, path);
		barrier(s);
		tell(done);
		await_commit(path);
	}
	ckptfs_close(s);
}

static void time_many(const char *dir, unsigned nr)
{
	int go[2], done[2];
	double took = 0;

	if (!nr || nr > MANY_MAX || pipe(go) || pipe(done))
		die("between 1 and %d processes", MANY_MAX);
	for (unsigned i = 0; i < nr; i++)
		if (!fork()) {
			close(done[0]);
			make_state(state.all / nr);
			save_when_told(dir, (int)i, (int)nr, go[0], done[1]);
			_exit(0);
		}
	close(done[1]);
	for (unsigned round = 0; round < 2; round++) {
		double began;

		for (unsigned i = 0; i < nr; i++)
			hear(done[0]);
		began = now();
		for (unsigned i = 0; i < nr; i++)
			tell(go[1]);
		for (unsigned i = 0; i < nr; i++)
			hear(done[0]);
		took = now() - began;
	}
	while (wait(NULL) > 0)
		;
	printf("{\"captured\": %.9f, \"bytes\": %zu}\n", took, state.all);
}

int main(int argc, char **argv)
{
	const char *verb = argc > 2 ? argv[1] : "";

	if (!strcmp(verb, "calibrate")) {
		calibrate(atof(argv[2]));
		return 0;
	}
	if (argc < 4)
		die("what?");
	if (!strcmp(verb, "many") && argc == 6) {
		state.all = strtoull(argv[3], NULL, 10);
		state.nr = (unsigned)atoi(argv[5]);
		time_many(argv[2], (unsigned)atoi(argv[4]));
		return 0;
	}
	make_state(strtoull(argv[3], NULL, 10));
	if (!strcmp(verb, "handles"))
		time_handles(argv[2]);
	else if (!strcmp(verb, "bytes"))
		time_writes(argv[2], false);
	else if (!strcmp(verb, "durable"))
		time_writes(argv[2], true);
	else if (!strcmp(verb, "steps") && argc == 6)
		time_steps(argv[2], (unsigned)atoi(argv[4]), strtoull(argv[5], NULL, 10));
	else
		die("what?");
	return 0;
}
