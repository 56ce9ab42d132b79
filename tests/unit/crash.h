/* SPDX-License-Identifier: MIT */
/* A backing that is recorded, and verbs, for the tests of recorder and crash states. */
#ifndef TESTS_UNIT_CRASH_H
#define TESTS_UNIT_CRASH_H

#include "tests/unit/unit.h"

#include "engine/base/cleanup.h"
#include "tests/backing/crash.h"
#include "tests/backing/peek.h"
#include "tests/backing/util.h"

#define BLOCK 4096

static struct backing b;
static int top;
static struct record *r;
static struct crash_report report;

static inline int setup(void **state)
{
	char path[PATH_MAX];
	struct error e;

	(void)state;
	assert_int_equal(backing_open(&b, scratch_dir(path), &e), 0);
	features_probe(b.features, b.root_fd, true);
	top = b.root_fd;
	r = NULL;
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	if (r) {
		record_stop(r);
		record_free(r);
	}
	backing_close(&b);
	return 0;
}

static inline int explore(crash_check check, void *arg)
{
	struct crash_options options = {.seed = 1};

	record_stop(r);
	return crash_explore(r, &options, check, arg, &report);
}

static inline void assert_never_caught(crash_check check, void *arg)
{
	if (explore(check, arg)) {
		record_print(r, stderr);
		fail_msg("%s", report.what);
	}
	assert_true(report.checked > 0 && report.checked <= report.considered);
}

static inline void assert_caught(crash_check check, void *arg)
{
	int err = explore(check, arg);

	if (err == 1)
		return;
	record_print(r, stderr);
	fail_msg("not caught: %d %s", err, report.what);
}

/* --- small verbs --- */

static inline void ok(ssize_t err)
{
	if (err < 0)
		fail_msg("%s", strerror((int)-err));
}

static inline int make(int dir, const char *name)
{
	bool created;
	int fd = backing_create(&b, dir, name, O_RDWR, 0644, &created);

	ok(fd);
	return fd;
}

/* @blocks blocks, all of the byte @byte, from block @at. */
static inline void fill(int fd, char byte, size_t blocks, size_t at)
{
	char *data = malloc(blocks * BLOCK);

	assert_non_null(data);
	memset(data, byte, blocks * BLOCK);
	assert_int_equal(backing_write(&b, fd, data, blocks * BLOCK, (off_t)at * BLOCK, 0),
			 (ssize_t)(blocks * BLOCK));
	free(data);
}

static inline void make_filled(int dir, const char *name, char byte, size_t blocks)
{
	int fd = make(dir, name);

	fill(fd, byte, blocks, 0);
	close(fd);
}

static inline bool exists(struct backing *at, const char *path)
{
	return peek_exists(at, path);
}

/* The byte that all of @path is, if it has @blocks blocks; 0: no file; -1: anything else. */
static inline int content(struct backing *at, const char *path, size_t blocks)
{
	__cleanup_free char *data = malloc((blocks + 1) * BLOCK);
	ssize_t n = peek_read(at, path, data, (blocks + 1) * BLOCK), i;

	assert_non_null(data);
	if (n < 0)
		return 0;
	for (i = 1; i < n; i++)
		if (data[i] != *data)
			return -1;
	return n == (ssize_t)(blocks * BLOCK) && *data ? *data : -1;
}

static inline char byte_at(struct backing *at, const char *path, off_t off)
{
	__cleanup_fd int fd = peek_open(at, path);
	char byte = 0;

	return fd < 0 || backing_read(at, fd, &byte, 1, off) < 0 ? '?' : byte;
}

#endif
