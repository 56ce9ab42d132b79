/* SPDX-License-Identifier: MIT */
/*
 * For the tests of saves through a mount, cut off by a power cut at every instant: under its name
 * there is at any time the old file or the new one, whole, and what was promised is there.
 */
#ifndef TESTS_UNIT_SAVE_CRASH_H
#define TESTS_UNIT_SAVE_CRASH_H

#include "tests/unit/mnt.h"

#include "tests/backing/crash.h"

#define NEW_SIZE   270001 /* not OLD's, and longer; no whole number of anything */
#define V(version) (1u << (version))

enum { SECOND = 2, THIRD, FOURTH, LATER = 29 };

/* From @mark on @name is one of @versions. */
struct expected {
	const char *name;
	int mark;
	unsigned versions;
};

static struct mnt m;
static struct record *r;
static struct crash_report report;
static const struct expected *promises; /* ends with a NULL name */
static char dir_path[PATH_MAX];
static unsigned recover_every = 1; /* so many states; it takes some milliseconds */
static size_t nr_checked, nr_whole;

static inline int setup(void **state)
{
	(void)state;
	scratch_dir(dir_path);
	mnt_open(&m, dir_path, SMALL_CACHE);
	r = NULL;
	promises = NULL;
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	if (r)
		record_free(r);
	return 0;
}

static inline void begin(const struct expected *expected)
{
	promises = expected;
	r = record_start(&m.en.backing);
	mnt_start(&m);
}

/* --- after a crash --- */

/* The last word on a name. */
static inline unsigned may_be(const char *name, int mark)
{
	const struct expected *e;
	unsigned versions = 0;

	for (e = promises; e->name; e++)
		if (!strcmp(e->name, name) && e->mark <= mark)
			versions = e->versions;
	return versions;
}

static inline int told_otherwise(const char *name, int version, const char *where)
{
	print_error("%s %s is %s %d\n", name, where,
		    version == ABSENT ? "absent:"
		    : version == TORN ? "torn:"
				      : "version",
		    version);
	return 1;
}

/* Each name is what it may be, and a new one is vouched for. */
static inline int whole(const struct crash_state *s)
{
	const struct expected *e;

	for (e = promises; e->name; e++) {
		int version = version_on(s->backing, e->name);

		if (version == TORN || !(may_be(e->name, s->mark) & V(version)))
			return told_otherwise(e->name, version, "on the backing");
		if (version != ABSENT && version != OLD && feature(&m.features, FEATURE_XATTR) &&
		    !has_digest_on(s->backing, e->name))
			return told_otherwise(e->name, version, "without a digest:");
	}
	return 0;
}

/* The next mount shows the same, and can save the same again. */
static inline int recovers(const struct crash_state *s)
{
	const struct expected *e;
	struct mnt next;
	int bad = 0;

	mnt_open_memory(&next, s->memory, SMALL_CACHE);
	mnt_start(&next);
	for (e = promises; e->name && !bad; e++) {
		int there = version_on(s->backing, e->name), shown = version_in(&next, e->name);

		if (there != LATER && there != shown)
			bad = told_otherwise(e->name, shown, "in the next mount");
		else if (there != LATER && save(&next, e->name, LATER, NEW_SIZE, true))
			bad = told_otherwise(e->name, there, "cannot be saved again:");
		else if (version_on(s->backing, e->name) != LATER)
			bad = told_otherwise(e->name, there, "was not saved again:");
	}
	mnt_close(&next);
	return bad;
}

static inline int check(void *arg, const struct crash_state *s)
{
	(void)arg;
	return whole(s) || (++nr_whole % recover_every == 0 && recovers(s));
}

static inline void assert_survives(void)
{
	struct crash_options options = {.seed = 1};

	assert_int_equal(mnt_drain(&m, 60), 0);
	record_stop(r);
	mnt_close(&m);
	if (crash_explore(r, &options, check, NULL, &report)) {
		record_print(r, stderr);
		fail_msg("%s", report.what);
	}
	assert_false(report.cut_short);
	assert_true(report.checked > 3);
	nr_checked += report.checked;
	print_message("%zu states considered, %zu checked, %.1f s, of which checks %.1f s\n",
		      report.considered, report.checked, report.seconds, report.check_seconds);
}

static inline void open_for(struct file *f, const char *name)
{
	assert_int_equal(file_open(&m, f, name, O_WRONLY | O_TRUNC), 0);
}

static inline void fill(struct file *f, int version, size_t size)
{
	assert_int_equal(file_fill(f, version, size), 0);
}

/* Pieces in an order of their own: a third of the file each. */
static inline void fill_backwards(struct file *f, int version, size_t size)
{
	__cleanup_free char *data = bytes_of(version, size);
	size_t third = size / 3;

	assert_int_equal(file_write(f, data + 2 * third, size - 2 * third, 2 * third),
			 size - 2 * third);
	assert_int_equal(file_write(f, data, third, 0), third);
	assert_int_equal(file_write(f, data + third, third, third), third);
}

static inline void promise(int mark)
{
	record_mark(r, mark);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#endif
