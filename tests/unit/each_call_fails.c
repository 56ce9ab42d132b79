/* SPDX-License-Identifier: MIT */
/* timeout: 300 */
/* long: 3600 */
/* cpu: 30 */
/*
 * Each call that a save makes on its backing fails in turn: once, or from then on. Whatever the
 * error is, the backing shows the old state or the new one, a save that did not come about is told,
 * the next one works, and nothing leaks.
 */
#include "tests/unit/mnt.h"

#include "engine/backing/dirwalk.h"
#include "engine/format/commit.h"
#include "engine/format/names.h"
#include "engine/metrics/failures.h"
#include "tests/backing/crash.h"
#include "tests/backing/faults.h"

#define FILE_	"x.pt"
#define UNIT	"step-1"
#define NEXT	"step-2"
#define PART	"__0_0.distcp"
#define BYTES	5000
#define NO_WAIT SMALL_CACHE ",io_retry_s=0,stall_timeout_s=1,quiet_s=3600"

enum { FIRST = 2, SECOND, THIRD, SHORT_ERRORS = 2 };

static const int errors[] = {EIO, EINTR, ENOSPC, EDQUOT, ESTALE};

static struct mnt m;
static struct memory *memory;
static bool fails_once;

/* --- saves: 0, or the first error that a program is told --- */

static int save_part(const char *unit, const char *name, int version)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", unit, name);
	return save(&m, path, version, BYTES, false);
}

static int end_unit(const char *unit, int version)
{
	char from[PATH_MAX], to[PATH_MAX];
	int err = save_part(unit, ".metadata.tmp", version);

	snprintf(from, sizeof(from), "%s/.metadata.tmp", unit);
	snprintf(to, sizeof(to), "%s/.metadata", unit);
	return err ? err : file_rename(&m, from, to);
}

static int save_unit(const char *unit, int version)
{
	int err = dir_make(&m, unit);

	if (!err || err == -EEXIST)
		err = save_part(unit, PART, version);
	return err ? err : end_unit(unit, version);
}

static int write_text(const char *path, const char *text)
{
	struct file f;
	int err = file_open(&m, &f, path, O_WRONLY | O_TRUNC), close_err;
	ssize_t n;

	if (err)
		return err;
	n = file_write(&f, text, strlen(text), 0);
	close_err = file_close(&f);
	return n < 0 ? (int)n : close_err;
}

static int save_file(int version)
{
	return save(&m, FILE_, version, BYTES, false);
}

static int save_step(int version)
{
	return save_unit(UNIT, version);
}

/* The pointer is written while the unit that it names lacks its end. */
static int save_pointed(int version)
{
	int err = dir_make(&m, NEXT);

	if (!err || err == -EEXIST)
		err = save_part(NEXT, PART, version);
	if (!err)
		err = write_text("latest", NEXT);
	return err ? err : end_unit(NEXT, version);
}

/* A program that is refused a rename has the file still; unless nothing works any more. */
static void assert_kept(const char *name)
{
	char text[64] = "";
	struct backing b;

	memory_open(memory, &b);
	if (!peek_exists(&b, name) &&
	    (peek_read(&b, "latest", text, sizeof(text) - 1) < 0 || strcmp(text, NEXT)))
		fail_msg("%s is lost", name);
	backing_close(&b);
}

/* The same pointer gets its name by a rename. */
static int save_renamed(int version)
{
	int err = dir_make(&m, NEXT);

	if (!err || err == -EEXIST)
		err = save_part(NEXT, PART, version);
	if (!err)
		err = write_text("other", NEXT);
	if (err)
		return err;
	err = file_rename(&m, "other", "latest");
	if (err && fails_once)
		assert_kept("other");
	return err ? err : end_unit(NEXT, version);
}

static int begin_pointed(int version)
{
	int err = save_unit(UNIT, version);

	return err ? err : write_text("latest", UNIT);
}

/* --- what is on the backing --- */

static int version_of_file(struct backing *b)
{
	return version_on(b, FILE_);
}

static int count_entry(void *nr, const struct commit_entry *e)
{
	(void)e;
	++*(unsigned *)nr;
	return 0;
}

static int version_of_unit(struct backing *b, const char *unit)
{
	char part[PATH_MAX], end[PATH_MAX], commit[PATH_MAX];
	struct peek_file f;
	struct source src;
	struct error e;
	unsigned nr = 0;
	int version, err;

	if (!peek_exists(b, unit))
		return ABSENT;
	snprintf(part, sizeof(part), "%s/" PART, unit);
	snprintf(end, sizeof(end), "%s/.metadata", unit);
	snprintf(commit, sizeof(commit), "%s/" COMMIT_FILE, unit);
	version = version_on(b, part);
	err = peek_source(b, commit, &f, &src);
	if (!err)
		err = commit_read(&src, unit, NULL, count_entry, &nr, &e);
	peek_close(&f);
	return err || nr != 2 || version_on(b, end) != version || version == ABSENT ? TORN
										    : version;
}

static int version_of_step(struct backing *b)
{
	return version_of_unit(b, UNIT);
}

/* That of the unit that `latest` names, which is there, whole. */
static int version_of_pointed(struct backing *b)
{
	char name[64] = "";
	int version, next = version_of_unit(b, NEXT);

	if (peek_read(b, "latest", name, sizeof(name) - 1) < 0 || next == TORN)
		return TORN;
	version = version_of_unit(b, name);
	return version == ABSENT ? TORN : version;
}

struct scenario {
	const char *name;
	int (*before)(int version); /* NULL: nothing is there */
	int (*save)(int version);
	int (*look)(struct backing *b); /* ABSENT, a version, or TORN */
	const char *unit;		/* NULL: a single file */
};

static const struct scenario scenarios[] = {
	{"a file", NULL, save_file, version_of_file, NULL},
	{"a file over another", save_file, save_file, version_of_file, NULL},
	{"a unit", NULL, save_step, version_of_step, UNIT},
	{"a unit over another", save_step, save_step, version_of_step, UNIT},
	{"a unit and its pointer", begin_pointed, save_pointed, version_of_pointed, NEXT},
	{"a unit and a pointer that is renamed", begin_pointed, save_renamed, version_of_pointed,
	 NEXT},
};

/* --- one run --- */

struct run {
	const struct scenario *scenario;
	struct record *before; /* how the backing came about */
	struct faults *faults;
	struct fault fault;
	int id;		      /* of it, while it is in force */
	unsigned hits;	      /* how often it failed a call */
	bool saved;	      /* nevertheless */
	unsigned failed_late; /* runs that were told so though the new one has the name */
};

static json_t *describe(const struct scenario *s)
{
	struct inode_id dir = node_inode(m.root);

	return units_describe(m.en.units, &dir, s->unit, NULL);
}

/*
 * A commit that cannot be recorded, or named, and not be undone either, waits until the backing
 * works again.
 */
static void mend_if_stuck(struct run *r)
{
	json_t *o = r->scenario->unit ? describe(r->scenario) : NULL;

	if (strstr(json_get_text(o, "waits_for", ""), "refuses its commit")) {
		r->hits = r->id < 0 ? r->hits : faults_hits(r->faults, r->id);
		r->id = -1;
		faults_clear(r->faults);
	}
	json_decref(o);
}

/* Waits for what was closed. 0: it is committed, or no save is pending and nothing was told. */
static int settle(struct run *r)
{
	uint64_t deadline = clock_mono_ns() + 60 * NSEC_PER_SEC;
	json_t *o;
	int err;

	while ((err = mnt_drain(&m, 0)) == -ETIMEDOUT && clock_mono_ns() < deadline) {
		mend_if_stuck(r);
		usleep(1000);
	}
	if (err == -ETIMEDOUT)
		return err;
	if (!r->scenario->unit)
		return name_wait(&m, FILE_);
	o = describe(r->scenario);
	err = !strcmp(json_get_text(o, "state", ""), "committed") ? 0 : err ? err : -EIO;
	json_decref(o);
	return err;
}

/* 0, or what the program was told, or who waits for it. */
static int save_all(struct run *r, int version)
{
	int err = r->scenario->save(version), wait_err = settle(r);

	assert_int_not_equal(wait_err, -ETIMEDOUT);
	return err ? err : wait_err;
}

/*
 * As a job saves on: each of its processes is told once of each checkpoint that has failed, and one
 * with a file that has failed takes nothing until a thread of the daemon has ended it.
 */
static int save_on(struct run *r, int version)
{
	uint64_t deadline = clock_mono_ns() + 60 * NSEC_PER_SEC;
	int err;

	while ((err = save_all(r, version)) && clock_mono_ns() < deadline)
		usleep(1000);
	return err;
}

/* What `ckptfs fsck` does not know as a remainder is hidden for good. */
static void assert_only_remainders(struct backing *b)
{
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;

	dirwalk_begin(&w, b, b->root_fd);
	while (dirwalk_next(&w))
		if (name_is_reserved(w.name) && !name_is_staging(w.name) && !name_is_trash(w.name))
			fail_msg("%s is left", w.name);
}

static void check(const struct run *r, int told, int version, int old)
{
	const struct fault *f = &r->fault;

	if (version != old && version != FIRST + (r->scenario->before != NULL))
		fail_msg("%s, call %u, %s: on the backing is %d", r->scenario->name, f->skip,
			 strerror(f->err), version);
	if (version == old && !told)
		fail_msg("%s, call %u, %s: not saved, and nobody was told", r->scenario->name,
			 f->skip, strerror(f->err));
}

static void remount(struct run *r)
{
	engine_stop(&m.en);
	faults_detach(r->faults);
	mnt_close(&m);
	mnt_open_memory(&m, memory, NO_WAIT);
	r->faults = faults_attach(&m.en.backing);
	mnt_start(&m);
}

static void one_run(struct run *r)
{
	const struct scenario *s = r->scenario;
	int old = s->before ? FIRST : ABSENT, told, version, err;
	struct backing b;

	assert_int_equal(crash_replay(r->before, memory), 0);
	mnt_open_memory(&m, memory, NO_WAIT);
	r->faults = faults_attach(&m.en.backing);
	mnt_start(&m);
	r->id = faults_add(r->faults, &r->fault);
	told = save_all(r, s->before ? SECOND : FIRST);
	r->hits = r->id < 0 ? r->hits : faults_hits(r->faults, r->id);
	memory_open(memory, &b);
	version = s->look(&b);
	faults_clear(r->faults);
	r->id = -1;
	if (told && s->unit && version_of_unit(&b, s->unit) == (s->before ? SECOND : FIRST)) {
		/*
		 * Its name was given, and no look at that succeeds: it counts as failed as long as
		 * it is mounted.
		 */
		remount(r);
		r->failed_late++;
	}
	err = save_on(r, THIRD);
	if (err || s->look(&b) != THIRD)
		fail_msg("%s, call %u, %s: the next save: %s", s->name, r->fault.skip,
			 strerror(r->fault.err), strerror(-err));
	engine_stop(&m.en);
	if (!told && failures_total(m.en.failures))
		told = -EIO; /* in failures.json, which says so in its own time */
	check(r, told, version, old);
	r->saved = version != old;
	faults_detach(r->faults);
	mnt_close(&m);
	assert_only_remainders(&b);
	backing_close(&b);
	assert_int_equal(memory_descriptors(memory), 0);
}

static void prepare(struct run *r, struct memory *base, struct backing *b)
{
	memory_open(base, b);
	mnt_open_memory(&m, base, NO_WAIT);
	r->before = record_start(&m.en.backing);
	mnt_start(&m);
	if (r->scenario->before) {
		assert_int_equal(r->scenario->before(FIRST), 0);
		assert_int_equal(mnt_drain(&m, 60), 0);
		assert_int_equal(r->scenario->look(b), FIRST);
	}
	engine_stop(&m.en);
	record_stop(r->before);
	mnt_close(&m);
}

static void each_call_fails(void **state)
{
	struct run r = {.scenario = *state};
	struct memory *base = memory_create();
	unsigned nr = 0, nr_saved = 0, i, calls = 0;
	struct backing b;
	int times;

	memory = memory_create();
	prepare(&r, base, &b);
	for (i = 0; i < (getenv("CKPTFS_TEST_LONG") ? ARRAY_SIZE(errors) : SHORT_ERRORS); i++) {
		for (times = 0; times <= 1; times++) {
			/* What is interrupted is done again, as often as it takes. */
			unsigned more = errors[i] == EINTR ? 3 : 0;

			fails_once = times == 1;

			r.fault = (struct fault){
				.calls = CALL_ANY, .times = times ? 1 : more, .err = errors[i]};
			do {
				one_run(&r);
				nr++;
				nr_saved += r.saved;
				r.fault.skip++;
			} while (r.hits);
			calls = r.fault.skip - 1;
		}
	}
	print_message(
		"%s: %u calls, %u runs, %u were saved all the same, %u of them called failed\n",
		r.scenario->name, calls, nr, nr_saved, r.failed_late);
	record_free(r.before);
	backing_close(&b);
	memory_destroy(base);
	memory_destroy(memory);
}

int main(void)
{
	struct CMUnitTest tests[ARRAY_SIZE(scenarios)];
	size_t i;

	umask(0);
	for (i = 0; i < ARRAY_SIZE(scenarios); i++)
		tests[i] = (struct CMUnitTest){.name = scenarios[i].name,
					       .test_func = each_call_fails,
					       .initial_state = (void *)&scenarios[i]};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
