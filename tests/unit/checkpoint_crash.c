/* SPDX-License-Identifier: MIT */
/* timeout: 300 */
/* cpu: 10 */
/*
 * Checkpoints of many files, saved through a mount and cut off by a power cut at every instant:
 * under its name there is at any time the old one or the new one, whole, and once recovered what
 * was promised. The recovery is cut off at every instant, too.
 */
#include "tests/unit/mnt.h"

#include "engine/coord/coord.h"
#include "engine/redo/recover.h"
#include "engine/redo/trash.h"
#include "engine/save/units.h"
#include "tests/backing/crash.h"

#define UNIT	"run/step-1"
#define BYTES	20001
#define V(form) (1u << (form))

enum { GONE, FIRST, SECOND, THIRD, POINTED, EMPTIED, NR_FORMS, BROKEN };

/* What a form of the checkpoint consists of. */
struct part {
	const char *path;
	int version; /* of its bytes; ABSENT: an empty directory */
};

static const struct part first[] = {{".metadata", 2},  {"__0_0.distcp", 3}, {"__1_0.distcp", 4},
				    {"empty", ABSENT}, {"sub/deep/b", 5},   {"sub/a", 6},
				    {NULL, 0}},
			 second[] = {{".metadata", 12}, {"__0_0.distcp", 13}, {"__1_0.distcp", 14},
				     {"empty", ABSENT}, {"sub/deep/b", 5},    {"sub/a", 16},
				     {NULL, 0}},
			 third[] = {{".metadata", 2},  {"__0_0.distcp", 3}, {"__1_0.distcp", 4},
				    {"empty", ABSENT}, {"late.txt", 20},    {"sub/deep/b", 5},
				    {"sub/a", 6},      {"sub/late", 21},    {NULL, 0}};
static const struct part pointed[] = {
	{"mp_rank_00_model_states.pt", 3}, {"zero_pp_rank_0_optim_states.pt", 4}, {NULL, 0}};
static const struct part *const forms[NR_FORMS] = {
	[FIRST] = first, [SECOND] = second, [THIRD] = third, [POINTED] = pointed};

/* From @mark on it is one of @forms. */
struct expected {
	int mark;
	unsigned forms;
};

static struct mnt m;
static struct record *r;
static const struct expected *promises; /* ends with no forms */
static char dir_path[PATH_MAX];
static bool exchanges;	     /* the backing can exchange two names */
static unsigned again_every; /* so many recoveries are cut off, too */
static size_t nr_states, nr_recovered, nr_redone;

static int setup(void **state)
{
	(void)state;
	scratch_dir(dir_path);
	mnt_open(&m, dir_path, SMALL_CACHE);
	assert_int_equal(mkdirat(m.top, "run", 0755), 0);
	r = NULL;
	exchanges = true;
	again_every = 1;
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

struct found {
	struct backing *b;
	const struct part *form;
	size_t nr;
	bool ok;
};

static const char *in_unit(const char *path)
{
	static char full[PATH_MAX];

	snprintf(full, sizeof(full), UNIT "/%s", path);
	return full;
}

static bool is_directory(struct backing *b, const char *path)
{
	struct statx stx;

	return !peek_stat(b, path, &stx) && S_ISDIR(stx.stx_mode);
}

static int find_entry(void *found, const struct commit_entry *e)
{
	struct found *f = found;
	const char *path = in_unit(e->path);
	const struct part *p;
	char hex[DIGEST_HEX];
	struct peek_file file = {.fd = -1};
	struct source src;
	struct statx stx;

	f->nr++;
	for (p = f->form; p->path && strcmp(p->path, e->path); p++)
		;
	if (!p->path) {
		f->ok = false;
		return 0;
	}
	if (e->kind == COMMIT_IS_DIRECTORY) {
		f->ok = f->ok && p->version == ABSENT && is_directory(f->b, path);
		return 0;
	}
	f->ok = f->ok && version_on(f->b, path) == p->version && !peek_stat(f->b, path, &stx) &&
		stx.stx_size == e->size && !peek_source(f->b, path, &file, &src) &&
		!digest_of_source(&src, e->size, 1, NULL, NULL, hex) && !strcmp(hex, e->xxh3);
	peek_close(&file);
	return 0;
}

static bool is_form(struct backing *b, int form)
{
	struct found f = {.b = b, .form = forms[form], .ok = true};
	const struct part *p;
	struct peek_file file = {.fd = -1};
	struct source src;
	struct error e;
	int err;

	if (!forms[form])
		return !peek_names(b, UNIT, true);
	err = peek_source(b, in_unit(COMMIT_FILE), &file, &src);
	if (!err)
		err = commit_read(&src, UNIT, NULL, find_entry, &f, &e);
	peek_close(&file);
	for (p = forms[form]; p->path; p++)
		f.nr--;
	return !err && f.ok && !f.nr;
}

/* Which form has the name. Whatever has it is a checkpoint that verifies. */
static int form_on(struct backing *b)
{
	int form;

	if (!peek_exists(b, UNIT))
		return GONE;
	for (form = FIRST; form < NR_FORMS; form++)
		if (is_form(b, form))
			return form;
	return BROKEN;
}

/* What latest names is there, whole. */
static bool pointer_is_true(struct backing *b)
{
	char name[NAME_MAX + 1] = "";
	int form;

	if (!peek_exists(b, "run/latest"))
		return true;
	if (peek_read(b, "run/latest", name, NAME_MAX) <= 0 || strcmp(name, "step-1"))
		return false;
	form = form_on(b);
	return form != GONE && form != BROKEN;
}

static unsigned may_be(int mark)
{
	const struct expected *e;
	unsigned allowed = 0;

	for (e = promises; e->forms; e++)
		if (e->mark <= mark)
			allowed = e->forms;
	return allowed;
}

static int told_otherwise(const struct crash_state *s, int form, const char *when)
{
	print_error("%s: %s is %s %d\n", when, UNIT,
		    form == GONE     ? "absent:"
		    : form == BROKEN ? "broken:"
				     : "form",
		    form);
	peek_print(s->backing, stderr);
	return 1;
}

/* --- after a crash --- */

struct recovering {
	struct backing *backing;
	struct record *record;
	size_t nr_redone;
	int err;
};

static void redone(void *recovering, const struct caller *owner, const char *unit,
		   const char *staging, int err)
{
	struct recovering *k = recovering;

	(void)owner;
	(void)staging;
	k->nr_redone++;
	if (err || strcmp(unit, UNIT)) {
		print_error("%s is not redone: %s\n", unit, strerror(-err));
		k->err = err ? err : -EINVAL;
	}
}

static void followed(void *recovering, const struct caller *owner, const char *path, bool removed,
		     const char *unit, int err)
{
	struct recovering *k = recovering;

	(void)owner;
	if (err || removed || strcmp(unit, UNIT)) {
		print_error("%s does not follow %s: %s\n", path, unit, strerror(-err));
		k->err = err ? err : -EINVAL;
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

/* What a mount does, or fsck. @record: so that it can be cut off itself. */
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
	if (err && !k->err)
		k->err = err;
	if (record)
		record_stop(k->record);
	rules_destroy(rules);
}

/* True if no record of a generation waits. */
static bool is_clean(struct backing *b)
{
	char path[64];

	snprintf(path, sizeof(path), ".ckptfs/txn/%u", (unsigned)getuid());
	return !peek_names(b, path, false);
}

static int is_as_promised(const struct crash_state *s, int mark, const char *when)
{
	int form = form_on(s->backing);

	if (form == BROKEN || !(may_be(mark) & V(form)))
		return told_otherwise(s, form, when);
	if (!pointer_is_true(s->backing)) {
		print_error("%s: latest is wrong\n", when);
		return 1;
	}
	if (!is_clean(s->backing)) {
		print_error("%s: records are left\n", when);
		return 1;
	}
	return 0;
}

/* A recovery was cut off: @mark is what the first crash came after. */
static int check_again(void *mark, const struct crash_state *s)
{
	struct recovering k = {.err = 0};
	int form = form_on(s->backing);

	if (form == BROKEN || (form == GONE && exchanges && !(may_be(*(int *)mark) & V(GONE))))
		return told_otherwise(s, form, "in a recovery");
	recover(&k, s, false);
	return k.err ? 1 : is_as_promised(s, *(int *)mark, "after a second recovery");
}

static int check(void *arg, const struct crash_state *s)
{
	static unsigned nr;
	struct crash_options options = {.seed = 1, .random = 3};
	struct crash_report report;
	struct recovering k = {.err = 0};
	int form = form_on(s->backing), mark = s->mark, bad;

	(void)arg;
	/*
	 * Before anybody recovers: whole, if it is there; and there, unless it takes two renames.
	 */
	if (form == BROKEN || (form == GONE && exchanges && !(may_be(mark) & V(GONE))))
		return told_otherwise(s, form, "right after the crash");
	if (!pointer_is_true(s->backing)) {
		print_error("latest is wrong right after the crash\n");
		return 1;
	}
	recover(&k, s, true);
	bad = k.err ? 1 : is_as_promised(s, mark, "recovered");
	nr_recovered++;
	nr_redone += k.nr_redone > 0;
	if (!bad && k.record->nr_ops > k.record->nr_initial && ++nr % again_every == 0) {
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

static void begin(const struct expected *expected)
{
	promises = expected;
	if (!exchanges)
		m.en.backing.features->state[FEATURE_RENAME_FLAGS] = FEATURE_TURNED_OFF;
	r = record_start(&m.en.backing);
	mnt_start(&m);
}

static void assert_survives(void)
{
	struct crash_options options = {.seed = 1};
	struct crash_report report;

	assert_int_equal(mnt_drain(&m, 60), 0);
	engine_stop(&m.en); /* it goes on tidying */
	record_stop(r);
	mnt_close(&m);
	if (crash_explore(r, &options, check, NULL, &report)) {
		record_print(r, stderr);
		fail_msg("%s", report.what);
	}
	assert_false(report.cut_short);
	assert_true(report.checked > 3);
	nr_states += report.checked;
	print_message("%zu states considered, %zu checked, %zu recoveries of %zu did something, "
		      "%.1f s\n",
		      report.considered, report.checked, nr_redone, nr_recovered, report.seconds);
}

/* --- saves --- */

static void put(const char *path, int version)
{
	char full[PATH_MAX];

	snprintf(full, sizeof(full), "%s/%s", UNIT, path);
	assert_int_equal(save(&m, full, version, BYTES + 100 * (size_t)version, false), 0);
}

static void finish(int version)
{
	put(".metadata.tmp", version);
	assert_int_equal(file_rename(&m, UNIT "/.metadata.tmp", UNIT "/.metadata"), 0);
	assert_int_equal(checkpoint_wait(&m, UNIT), 0);
}

static void save_first(void)
{
	assert_int_equal(dir_make(&m, UNIT), 0);
	put("__0_0.distcp", 3);
	put("__1_0.distcp", 4);
	assert_int_equal(dir_make(&m, UNIT "/sub"), 0);
	assert_int_equal(dir_make(&m, UNIT "/sub/deep"), 0);
	assert_int_equal(dir_make(&m, UNIT "/empty"), 0);
	put("sub/deep/b", 5);
	put("sub/a", 6);
	finish(2);
}

static void save_second(void)
{
	put("__0_0.distcp", 13);
	put("__1_0.distcp", 14);
	put("sub/a", 16);
	finish(12);
}

/* What `ckptfs commit` does. */
static void ask(void)
{
	struct at at = at_begin(&m, UNIT);
	struct inode_id dir = node_inode(at.dir);
	struct checkpoint *cp = checkpoints_find(m.en.units, &dir, at.name);

	at_end(&m, &at);
	assert_non_null(cp);
	assert_int_equal(checkpoint_ask(cp), 0);
	checkpoint_put(cp);
	assert_int_equal(checkpoint_wait(&m, UNIT), 0);
}

static void save_late(void)
{
	put("late.txt", 20);
	put("sub/late", 21);
	ask();
}

static void a_new_one(void **state)
{
	static const struct expected e[] = {{0, V(GONE) | V(FIRST)}, {1, V(FIRST)}, {0, 0}};

	(void)state;
	begin(e);
	save_first();
	record_mark(r, 1);
	assert_survives();
}

static void change(void (*save)(void), int form)
{
	const struct expected e[] = {
		{0, V(GONE) | V(FIRST)}, {1, V(FIRST) | V(form)}, {2, V(form)}, {0, 0}};

	begin(e);
	save_first();
	record_mark(r, 1);
	save();
	record_mark(r, 2);
	assert_survives();
}

static void over_an_old_one(void **state)
{
	(void)state;
	change(save_second, SECOND);
}

static void over_an_old_one_without_exchange(void **state)
{
	(void)state;
	exchanges = false;
	change(save_second, SECOND);
}

static void late_files(void **state)
{
	(void)state;
	change(save_late, THIRD);
}

static void late_files_without_exchange(void **state)
{
	(void)state;
	exchanges = false;
	change(save_late, THIRD);
}

/* A person removes all that is in it, and some time passes. */
static void empty_it(void)
{
	static const char *const names[] = {"__0_0.distcp", "__1_0.distcp", "sub/deep/b", "sub/a",
					    ".metadata",    "sub/deep",	    "sub",	  "empty"};
	struct caller user = m.user;
	char path[PATH_MAX];
	size_t i;

	m.user.pid = 0; /* not who has saved it */
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), UNIT "/%s", names[i]);
		assert_int_equal(i < 5 ? file_unlink(&m, path) : dir_remove(&m, path), 0);
	}
	m.user = user;
	LOCK_SCOPE(&m.en.units->lock);
	m.en.units->quiet_ns = 0;
	while (atomic_load(&m.en.units->nr_removals) || atomic_load(&m.en.units->nr_checkpoints))
		units_wait(m.en.units);
}

static void emptied(void **state)
{
	(void)state;
	change(empty_it, EMPTIED);
}

static void emptied_without_exchange(void **state)
{
	(void)state;
	exchanges = false;
	change(empty_it, EMPTIED);
}

/* latest names it when it is committed, not before. */
static void named_by_a_pointer(void **state)
{
	static const struct expected e[] = {{0, V(GONE) | V(POINTED)}, {1, V(POINTED)}, {0, 0}};
	struct file f;

	(void)state;
	begin(e);
	assert_int_equal(dir_make(&m, UNIT), 0);
	put("mp_rank_00_model_states.pt", 3);
	put("zero_pp_rank_0_optim_states.pt", 4);
	assert_int_equal(file_open(&m, &f, "run/latest", O_WRONLY | O_TRUNC), 0);
	assert_int_equal(file_write(&f, "step-1", 6, 0), 6);
	assert_int_equal(file_close(&f), 0);
	ask(); /* in a world of one its rule has it wait for a while without writes */
	record_mark(r, 1);
	assert_survives();
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_new_one),
		T(over_an_old_one),
		T(over_an_old_one_without_exchange),
		T(late_files),
		T(late_files_without_exchange),
		T(emptied),
		T(emptied_without_exchange),
		T(named_by_a_pointer),
	};
	int failed;

	umask(0);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	print_message("%zu states checked\n", nr_states);
	return failed;
}
