/* SPDX-License-Identifier: MIT */
/*
 * tensors DIR NR BYTES THREADS: saves NR tensors of about BYTES by libckptfs, by so many threads
 * that register, write and unregister at once on one session, each to DIR/t<thread>.pt; waits at
 * the barrier, changes all of them, and reads the files back. Prints how many captures there were.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/ckptfs.h"

#define THREADS_MAX 16
#define BATCH	    700 /* more than one ioctl takes */

static struct ckptfs_session *session;
static size_t bytes;

struct worker {
	pthread_t thread;
	const char *dir;
	unsigned nr, first, nr_tensors;
	char path[4096];
	unsigned char *memory;
};

static void die(const char *what, const char *why)
{
	fprintf(stderr, "tensors: %s: %s\n", what, why);
	exit(1);
}

/* Of different sizes, so that their pieces begin anywhere. */
static size_t size_of(unsigned i)
{
	return bytes + i % 7;
}

static size_t offset_of(unsigned i)
{
	size_t sum = 0;

	for (unsigned r = 0; r < 7; r++)
		sum += (i + 6 - r) / 7 * r;
	return i * bytes + sum;
}

static unsigned char byte_of(unsigned id, size_t at)
{
	return (unsigned char)(id * 31 + at * 7 + 1);
}

static void fill(struct worker *w)
{
	for (unsigned i = 0; i < w->nr_tensors; i++)
		for (size_t at = 0; at < size_of(i); at++)
			w->memory[offset_of(i) + at] = byte_of(w->first + i, at);
}

static void save_batch(struct worker *w, int fd, unsigned from, unsigned nr)
{
	static _Thread_local struct ckptfs_tensor_info infos[BATCH];
	static _Thread_local struct ckptfs_write_op ops[BATCH];
	static _Thread_local char names[BATCH][32];
	static _Thread_local uint64_t ids[BATCH];

	for (unsigned i = 0; i < nr; i++) {
		ids[i] = w->first + from + i + 1;
		snprintf(names[i], sizeof(names[i]), "tensor.%llu", (unsigned long long)ids[i]);
		infos[i] = (struct ckptfs_tensor_info){.id = ids[i],
						       .name = names[i],
						       .kind = CKPTFS_TENSOR,
						       .bytes = size_of(from + i)};
		ops[i] = (struct ckptfs_write_op){.id = ids[i],
						  .file_off = offset_of(from + i),
						  .len = size_of(from + i),
						  .addr = w->memory + offset_of(from + i)};
	}
	if (ckptfs_register(session, infos, nr) || ckptfs_write(session, fd, ops, nr) ||
	    ckptfs_unregister(session, ids, nr))
		die(w->path, ckptfs_error(session));
}

static void *save(void *worker)
{
	struct worker *w = worker;
	int fd = open(w->path, O_WRONLY | O_CREAT, 0644);

	if (fd < 0)
		die(w->path, strerror(errno));
	for (unsigned from = 0; from < w->nr_tensors; from += BATCH)
		save_batch(w, fd, from,
			   w->nr_tensors - from < BATCH ? w->nr_tensors - from : BATCH);
	if (ckptfs_barrier(session, NULL, 0, 0, 0))
		die("barrier", ckptfs_error(session));
	if (close(fd))
		die(w->path, strerror(errno));
	return NULL;
}

static void check(struct worker *w)
{
	size_t all = offset_of(w->nr_tensors), done = 0;
	int fd = open(w->path, O_RDONLY);

	memset(w->memory, 0, all);
	while (fd >= 0 && done < all) {
		ssize_t n = read(fd, w->memory + done, all - done);

		if (n <= 0)
			break;
		done += (size_t)n;
	}
	if (done != all)
		die(w->path, "cannot be read");
	for (unsigned i = 0; i < w->nr_tensors; i++)
		for (size_t at = 0; at < size_of(i); at++)
			if (w->memory[offset_of(i) + at] != byte_of(w->first + i, at))
				die(w->path, "holds something else");
	close(fd);
}

int main(int argc, char **argv)
{
	static struct worker workers[THREADS_MAX];
	struct ckptfs_session_stats st;
	unsigned nr = argc == 5 ? (unsigned)atoi(argv[2]) : 0,
		 threads = argc == 5 ? (unsigned)atoi(argv[4]) : 0;

	if (!nr || !threads || threads > THREADS_MAX)
		die("usage", "tensors DIR NR BYTES THREADS");
	bytes = strtoull(argv[3], NULL, 10);
	if (ckptfs_open(argv[1], NULL, &session))
		die(argv[1], ckptfs_error(NULL));
	for (unsigned i = 0; i < threads; i++) {
		struct worker *w = &workers[i];

		w->nr_tensors = nr / threads;
		w->first = i * w->nr_tensors;
		w->memory = malloc(offset_of(w->nr_tensors) + 1);
		if (!w->memory)
			die("memory", strerror(ENOMEM));
		snprintf(w->path, sizeof(w->path), "%s/t%u.pt", argv[1], i);
		fill(w);
	}
	for (unsigned i = 0; i < threads; i++)
		if (pthread_create(&workers[i].thread, NULL, save, &workers[i]))
			die("thread", strerror(errno));
	for (unsigned i = 0; i < threads; i++)
		pthread_join(workers[i].thread, NULL);
	for (unsigned i = 0; i < threads; i++)
		check(&workers[i]);
	if (ckptfs_session_stats(session, &st) || st.failed)
		die("captures", "failed");
	printf("%llu\n", (unsigned long long)st.captures);
	ckptfs_close(session);
	for (unsigned i = 0; i < threads; i++)
		free(workers[i].memory);
	return 0;
}
