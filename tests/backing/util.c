/* SPDX-License-Identifier: MIT */
#include "tests/backing/util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *must(void *p)
{
	if (!p) {
		perror("tests/backing");
		abort();
	}
	return p;
}

void *copy_of(const void *data, size_t size)
{
	void *copy = must(malloc(size ? size : 1));

	if (size)
		memcpy(copy, data, size);
	return copy;
}

void *grow(void *array, size_t *max, size_t nr, size_t size)
{
	if (nr < *max)
		return array;
	*max = *max ? *max * 2 : 16;
	return must(realloc(array, *max * size));
}

/* The end of splitmix64. */
uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t z = (a ^ (b + 0x9e3779b97f4a7c15ull)) * 0xbf58476d1ce4e5b9ull;

	z = (z ^ (z >> 29)) * 0x94d049bb133111ebull;
	return z ^ (z >> 32);
}

static int remove_entries(DIR *d)
{
	struct dirent *de;
	int err = 0;

	while (!err && (de = readdir(d)))
		if (strcmp(de->d_name, ".") && strcmp(de->d_name, ".."))
			err = remove_tree(dirfd(d), de->d_name);
	return err;
}

int remove_tree(int dir, const char *name)
{
	int fd, err;
	DIR *d;

	if (!unlinkat(dir, name, 0) || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	d = must(fdopendir(fd));
	err = remove_entries(d);
	closedir(d);
	if (err)
		return err;
	return unlinkat(dir, name, AT_REMOVEDIR) ? -errno : 0;
}
