/* SPDX-License-Identifier: MIT */
/* Random numbers, data patterns and other small things. */
#include "randops.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

char say_prefix[32];

static uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

uint64_t rng_next(struct rng *rng)
{
	rng->state += 0x9e3779b97f4a7c15ULL;
	return mix(rng->state);
}

uint64_t rng_below(struct rng *rng, uint64_t limit)
{
	return rng_next(rng) % limit;
}

bool rng_chance(struct rng *rng, unsigned int percent)
{
	return rng_below(rng, 100) < percent;
}

/* Never a zero byte, so that a hole cannot pass for data. */
void fill_pattern(void *buf, size_t len, uint64_t seed)
{
	unsigned char *out = buf;
	uint64_t state = seed, word;
	size_t i;

	for (i = 0; i < len; i += 8) {
		state += 0x9e3779b97f4a7c15ULL;
		word = (state * 0xbf58476d1ce4e5b9ULL) | 0x0101010101010101ULL;
		memcpy(out + i, &word, len - i < 8 ? len - i : 8);
	}
}

void *xmalloc(size_t size)
{
	return xrealloc(NULL, size);
}

void *xrealloc(void *ptr, size_t size)
{
	void *out = realloc(ptr, size ? size : 1);

	if (!out)
		die("out of memory (%zu bytes)", size);
	return out;
}

double seconds_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static int remove_entries(int fd)
{
	struct dirent *de;
	int err = 0;
	DIR *dir = fdopendir(fd);

	if (!dir) {
		err = -errno;
		close(fd);
		return err;
	}
	while (!err && (de = readdir(dir))) {
		if (strcmp(de->d_name, ".") && strcmp(de->d_name, ".."))
			err = remove_tree(dirfd(dir), de->d_name);
	}
	closedir(dir);
	return err;
}

int remove_tree(int dirfd, const char *name)
{
	int fd, err, tries;

	if (!unlinkat(dirfd, name, 0) || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	/* Removing while listing may skip entries: list again if some stayed. */
	for (tries = 0; tries < 8; tries++) {
		fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
		if (fd < 0)
			return -errno;
		err = remove_entries(fd);
		if (err)
			return err;
		if (!unlinkat(dirfd, name, AT_REMOVEDIR))
			return 0;
		if (errno != ENOTEMPTY && errno != EEXIST)
			return -errno;
	}
	return -ENOTEMPTY;
}

void say(const char *fmt, ...)
{
	va_list ap;

	flockfile(stdout);
	printf("%s", say_prefix);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
	funlockfile(stdout);
}

void die(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "randops: %s", say_prefix);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(2);
}
