/* SPDX-License-Identifier: MIT */
/*
 * fs_hangs exec|faults|buffers|self DIR ROUNDS: things that have hung filesystems whose
 * daemon waits for the program that waits for it. Ends, or hangs; the caller has the
 * watch.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES (256 * 1024)

static int rounds;
static atomic_bool ended;

static void name_of(char *buf, const char *base, int n)
{
	snprintf(buf, 64, "%s.%d", base, n);
}

static int open_file(const char *name, int flags)
{
	int fd = open(name, O_CREAT | O_CLOEXEC | flags, 0600);

	if (fd < 0)
		err(1, "open %s", name);
	return fd;
}

static void fill(int fd, char c)
{
	static const size_t piece = 65536;
	char *buf = malloc(piece);
	size_t i;

	memset(buf, c, piece);
	for (i = 0; i < BYTES; i += piece)
		if (pwrite(fd, buf, piece, (off_t)i) != (ssize_t)piece)
			err(1, "write");
	free(buf);
}

static char *map_file(int fd)
{
	char *map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		err(1, "mmap");
	return map;
}

/* --- exec: descriptors that close at exec, written --- */

static void *exec_main(void *arg)
{
	int me = *(int *)arg, i, k, status;
	char name[64];

	for (i = 0; i < rounds; i++) {
		int fds[4];
		pid_t pid;

		for (k = 0; k < 4; k++) {
			name_of(name, "exec", me * 10 + k);
			fds[k] = open_file(name, O_WRONLY);
			if (write(fds[k], name, sizeof(name)) != sizeof(name))
				err(1, "write");
		}
		pid = fork();
		if (pid == 0) {
			execl("/bin/true", "true", (char *)NULL);
			_exit(127);
		}
		for (k = 0; k < 4; k++)
			if (write(fds[k], name, sizeof(name)) != sizeof(name) || close(fds[k]))
				err(1, "write, close");
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			errx(1, "child: %d", status);
	}
	return NULL;
}

/* --- faults: mmap, munmap and page faults of one thread against file calls of others ---
 */

static void *mapper_main(void *arg)
{
	int me = *(int *)arg, i;
	char name[64];
	size_t at;

	name_of(name, "map", me);
	for (i = 0; i < rounds; i++) {
		int fd = open_file(name, O_RDWR);
		char *map;

		fill(fd, 'a');
		map = map_file(fd);
		for (at = 0; at < BYTES; at += 4096)
			map[at]++;
		if (i % 3 == 0 && msync(map, BYTES, MS_SYNC))
			err(1, "msync");
		if (i % 3 == 1 && madvise(map, BYTES, MADV_DONTNEED))
			err(1, "madvise");
		for (at = 0; at < BYTES; at += 4096)
			if (map[at] != 'b')
				errx(1, "%s: %d at %zu in round %d", name, map[at], at, i);
		munmap(map, BYTES);
		close(fd);
	}
	return NULL;
}

static void *caller_main(void *arg)
{
	int me = *(int *)arg;
	char name[64], other[64];

	name_of(name, "call", me);
	name_of(other, "moved", me);
	while (!ended) {
		int fd = open_file(name, O_WRONLY | O_TRUNC);

		if (write(fd, name, sizeof(name)) != sizeof(name) || close(fd) ||
		    rename(name, other))
			err(1, "write, close, rename");
		close(open_file("map.0", O_RDONLY));
		close(open_file("map.1", getenv("NO_WRITERS") ? O_RDONLY : O_WRONLY));
	}
	return NULL;
}

/* --- buffers: a mapping of one file is the buffer of a call on another, or on itself ---
 */

static void *buffer_main(void *arg)
{
	int me = *(int *)arg, i, a, b;
	char name[64];
	char *map_a, *map_b;

	name_of(name, "from", me);
	a = open_file(name, O_RDWR);
	name_of(name, "to", me);
	b = open_file(name, O_RDWR);
	fill(a, 'a');
	fill(b, 'b');
	for (i = 0; i < rounds; i++) {
		map_a = map_file(a);
		map_b = map_file(b);
		memset(map_a, 'a' + i % 20, BYTES);
		if (pwrite(b, map_a, BYTES, 0) != BYTES)
			err(1, "write from a mapping");
		if (memcmp(map_a, map_b, BYTES))
			errx(1, "what was written from the mapping differs");
		memset(map_b, 'A' + i % 20, BYTES);
		if (pread(b, map_a, BYTES, 0) != BYTES)
			err(1, "read into a mapping");
		if (map_a[0] != 'A' + i % 20 || map_a[BYTES - 1] != 'A' + i % 20)
			errx(1, "what was read into the mapping differs");
		munmap(map_a, BYTES);
		munmap(map_b, BYTES);
	}
	return NULL;
}

static void *self_main(void *arg)
{
	int me = *(int *)arg, i, fd;
	char name[64];

	name_of(name, "self", me);
	fd = open_file(name, O_RDWR);
	fill(fd, 's');
	for (i = 0; i < rounds; i++) {
		char *map = map_file(fd);

		if (i % 2)
			madvise(map, BYTES, MADV_DONTNEED);
		memset(map, 'a' + i % 20, BYTES / 2);
		if (pwrite(fd, map, BYTES / 2, BYTES / 2) != BYTES / 2) /* beside it */
			err(1, "write from its own mapping");
		if (memcmp(map, map + BYTES / 2, BYTES / 2))
			errx(1, "halves differ in round %d", i);
		if (pwrite(fd, map, BYTES, 0) != BYTES) /* onto itself */
			err(1, "write from its own mapping");
		if (pread(fd, map + BYTES / 2, BYTES / 2, 0) != BYTES / 2)
			err(1, "read into its own mapping");
		if (memcmp(map, map + BYTES / 2, BYTES / 2))
			errx(1, "halves differ after the read in round %d", i);
		munmap(map, BYTES);
	}
	return NULL;
}

static void run(void *(*workers)(void *), int nr_workers, void *(*others)(void *), int nr_others)
{
	static int numbers[16];
	pthread_t threads[16];
	int i;

	for (i = 0; i < nr_workers + nr_others; i++) {
		numbers[i] = i;
		if (pthread_create(&threads[i], NULL, i < nr_workers ? workers : others,
				   &numbers[i]))
			errx(1, "thread");
	}
	for (i = 0; i < nr_workers + nr_others; i++) {
		if (i == nr_workers)
			ended = true;
		pthread_join(threads[i], NULL);
	}
}

int main(int argc, char **argv)
{
	rounds = argc == 4 ? atoi(argv[3]) : 0;
	if (!rounds || chdir(argv[2]))
		errx(2, "usage: fs_hangs exec|faults|buffers|self DIR ROUNDS");
	if (!strcmp(argv[1], "exec"))
		run(exec_main, 3, NULL, 0);
	else if (!strcmp(argv[1], "faults"))
		run(mapper_main, 4, caller_main, 4);
	else if (!strcmp(argv[1], "buffers"))
		run(buffer_main, 4, NULL, 0);
	else if (!strcmp(argv[1], "self"))
		run(self_main, 4, NULL, 0);
	else
		errx(2, "no such mode");
	return 0;
}
