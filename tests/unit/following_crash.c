/* SPDX-License-Identifier: MIT */
/* timeout: 300 */
/*
 * A job that keeps one checkpoint and points to it, cut off by a power cut at every instant, and so
 * is the recovery: the pointer names a whole checkpoint, one is always there, and what a commit
 * decided is done all.
 */
#include "tests/unit/mnt.h"

#include "engine/coord/coord.h"
#include "engine/redo/recover.h"
#include "engine/redo/trash.h"
#include "engine/redo/unit_header.h"
#include "tests/backing/crash.h"
#include "tests/backing/faults.h"

#define BYTES 9000
#define NONE  0

enum method { WRITTEN, RENAMED, LINKED, LINK_RENAMED };

static struct mnt m;
static struct record *r;
static char dir_path[PATH_MAX];
static enum method method;
static const char *pointer; /* its name */
static size_t nr_states, nr_recovered, nr_followed;

static int setup(void **state)
{
	(void)state;
	scratch_dir(dir_path);
	mnt_open(&m, dir_path, SMALL_CACHE);
	assert_int_equal(mkdirat(m.top, "run", 0755), 0);
	r = NULL;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (r)
		record_free(r);
	return 0;
}

/* --- what is on a backing --- */

static bool is_whole(struct backing *b, int step)
{
	char name[32], path[64], generation[COMMIT_HEX];
	__cleanup_fd int unit = -1;

	snprintf(name, sizeof(name), "run/step-%d", step);
	unit = peek_open(b, name);
	if (unit < 0 || unit_generation(b, unit, generation))
		return false;
	snprintf(path, sizeof(path), "%s/__0_0.distcp", name);
	if (version_on(b, path) != step)
		return false;
	snprintf(path, sizeof(path), "%s/.metadata", name);
	return version_on(b, path) == step + 10;
}

static bool is_there(struct backing *b, int step)
{
	char path[32];

	snprintf(path, sizeof(path), "run/step-%d", step);
	return peek_exists(b, path);
}

/* Which step it names; -1: it makes no sense. */
static int pointed(struct backing *b)
{
	bool link = method == LINKED || method == LINK_RENAMED;
	char path[64], text[64] = "";
	struct statx stx;
	ssize_t len;
	int err;

	snprintf(path, sizeof(path), "run/%s", pointer);
	err = peek_stat(b, path, &stx);
	if (err)
		return err == -ENOENT ? NONE : -1;
	len = peek_read(b, path, text, sizeof(text) - 1);
	if (link != S_ISLNK(stx.stx_mode))
		return -1;
	return len == 6 && !strncmp(text, "step-", 5) ? text[5] - '0' : -1;
}

static int wrong(const struct crash_state *s, const char *when, const char *what)
{
	print_error("%s: %s\n", when, what);
	peek_print(s->backing, stderr);
	return 1;
}

/* At any instant. A program that removes a pointer before it makes another has none in between. */
static int check_always(const struct crash_state *s, int mark, const char *when)
{
	struct backing *b = s->backing;
	int names = pointed(b), step;

	for (step = 1; step <= 2; step++)
		if (is_there(b, step) && !is_whole(b, step))
			return wrong(s, when, "a checkpoint is not whole");
	if (names == -1 || (names && !is_there(b, names)))
		return wrong(s, when, "the pointer names no checkpoint");
	if (mark >= 1 && !is_there(b, 1) && !is_there(b, 2))
		return wrong(s, when, "no checkpoint is left");
	return 0;
}

static bool is_clean(struct backing *b)
{
	char path[64];

	snprintf(path, sizeof(path), ".ckptfs/txn/%u", (unsigned)getuid());
	return !peek_names(b, path, false);
}

/* What was decided was decided as a whole. */
static int check_recovered(const struct crash_state *s, int mark, const char *when)
{
	struct backing *b = s->backing;
	int newest = is_there(b, 2) ? 2 : is_there(b, 1) ? 1 : NONE, names = pointed(b);

	if (check_always(s, mark, when))
		return 1;
	if (mark >= 2 && newest != 2)
		return wrong(s, when, "what was committed is not there");
	if (newest == 2 && is_there(b, 1))
		return wrong(s, when, "what was removed is there");
	if (names != newest && !(method == LINKED && names == NONE && newest == 1))
		return wrong(s, when, "the pointer does not name the newest");
	return is_clean(b) ? 0 : wrong(s, when, "records are left");
}

/* --- after a crash --- */

struct recovering {
	struct backing *backing;
	struct record *record;
	size_t nr_followed;
	int err;
};

static void redone(void *recovering, const struct caller *owner, const char *unit,
		   const char *staging, int err)
{
	struct recovering *k = recovering;

	(void)owner;
	if (err) {
		print_error("%s is not redone from %s: %s\n", unit, staging, strerror(-err));
		k->err = err;
	}
}

static void followed(void *recovering, const struct caller *owner, const char *path, bool removed,
		     const char *unit, int err)
{
	struct recovering *k = recovering;

	(void)owner;
	k->nr_followed++;
	if (err) {
		print_error("%s is not %s with %s: %s\n", path, removed ? "removed" : "changed",
			    unit, strerror(-err));
		k->err = err;
	}
}

static void trashed(void *recovering, const struct caller *owner, int dir, const char *id)
{
	struct recovering *k = recovering;
	char name[64];

	(void)owner;
	trash_name(name, id);
	if (trash_remove(k->backing, NULL, dir, name))
		k->err = -EIO;
}

static void recover(struct recovering *k, const struct crash_state *s, bool record)
{
	struct recovery rec = {.backing = s->backing,
			       .coord = &coord_dir_ops,
			       .coord_arg = s->backing,
			       .alone = true,
			       .redone = redone,
			       .followed = followed,
			       .trashed = trashed,
			       .arg = k};
	struct rules *rules;
	struct error e;
	int err;

	k->backing = s->backing;
	assert_int_equal(rules_create(&rules, NULL, "", &e), 0);
	rec.rules = rules;
	*k->backing->features = m.features;
	if (record)
		k->record = record_start(k->backing);
	err = recover_decided(&rec);
	k->err = k->err ? k->err : err;
	if (record)
		record_stop(k->record);
	rules_destroy(rules);
}

static int check_again(void *mark, const struct crash_state *s)
{
	struct recovering k = {.nr_followed = 0};

	if (check_always(s, *(int *)mark, "in a recovery"))
		return 1;
	recover(&k, s, false);
	return k.err || check_recovered(s, *(int *)mark, "after a second recovery");
}

static int check(void *arg, const struct crash_state *s)
{
	struct crash_options options = {.seed = 1, .random = 2};
	struct recovering k = {.nr_followed = 0};
	struct crash_report report;
	int mark = s->mark, bad;

	(void)arg;
	if (check_always(s, mark, "right after the crash"))
		return 1;
	recover(&k, s, true);
	bad = k.err || check_recovered(s, mark, "recovered");
	nr_recovered++;
	nr_followed += k.nr_followed > 0;
	if (!bad && k.nr_followed) {
		bad = crash_explore(k.record, &options, check_again, &mark, &report);
		nr_states += report.checked;
		if (bad) {
			print_error("%s\n", report.what);
			record_print(k.record, stderr);
		}
	}
	record_free(k.record);
	return bad;
}

static void assert_survives(void)
{
	struct crash_options options = {.seed = 1, .random = 4};
	struct crash_report report;

	assert_int_equal(mnt_drain(&m, 60), 0);
	engine_stop(&m.en); /* it goes on tidying */
	record_stop(r);
	mnt_close(&m);
	nr_followed = nr_recovered = 0;
	if (crash_explore(r, &options, check, NULL, &report)) {
		record_print(r, stderr);
		fail_msg("%s", report.what);
	}
	assert_false(report.cut_short);
	assert_true(nr_followed > 0);
	nr_states += report.checked;
	print_message("%zu states considered, %zu checked, %zu recoveries of %zu did what follows, "
		      "%.1f s\n",
		      report.considered, report.checked, nr_followed, nr_recovered, report.seconds);
}

/* Right after the crash only: nobody has promised that the pointer follows. */
static int check_pointer(void *arg, const struct crash_state *s)
{
	(void)arg;
	return check_always(s, s->mark, "right after the crash");
}

/* --- the job --- */

static void put(int step, const char *file, int version)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "run/step-%d/%s", step, file);
	assert_int_equal(save(&m, path, version, BYTES, false), 0);
}

static void write_text(const char *path, const char *text)
{
	struct file f;

	assert_int_equal(file_open(&m, &f, path, O_WRONLY | O_TRUNC), 0);
	assert_int_equal(file_write(&f, text, strlen(text), 0), strlen(text));
	assert_int_equal(file_close(&f), 0);
}

static void point(int step)
{
	char path[64], temp[64], target[32];

	snprintf(path, sizeof(path), "run/%s", pointer);
	snprintf(temp, sizeof(temp), "run/%s.tmp", pointer);
	snprintf(target, sizeof(target), "step-%d", step);
	switch (method) {
	case WRITTEN:
		write_text(path, target);
		break;
	case RENAMED:
		write_text(temp, target);
		assert_int_equal(file_rename(&m, temp, path), 0);
		break;
	case LINKED:
		if (step > 1)
			assert_int_equal(file_unlink(&m, path), 0);
		assert_int_equal(link_make(&m, target, path), 0);
		break;
	case LINK_RENAMED:
		assert_int_equal(link_make(&m, target, temp), 0);
		assert_int_equal(file_rename(&m, temp, path), 0);
		break;
	}
}

static void begin_step(int step)
{
	char path[64];

	snprintf(path, sizeof(path), "run/step-%d", step);
	assert_int_equal(dir_make(&m, path), 0);
	put(step, "__0_0.distcp", step);
	point(step);
}

static void end_step(int step)
{
	char from[64], to[64], unit[32];

	put(step, ".metadata.tmp", step + 10);
	snprintf(unit, sizeof(unit), "run/step-%d", step);
	snprintf(from, sizeof(from), "%s/.metadata.tmp", unit);
	snprintf(to, sizeof(to), "%s/.metadata", unit);
	assert_int_equal(file_rename(&m, from, to), 0);
	assert_int_equal(checkpoint_wait(&m, unit), 0);
	record_mark(r, step);
}

static void remove_first(void)
{
	assert_int_equal(file_unlink(&m, "run/step-1/.metadata"), 0);
	assert_int_equal(file_unlink(&m, "run/step-1/__0_0.distcp"), 0);
	assert_int_equal(dir_remove(&m, "run/step-1"), 0);
}

static void rotate(enum method how, bool remove_before)
{
	method = how;
	pointer = how == WRITTEN || how == RENAMED ? "latest" : "last.ckpt";
	r = record_start(&m.en.backing);
	mnt_start(&m);
	begin_step(1);
	end_step(1);
	if (remove_before)
		remove_first();
	begin_step(2);
	if (!remove_before)
		remove_first();
	end_step(2);
	assert_survives();
}

static void a_pointer_that_is_written(void **state)
{
	(void)state;
	rotate(WRITTEN, false);
}

static void one_that_is_renamed(void **state)
{
	(void)state;
	rotate(RENAMED, true);
}

/*
 * The commit cannot make the new pointer durable, so that it is no part of what was decided. It
 * gets its name later, and not before its bytes are durable.
 */
static void one_that_cannot_be_synced_at_first(void **state)
{
	struct faults *f;
	struct statx stx;
	int nr;

	(void)state;
	method = RENAMED;
	pointer = "latest";
	r = record_start(&m.en.backing);
	f = faults_attach(&m.en.backing);
	mnt_start(&m);
	begin_step(1);
	end_step(1);
	assert_int_equal(dir_make(&m, "run/step-2"), 0);
	put(2, "__0_0.distcp", 2);
	write_text("run/other", "step-2");
	assert_int_equal(statx(m.top, "run/other", 0, STATX_INO, &stx), 0);
	faults_only(f, stx.stx_ino);
	nr = faults_add(f, &(struct fault){.calls = CALL_SYNC, .times = 1, .err = EIO});
	assert_int_equal(file_rename(&m, "run/other", "run/latest"), 0);
	end_step(2);
	assert_int_equal(mnt_drain(&m, 60), 0);
	assert_int_equal(faults_hits(f, nr), 1);
	engine_stop(&m.en);
	faults_detach(f);
	record_stop(r);
	mnt_close(&m);
	if (crash_explore(r, &(struct crash_options){.seed = 1, .random = 4}, check_pointer, NULL,
			  &(struct crash_report){0}))
		fail_msg("the pointer names nothing");
}

static void a_link(void **state)
{
	(void)state;
	rotate(LINKED, false);
}

static void a_link_that_is_renamed(void **state)
{
	(void)state;
	rotate(LINK_RENAMED, true);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_pointer_that_is_written),
		T(one_that_is_renamed),
		T(one_that_cannot_be_synced_at_first),
		T(a_link),
		T(a_link_that_is_renamed),
	};
	int failed;

	umask(0);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	print_message("%zu states checked\n", nr_states);
	return failed;
}
