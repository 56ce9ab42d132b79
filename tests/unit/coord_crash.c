/* SPDX-License-Identifier: MIT */
/* Records, cut off by a power cut at every instant: each is there whole, or not at all. */
#include "tests/unit/coord.h"

enum { RECORDED = 1, SECOND_SAW, FORGOTTEN };

static bool absent_or(struct backing *at, const char *kind, const char *text, bool must)
{
	char buf[64];
	ssize_t n = coord_dir_ops.read(at, me.uid, GEN, kind, buf, sizeof(buf));

	if (n == -ENOENT || n == -EBUSY)
		return !must;
	return n == (ssize_t)strlen(text) && !memcmp(buf, text, (size_t)n);
}

/*
 * @arg: NULL where there are no hard links; else what is left must not be in the way of the next
 * try.
 */
static int absent_or_whole(void *arg, const struct crash_state *s)
{
	struct backing *at = s->backing;
	size_t len;
	int r = 0;

	at->fuse = fuse;
	if (!absent_or(at, "decision", "commit", s->mark >= RECORDED))
		r = 2;
	/* And life goes on. */
	if (!r && arg &&
	    coord_dir_ops.record(at, &me, GEN, "decision", "commit", 6, first, &len) != 1)
		r = 3;
	return r;
}

static void a_crash_leaves_all_or_nothing(void **state)
{
	bool links = true;

	(void)state;
	r = record_start(&b);
	assert_int_equal(record("decision", "commit"), 1);
	record_mark(r, RECORDED);
	assert_never_caught(absent_or_whole, &links);
	assert_true(report.checked > 5);
}

static void a_crash_without_links_leaves_all_or_nothing(void **state)
{
	(void)state;
	r = record_start(&b);
	faults = faults_attach(&b);
	faults_add(faults, &(struct fault){.calls = CALL_LINK, .err = EPERM});
	assert_int_equal(record("decision", "commit"), 1);
	faults_detach(faults);
	faults = NULL;
	record_mark(r, RECORDED);
	assert_never_caught(absent_or_whole, NULL);
}

/* The first has linked it, and has not come to sync the directory. */
static void what_a_second_one_saw_survives(void **state)
{
	bool links = true;

	(void)state;
	r = record_start(&b);
	faults = faults_attach(&b);
	/* So it is with the first: of its calls the last ones come to nothing. */
	faults_add(faults, &(struct fault){.calls = CALL_SYNC_DIR, .skip = 1 + fuse, .err = EIO});
	assert_int_equal(record("decision", "commit"), -EIO);
	faults_detach(faults);
	faults = NULL;
	assert_true(read_is(&b, "decision", "commit"));
	record_mark(r, SECOND_SAW);
	assert_never_caught(absent_or_whole, &links);
}

static void so_it_does_where_the_first_has_synced_nothing(void **state)
{
	static const char whole[] = "ckptfs-record 6\ncommit";
	int dir, fd;

	(void)state;
	assert_int_equal(mkdirat(top, in_txn(""), 0700), 0);
	r = record_start(&b);
	dir = openat(top, in_txn(""), O_RDONLY | O_DIRECTORY);
	fd = make(dir, GEN ".decision");
	assert_int_equal(backing_write(&b, fd, whole, sizeof(whole) - 1, 0, 0), sizeof(whole) - 1);
	close(fd);
	close(dir);
	assert_int_equal(record("decision", "abort"), 0);
	record_mark(r, SECOND_SAW);
	assert_never_caught(absent_or_whole, NULL);
}

static int never_undecided(void *arg, const struct crash_state *s)
{
	struct backing *at = s->backing;
	bool decided, other, open_left, next_left;

	(void)arg;
	at->fuse = fuse;
	decided = absent_or(at, "decision", "commit", true);
	open_left = !absent_or(at, "open", "", false);
	next_left = !absent_or(at, "next", "", false);
	other = open_left || next_left;
	return (other && !decided) || (s->mark >= FORGOTTEN && (decided || other));
}

static void a_crash_while_forgetting_leaves_no_undecided(void **state)
{
	(void)state;
	assert_int_equal(record("open", "o"), 1);
	assert_int_equal(record("next", "n"), 1);
	assert_int_equal(record("decision", "commit"), 1);
	r = record_start(&b);
	assert_int_equal(coord_dir_ops.forget(&b, &me, GEN), 0);
	record_mark(r, FORGOTTEN);
	assert_never_caught(never_undecided, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_crash_leaves_all_or_nothing),
		T(a_crash_without_links_leaves_all_or_nothing),
		T(what_a_second_one_saw_survives),
		T(so_it_does_where_the_first_has_synced_nothing),
		T(a_crash_while_forgetting_leaves_no_undecided),
	};

	const struct CMUnitTest on_fuse[] = {
		T(a_crash_leaves_all_or_nothing),
		T(what_a_second_one_saw_survives),
		T(a_crash_while_forgetting_leaves_no_undecided),
	};
	int failed;

	umask(0);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	fuse = true;
	return failed + cmocka_run_group_tests(on_fuse, NULL, NULL);
}
