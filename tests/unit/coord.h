/* SPDX-License-Identifier: MIT */
/*
 * Records of generations as files on the backing, for the tests of these: verbs, on a directory or
 * as on FUSE.
 */
#ifndef TESTS_UNIT_COORD_H
#define TESTS_UNIT_COORD_H

#include "tests/unit/crash.h"

#include "engine/coord/coord.h"
#include "engine/format/format.h"
#include "tests/backing/faults.h"

#define GEN   "0123456789abcdef0123456789abcdef"
#define GEN_2 "ffffffffffffffffffffffffffffffff"

static struct caller me;
static struct faults *faults;
static char first[COORD_TEXT_MAX];
static size_t first_len;
static bool fuse; /* records are symlinks to their files */

static inline int setup_tree(void **state)
{
	struct error e;

	setup(state);
	me = (struct caller){.uid = geteuid(), .gid = getegid(), .pid = 0};
	faults = NULL;
	b.fuse = fuse;
	return format_init(top, "here", &e);
}

static inline int teardown_tree(void **state)
{
	if (faults)
		faults_detach(faults);
	return teardown(state);
}

static inline int record_gen(const char *gen, const char *kind, const char *text)
{
	return coord_dir_ops.record(&b, &me, gen, kind, text, strlen(text), first, &first_len);
}

static inline int record(const char *kind, const char *text)
{
	return record_gen(GEN, kind, text);
}

static inline bool first_is(const char *text)
{
	return first_len == strlen(text) && !memcmp(first, text, first_len);
}

static inline bool read_is(struct backing *at, const char *kind, const char *text)
{
	char buf[COORD_TEXT_MAX];
	ssize_t n = coord_dir_ops.read(at, me.uid, GEN, kind, buf, sizeof(buf));

	return n == (ssize_t)strlen(text) && !memcmp(buf, text, (size_t)n);
}

static inline int read_err(const char *kind)
{
	char buf[COORD_TEXT_MAX];

	return (int)coord_dir_ops.read(&b, me.uid, GEN, kind, buf, sizeof(buf));
}

/* .ckptfs/txn/UID, and the path of what is in it. */
static inline const char *in_txn(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), ".ckptfs/txn/%u%s%s", (unsigned)me.uid, *name ? "/" : "",
		 name);
	return path;
}

static inline unsigned nr_files(void)
{
	int fd = openat(top, in_txn(""), O_RDONLY | O_DIRECTORY);
	DIR *d = fdopendir(fd);
	unsigned nr = 0;

	assert_non_null(d);
	while (readdir(d))
		nr++;
	closedir(d);
	return nr - 2;
}

struct found {
	unsigned nr;
	char gens[4][COORD_GEN_MAX];
	int answer;
};

static inline int found(void *arg, uid_t owner, const char *gen)
{
	struct found *f = arg;

	assert_int_equal(owner, me.uid);
	assert_true(f->nr < ARRAY_SIZE(f->gens));
	snprintf(f->gens[f->nr++], COORD_GEN_MAX, "%s", gen);
	return f->answer;
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup_tree, teardown_tree)

#endif
