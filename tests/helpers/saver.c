/* SPDX-License-Identifier: MIT */
/*
 * saver save FILE SIZE FIRST LOG MODE [COUNT]: saves version FIRST of FILE, then the next, and so
 * on until it is killed, cannot, or has saved COUNT. The version is the seed of all its bytes; its
 * size is about SIZE. Appends to LOG the number of each version that is promised to be there from
 * then on, and "begun" and a number before each. MODE:
 *	plain	open with O_TRUNC, write, close: nothing is promised
 *	sync	the same with fsync before close
 *	rename	FILE.tmp is saved with fsync, and renamed; then fsync of the directory
 *	hold	open, write; then "held" is appended to LOG, and it waits for its end
 * Exit status 1: a call failed, whose errno is printed.
 *
 * saver check FILE: prints the version that FILE is, "absent", or "torn: " and how (exit status 1).
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t size_of(uint64_t version, uint64_t size)
{
	return 16 + size / 2 + version * 1237003 % (size / 2);
}

/* The first words are the version and the size; to be freed. */
static uint64_t *bytes_of(uint64_t version, uint64_t size)
{
	uint64_t *words = malloc(size + 8), x = version * 0x9E3779B97F4A7C15ull + 1, i;

	if (!words)
		err(2, "memory");
	for (i = 2; i < size / 8 + 1; i++) {
		x ^= x >> 12;
		x ^= x << 25;
		x ^= x >> 27;
		words[i] = x * 0x2545F4914F6CDD1Dull;
	}
	words[0] = version;
	words[1] = size;
	return words;
}

static void note(const char *log, const char *what, uint64_t version)
{
	int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0644);
	char line[64];
	int len = snprintf(line, sizeof(line), "%s%llu\n", what, (unsigned long long)version);

	if (fd < 0 || write(fd, line, (size_t)len) != len)
		err(2, "%s", log);
	close(fd);
}

static void must(bool ok, const char *what)
{
	if (!ok)
		err(1, "%s", what);
}

static void write_all(int fd, const char *data, size_t size)
{
	const size_t step = 1000003;
	size_t at = 0;

	while (at < size) {
		ssize_t n = write(fd, data + at, size - at < step ? size - at : step);

		must(n > 0, "write");
		at += (size_t)n;
	}
}

static void sync_dir_of(const char *file)
{
	char *copy = strdup(file);
	int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY);

	must(fd >= 0 && !fsync(fd), "fsync of the directory");
	close(fd);
	free(copy);
}

static void save(const char *file, uint64_t version, uint64_t size, const char *log,
		 const char *mode)
{
	bool rename_it = !strcmp(mode, "rename");
	char tmp[PATH_MAX];
	uint64_t *data;
	int fd;

	snprintf(tmp, sizeof(tmp), "%s%s", file, rename_it ? ".tmp" : "");
	size = size_of(version, size);
	data = bytes_of(version, size);
	fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	must(fd >= 0, "open");
	write_all(fd, (char *)data, size);
	if (!strcmp(mode, "sync") || rename_it)
		must(!fsync(fd), "fsync");
	if (!strcmp(mode, "hold")) {
		note(log, "held ", version);
		pause();
	}
	must(!close(fd), "close");
	if (rename_it) {
		must(!rename(tmp, file), "rename");
		sync_dir_of(file);
	}
	free(data);
}

static int check(const char *file)
{
	int fd = open(file, O_RDONLY);
	uint64_t *data, *want;
	struct stat st;

	if (fd < 0 && errno == ENOENT) {
		puts("absent");
		return 0;
	}
	if (fd < 0 || fstat(fd, &st))
		err(2, "%s", file);
	data = calloc(1, (size_t)st.st_size + 16);
	if (!data || pread(fd, data, (size_t)st.st_size, 0) != st.st_size)
		err(2, "%s", file);
	if (st.st_size < 16 || data[1] != (uint64_t)st.st_size) {
		printf("torn: %lld bytes, not %llu\n", (long long)st.st_size,
		       (unsigned long long)data[1]);
		return 1;
	}
	want = bytes_of(data[0], data[1]);
	if (memcmp(data, want, (size_t)st.st_size)) {
		printf("torn: other bytes than of version %llu\n", (unsigned long long)data[0]);
		return 1;
	}
	printf("%llu\n", (unsigned long long)data[0]);
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t version, size, last;

	if (argc == 3 && !strcmp(argv[1], "check"))
		return check(argv[2]);
	if (argc < 7 || strcmp(argv[1], "save"))
		errx(2, "usage: saver save FILE SIZE FIRST LOG MODE [COUNT] | saver check FILE");
	size = strtoull(argv[3], NULL, 0);
	version = strtoull(argv[4], NULL, 0);
	last = argc > 7 ? version + strtoull(argv[7], NULL, 0) : UINT64_MAX;
	for (; version < last; version++) {
		note(argv[5], "begun ", version);
		save(argv[2], version, size, argv[5], argv[6]);
		if (strcmp(argv[6], "plain"))
			note(argv[5], "", version);
	}
	return 0;
}
