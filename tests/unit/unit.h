/* SPDX-License-Identifier: MIT */
/* What the unit tests share: cmocka, a scratch directory, random numbers that repeat. */
#ifndef TESTS_UNIT_UNIT_H
#define TESTS_UNIT_UNIT_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* cmocka.h wants the above. */
#include <cmocka.h>

#define assert_contains(text, part) \
	do { \
		if (!strstr(text, part)) \
			fail_msg("'%s' is not in: %s", part, text); \
	} while (0)

/* True if all of it is to be tested: in make check-long, for files that state `long: N`. */
static inline bool is_long(void)
{
	return getenv("CKPTFS_TEST_LONG");
}

/* A new empty directory below the test's own one; the runner removes it. */
static inline char *scratch_dir(char path[PATH_MAX])
{
	const char *top = getenv("TEST_TMP");

	snprintf(path, PATH_MAX, "%s/unit-XXXXXX", top ? top : "/tmp");
	assert_non_null(mkdtemp(path));
	assert_int_equal(chmod(path, 0755), 0);
	return path;
}

static inline int scratch_fd(void)
{
	char path[PATH_MAX];
	int fd = open(scratch_dir(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static inline void make_file(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static inline int count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int nr = 0;

	assert_non_null(d);
	while (readdir(d))
		nr++;
	closedir(d);
	return nr;
}

/* xorshift64*: the same numbers in every run. */
static inline uint64_t next_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545F4914F6CDD1Dull;
}

#endif
