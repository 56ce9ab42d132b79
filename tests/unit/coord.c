/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/* Records of generations as files on the backing: made once, whole or not at all, whatever happens. */
#include "tests/unit/crash.h"

#include <pthread.h>

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

static int setup_tree(void **state)
{
	struct error e;

	setup(state);
	me = (struct caller){geteuid(), getegid(), 0};
	faults = NULL;
	b.fuse = fuse;
	return format_init(top, "here", &e);
}

static int teardown_tree(void **state)
{
	if (faults)
		faults_detach(faults);
	return teardown(state);
}

static int record_gen(const char *gen, const char *kind, const char *text)
{
	return coord_dir_ops.record(&b, &me, gen, kind, text, strlen(text), first, &first_len);
}

static int record(const char *kind, const char *text)
{
	return record_gen(GEN, kind, text);
}

static bool first_is(const char *text)
{
	return first_len == strlen(text) && !memcmp(first, text, first_len);
}

static bool read_is(struct backing *at, const char *kind, const char *text)
{
	char buf[COORD_TEXT_MAX];
	ssize_t n = coord_dir_ops.read(at, me.uid, GEN, kind, buf, sizeof(buf));

	return n == (ssize_t)strlen(text) && !memcmp(buf, text, (size_t)n);
}

static int read_err(const char *kind)
{
	char buf[COORD_TEXT_MAX];

	return (int)coord_dir_ops.read(&b, me.uid, GEN, kind, buf, sizeof(buf));
}

/* .ckptfs/txn/UID, and the path of what is in it. */
static const char *in_txn(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), ".ckptfs/txn/%u%s%s", (unsigned)me.uid, *name ? "/" : "",
		 name);
	return path;
}

static unsigned nr_files(void)
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

/* --- on a directory --- */

static void who_is_first_is_read_by_all(void **state)
{
	struct stat st;

	(void)state;
	assert_int_equal(read_err("open"), -ENOENT);
	assert_int_equal(record("open", "{\"node\": \"a\"}"), 1);
	assert_int_equal(record("open", "{\"node\": \"b\"}"), 0);
	assert_true(first_is("{\"node\": \"a\"}"));
	assert_int_equal(record("open", "{\"node\": \"a\"}"), 1); /* its answer was lost, say */
	assert_true(read_is(&b, "open", "{\"node\": \"a\"}"));
	assert_int_equal(record("prepare", "p"), 1);
	assert_int_equal(record_gen(GEN_2, "open", ""), 1);
	assert_int_equal(record_gen(GEN_2, "open", "x"), 0);
	assert_true(first_is(""));
	assert_int_equal(nr_files(), fuse ? 6 : 3);
	assert_int_equal(fstatat(top, in_txn(""), &st, 0), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0700);
	assert_int_equal(fstatat(top, in_txn(GEN ".open"), &st, 0), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0600);
	assert_int_equal(st.st_nlink, 1);
}

static void records_may_be_long(void **state)
{
	char *text = malloc(COORD_TEXT_MAX + 1), *back = malloc(COORD_TEXT_MAX);

	(void)state;
	assert_non_null(text);
	assert_non_null(back);
	memset(text, 'x', COORD_TEXT_MAX + 1);
	assert_int_equal(coord_dir_ops.record(&b, &me, GEN, "prepare", text, COORD_TEXT_MAX + 1,
					      first, &first_len),
			 -EINVAL);
	assert_int_equal(coord_dir_ops.record(&b, &me, GEN, "prepare", text, COORD_TEXT_MAX, first,
					      &first_len),
			 1);
	assert_int_equal(coord_dir_ops.read(&b, me.uid, GEN, "prepare", back, COORD_TEXT_MAX),
			 COORD_TEXT_MAX);
	assert_memory_equal(back, text, COORD_TEXT_MAX);
	assert_int_equal(coord_dir_ops.read(&b, me.uid, GEN, "prepare", back, COORD_TEXT_MAX - 1),
			 -ERANGE);
	free(text);
	free(back);
}

static void odd_names_and_texts_are_refused(void **state)
{
	static const char *const gens[] = {"",
					   ".",
					   "../0123456789abcdef0123456789abc",
					   "0123456789abcdef0123456789abcde",
					   GEN "0",
					   "0123456789ABCDEF0123456789ABCDEF"};
	static const char *const odd_kinds[] = {"", "..", "decisions", "Open", "open/x", "vote"};
	char buf[8];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(gens); i++) {
		assert_int_equal(record_gen(gens[i], "open", "x"), -EINVAL);
		assert_int_equal(coord_dir_ops.read(&b, me.uid, gens[i], "open", buf, 8), -EINVAL);
		assert_int_equal(coord_dir_ops.forget(&b, &me, gens[i]), -EINVAL);
	}
	for (i = 0; i < ARRAY_SIZE(odd_kinds); i++) {
		assert_int_equal(record(odd_kinds[i], "x"), -EINVAL);
		assert_int_equal(coord_dir_ops.read(&b, me.uid, GEN, odd_kinds[i], buf, 8),
				 -EINVAL);
	}
	assert_int_equal(coord_dir_ops.record(&b, &me, GEN, "open", "a\0b", 3, first, &first_len),
			 -EINVAL);
	assert_false(exists(&b, in_txn("")));
}

struct found {
	unsigned nr;
	char gens[4][COORD_GEN_MAX];
	int answer;
};

static int found(void *arg, uid_t owner, const char *gen)
{
	struct found *f = arg;

	assert_int_equal(owner, me.uid);
	assert_true(f->nr < ARRAY_SIZE(f->gens));
	snprintf(f->gens[f->nr++], COORD_GEN_MAX, "%s", gen);
	return f->answer;
}

static void generations_are_listed_and_forgotten(void **state)
{
	struct found f = {0};
	int dir;

	(void)state;
	assert_int_equal(coord_dir_ops.list(&b, found, &f), 0);
	assert_int_equal(f.nr, 0);
	assert_int_equal(coord_dir_ops.forget(&b, &me, GEN), 0);
	assert_int_equal(record_gen(GEN_2, "decision", "commit"), 1);
	assert_int_equal(record("open", "o"), 1);
	assert_int_equal(record("decision", "commit"), 1);
	dir = openat(top, in_txn(""), O_RDONLY | O_DIRECTORY);
	make_file(dir, GEN ".open.0123456789abcdef", "half"); /* of a node that crashed */
	make_file(dir, "notes", "somebody's");
	make_file(dir, GEN, "no kind");
	make_file(dir, GEN ".vote", "of a later version");
	close(dir);
	assert_int_equal(mkdirat(top, ".ckptfs/txn/a", 0700), 0);
	assert_int_equal(mkdirat(top, ".ckptfs/txn/007", 0700), 0);
	assert_int_equal(mkdirat(top, ".ckptfs/txn/4294967295", 0700), 0);
	assert_int_equal(coord_dir_ops.list(&b, found, &f), 0);
	assert_int_equal(f.nr, 2);
	assert_string_equal(f.gens[0], GEN);
	assert_string_equal(f.gens[1], GEN_2);
	f = (struct found){.answer = -EINTR};
	assert_int_equal(coord_dir_ops.list(&b, found, &f), -EINTR);
	assert_int_equal(f.nr, 1);
	assert_int_equal(coord_dir_ops.forget(&b, &me, GEN), 0);
	assert_int_equal(read_err("open"), -ENOENT);
	assert_int_equal(read_err("decision"), -ENOENT);
	assert_int_equal(nr_files(), 4); /* the other generation, and what is not ours */
	f = (struct found){0};
	assert_int_equal(coord_dir_ops.list(&b, found, &f), 0);
	assert_int_equal(f.nr, 1);
	assert_string_equal(f.gens[0], GEN_2);
}

static void without_the_tree_there_is_nothing(void **state)
{
	struct found f = {0};

	(void)state;
	assert_int_equal(remove_tree(top, ".ckptfs"), 0);
	assert_int_equal(record("open", "x"), -ENOENT);
	assert_int_equal(read_err("open"), -ENOENT);
	assert_int_equal(coord_dir_ops.forget(&b, &me, GEN), 0);
	assert_int_equal(coord_dir_ops.list(&b, found, &f), 0);
	assert_int_equal(symlinkat("/tmp", top, ".ckptfs"), 0);
	assert_true(record("open", "x") < 0);
}

static void nothing_stays_open(void **state)
{
	struct found f = {0};
	int before = count_fds();

	(void)state;
	record("open", "x");
	record("open", "y");
	read_err("open");
	read_err("next");
	coord_dir_ops.list(&b, found, &f);
	coord_dir_ops.forget(&b, &me, GEN);
	assert_int_equal(count_fds(), before);
}

/* --- several at once --- */

enum { RACERS = 8, ROUNDS = 25 };

struct racer {
	pthread_t thread;
	pthread_barrier_t *start;
	char gen[COORD_GEN_MAX], text[16], seen[COORD_TEXT_MAX];
	int answer;
};

static void *race(void *arg)
{
	struct racer *me_too = arg;
	size_t len;

	pthread_barrier_wait(me_too->start);
	do {
		me_too->answer =
			coord_dir_ops.record(&b, &me, me_too->gen, "decision", me_too->text,
					     strlen(me_too->text), me_too->seen, &len);
	} while (me_too->answer == -EBUSY);
	if (me_too->answer >= 0)
		me_too->seen[len] = '\0';
	return NULL;
}

static void race_once(int round)
{
	static struct racer racers[RACERS];
	pthread_barrier_t start;
	int i, won = 0;

	pthread_barrier_init(&start, NULL, RACERS);
	for (i = 0; i < RACERS; i++) {
		racers[i].start = &start;
		snprintf(racers[i].gen, COORD_GEN_MAX, "%032x", round);
		snprintf(racers[i].text, sizeof(racers[i].text), "node %d", i);
		assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
	}
	for (i = 0; i < RACERS; i++)
		pthread_join(racers[i].thread, NULL);
	for (i = 0; i < RACERS; i++) {
		assert_true(racers[i].answer == 0 || racers[i].answer == 1);
		assert_string_equal(racers[i].seen, racers[0].seen);
		if (racers[i].answer)
			assert_string_equal(racers[i].seen, racers[i].text);
		won += racers[i].answer;
	}
	assert_int_equal(won, 1);
	pthread_barrier_destroy(&start);
}

static void of_many_at_once_one_is_first(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < ROUNDS; i++)
		race_once(i);
	assert_int_equal(nr_files(), fuse ? 2 * ROUNDS : ROUNDS); /* nothing else is left */
}

static void so_it_is_without_hard_links(void **state)
{
	int i;

	(void)state;
	faults = faults_attach(&b);
	faults_add(faults, &(struct fault){.calls = CALL_LINK, .err = EPERM});
	for (i = 0; i < ROUNDS; i++)
		race_once(i);
	assert_int_equal(nr_files(), ROUNDS);
}

/* --- what is not believed --- */

static void owners_are_told_apart(void **state)
{
	(void)state;
	if (geteuid())
		skip();
	assert_int_equal(record("open", "x"), 1);
	assert_int_equal(fchownat(top, in_txn(GEN ".open"), 1234, 1234, 0), 0);
	assert_int_equal(read_err("open"), -EPERM);
	assert_int_equal(record("open", "x"), -EPERM);
	assert_int_equal(fchownat(top, in_txn(GEN ".open"), me.uid, me.gid, 0), 0);
	assert_true(read_is(&b, "open", "x"));
	assert_int_equal(fchownat(top, in_txn(""), 1234, 1234, 0), 0);
	assert_int_equal(read_err("open"), -EPERM);
	assert_int_equal(record("open", "x"), -EPERM);
	assert_int_equal(coord_dir_ops.forget(&b, &me, GEN), -EPERM);
}

static void a_symlink_to_something_else_is_not_believed(void **state)
{
	static const char *const targets[] = {GEN ".next.0123456789abcdef", "../0/" GEN ".open",
					      "/etc/passwd"};
	size_t i;
	int dir;

	(void)state;
	assert_int_equal(record("next", "x"), 1);
	dir = openat(top, in_txn(""), O_RDONLY | O_DIRECTORY);
	for (i = 0; i < ARRAY_SIZE(targets); i++) {
		assert_int_equal(symlinkat(targets[i], dir, GEN ".open"), 0);
		assert_int_equal(read_err("open"), -EPERM);
		assert_int_equal(record("open", "y"), -EPERM);
		assert_int_equal(unlinkat(dir, GEN ".open", 0), 0);
	}
	/* To a file that was there before: somebody may have been told of it. */
	assert_int_equal(symlinkat(GEN ".open.0123456789abcdef", dir, GEN ".open"), 0);
	assert_int_equal(read_err("open"), -EIO);
	assert_int_equal(record("open", "y"), -EIO);
	close(dir);
}

static void a_squatter_hides_nobody_else(void **state)
{
	struct found f = {0};

	(void)state;
	assert_int_equal(record("open", "x"), 1);
	make_file(openat(top, ".ckptfs/txn", O_RDONLY), "12", "no directory");
	assert_int_equal(mkdirat(top, ".ckptfs/txn/11", 0700), 0); /* not theirs */
	assert_int_equal(coord_dir_ops.list(&b, found, &f), -EPERM);
	assert_int_equal(f.nr, 1);
}

static void a_directory_open_to_others_is_not_believed(void **state)
{
	(void)state;
	assert_int_equal(record("open", "x"), 1);
	assert_int_equal(fchmodat(top, in_txn(""), 0720, 0), 0);
	assert_int_equal(read_err("open"), -EPERM);
	assert_int_equal(record("next", "x"), -EPERM);
}

static void put(const char *name, const char *text)
{
	int dir = openat(top, in_txn(""), O_RDONLY | O_DIRECTORY);

	make_file(dir, name, text);
	close(dir);
}

static void what_is_no_record_is_not_believed(void **state)
{
	static const char *const bad[] = {
		"garbage\n",	       "ckptfs-record 1\nxy", "ckptfs-record -1\nx",
		"ckptfs-record 01\nx", "ckptfs-record 1 \nx", "ckptfs-record 99999\nx",
		"ckptfs-record\n",
	};
	size_t i;
	int fd;

	(void)state;
	assert_int_equal(mkdirat(top, in_txn(""), 0700), 0);
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		put(GEN ".open", bad[i]);
		if (read_err("open") != -EPERM || record("open", "x") != -EPERM)
			fail_msg("%s", bad[i]);
	}
	put(GEN ".open", "ckptfs-record 1\nx");
	assert_true(read_is(&b, "open", "x"));
	fd = openat(top, in_txn(GEN ".open"), O_WRONLY);
	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	close(fd);
	assert_int_equal(read_err("open"), -EPERM);
	assert_int_equal(unlinkat(top, in_txn(GEN ".open"), 0), 0);
	assert_int_equal(mkfifoat(top, in_txn(GEN ".open"), 0600), 0); /* nobody hangs on it */
	assert_int_equal(read_err("open"), -EPERM);
	assert_int_equal(mkdirat(top, in_txn(GEN ".prepare"), 0700), 0);
	assert_int_equal(read_err("prepare"), -EPERM);
	assert_int_equal(symlinkat(GEN ".next", top, in_txn(GEN ".decision")), 0);
	put(GEN ".next", "ckptfs-record 1\nx");
	assert_true(read_is(&b, "next", "x"));
	assert_true(read_err("decision") < 0);
	assert_true(read_err("decision") != -ENOENT);
}

static void a_part_of_a_record_is_none(void **state)
{
	static const char whole[] = "ckptfs-record 5\nhello";
	char part[sizeof(whole)];
	size_t i;
	int fd;

	(void)state;
	assert_int_equal(mkdirat(top, in_txn(""), 0700), 0);
	for (i = 0; i < sizeof(whole) - 1; i++) {
		snprintf(part, sizeof(part), "%.*s", (int)i, whole);
		put(GEN ".open", part);
		assert_int_equal(read_err("open"), -ENOENT);
		assert_int_equal(record("open", "hello"), -EBUSY);
		fd = openat(top, in_txn(GEN ".open"), O_WRONLY);
		assert_int_equal(ftruncate(fd, sizeof(whole) - 1), 0); /* zeros at the end */
		close(fd);
		assert_int_equal(read_err("open"), -ENOENT);
	}
	put(GEN ".open", whole);
	assert_true(read_is(&b, "open", "hello"));
	assert_int_equal(coord_dir_ops.forget(&b, &me, GEN), 0);
	assert_int_equal(record("open", "hello"), 1);
}

/* --- calls that fail, or are done and the answer gets lost --- */

static uint64_t calls_of_a_record(void)
{
	uint64_t before = faults_count(faults, CALL_ANY);

	assert_int_equal(record("decision", "commit"), 1);
	return faults_count(faults, CALL_ANY) - before;
}

static void fail_each_call(bool done, bool links)
{
	uint64_t nr, i;

	faults = faults_attach(&b);
	if (!links)
		faults_add(faults, &(struct fault){.calls = CALL_LINK, .err = EOPNOTSUPP});
	nr = calls_of_a_record();
	assert_true(nr > 10);
	for (i = 0; i < nr; i++) {
		int r, again;

		assert_int_equal(remove_tree(top, in_txn("")), 0);
		faults_clear(faults);
		if (!links)
			faults_add(faults, &(struct fault){.calls = CALL_LINK, .err = EOPNOTSUPP});
		faults_add(faults, &(struct fault){.calls = CALL_ANY,
						   .skip = (unsigned)i,
						   .times = 1,
						   .err = EIO,
						   .done = done});
		r = record("decision", "commit");
		assert_true(r == 1 || r < 0);
		if (r == 1)
			assert_true(read_is(&b, "decision", "commit"));
		again = record("decision", "commit");
		/* Without links the name may be taken by nobody knows whom. */
		assert_true(again == 1 || (!links && r < 0 && again == -EBUSY));
		if (again == 1) {
			assert_int_equal(record("decision", "abort"), 0);
			assert_true(first_is("commit"));
		}
		assert_int_equal(coord_dir_ops.forget(&b, &me, GEN), 0);
		assert_int_equal(nr_files(), 0);
	}
}

static void a_call_that_fails_is_settled(void **state)
{
	(void)state;
	fail_each_call(false, true);
}

static void an_answer_that_is_lost_is_settled(void **state)
{
	(void)state;
	fail_each_call(true, true);
}

static void calls_that_fail_without_links_are_settled(void **state)
{
	(void)state;
	fail_each_call(false, false);
	faults_detach(faults);
	fail_each_call(true, false);
}

/* The link was made, and its repetition found it there. */
static void one_is_not_second_to_oneself(void **state)
{
	(void)state;
	faults = faults_attach(&b);
	faults_add(faults, &(struct fault){.calls = CALL_LINK, .err = EEXIST, .done = true});
	assert_int_equal(record("prepare", "by me"), 1);
}

static void who_is_second_obeys_though_his_answer_is_lost(void **state)
{
	(void)state;
	assert_int_equal(record("prepare", "by me"), 1);
	faults = faults_attach(&b);
	/* The first look comes too early. */
	faults_add(faults,
		   &(struct fault){
			   .calls = CALL_PIN, .name = GEN ".prepare", .times = 1, .err = ENOENT});
	faults_add(faults, &(struct fault){.calls = CALL_LINK, .err = EIO});
	assert_int_equal(record("prepare", "by another"), 0);
	assert_true(first_is("by me"));
}

static void an_enoent_is_not_the_last_word(void **state)
{
	(void)state;
	assert_int_equal(record("prepare", "by me"), 1);
	faults = faults_attach(&b);
	faults_add(faults,
		   &(struct fault){.calls = CALL_PIN, .name = GEN ".prepare", .err = ENOENT});
	assert_int_equal(record("prepare", "by another"), -EIO);
	faults_clear(faults);
	assert_int_equal(record("prepare", "by another"), 0);
}

static void what_is_not_durable_is_not_believed(void **state)
{
	(void)state;
	assert_int_equal(record("decision", "commit"), 1);
	faults = faults_attach(&b);
	faults_add(faults, &(struct fault){.calls = CALL_SYNC_DIR, .err = EIO});
	assert_int_equal(read_err("decision"), -EIO);
	assert_int_equal(record("decision", "abort"), -EIO);
	faults_clear(faults);
	assert_true(read_is(&b, "decision", "commit"));
}

static void a_full_backing_is_told(void **state)
{
	(void)state;
	assert_int_equal(record("open", "x"), 1);
	faults = faults_attach(&b);
	faults_disk(faults, 0, ENOSPC);
	assert_int_equal(record("decision", "commit"), -ENOSPC);
	faults_clear(faults);
	assert_int_equal(nr_files(), 1);
	assert_int_equal(record("decision", "commit"), 1);
}

/* --- crashes --- */

enum { RECORDED = 1, SECOND_SAW, FORGOTTEN };

static bool absent_or(struct backing *at, const char *kind, const char *text, bool must)
{
	char buf[64];
	ssize_t n = coord_dir_ops.read(at, me.uid, GEN, kind, buf, sizeof(buf));

	if (n == -ENOENT || n == -EBUSY)
		return !must;
	return n == (ssize_t)strlen(text) && !memcmp(buf, text, (size_t)n);
}

/* @arg: NULL where there are no hard links; else what is left must not be in the way of the next try. */
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

/* --- as the owner --- */

static void records_belong_to_the_owner(void **state)
{
	const struct caller user = {1234, 1235, 0};
	struct stat st;

	(void)state;
	if (geteuid() || !creds_init(true))
		skip();
	me = user;
	assert_int_equal(record("open", "x"), 1);
	assert_int_equal(geteuid(), 0);
	assert_int_equal(fstatat(top, in_txn(""), &st, 0), 0);
	assert_int_equal(st.st_uid, 1234);
	assert_int_equal(st.st_gid, 1235);
	assert_int_equal(fstatat(top, in_txn(GEN ".open"), &st, 0), 0);
	assert_int_equal(st.st_uid, 1234);
	assert_true(read_is(&b, "open", "x"));
	assert_int_equal(coord_dir_ops.forget(&b, &me, GEN), 0);
	assert_int_equal(nr_files(), 0);
	/* Root's own, in the same tree. */
	me = (struct caller){0, 0, 0};
	assert_int_equal(record("open", "y"), 1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup_tree, teardown_tree)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(who_is_first_is_read_by_all),
		T(records_may_be_long),
		T(odd_names_and_texts_are_refused),
		T(generations_are_listed_and_forgotten),
		T(without_the_tree_there_is_nothing),
		T(nothing_stays_open),
		T(of_many_at_once_one_is_first),
		T(so_it_is_without_hard_links),
		T(owners_are_told_apart),
		T(a_squatter_hides_nobody_else),
		T(a_directory_open_to_others_is_not_believed),
		T(what_is_no_record_is_not_believed),
		T(a_part_of_a_record_is_none),
		T(a_call_that_fails_is_settled),
		T(an_answer_that_is_lost_is_settled),
		T(calls_that_fail_without_links_are_settled),
		T(one_is_not_second_to_oneself),
		T(who_is_second_obeys_though_his_answer_is_lost),
		T(an_enoent_is_not_the_last_word),
		T(what_is_not_durable_is_not_believed),
		T(a_full_backing_is_told),
		T(a_crash_leaves_all_or_nothing),
		T(a_crash_without_links_leaves_all_or_nothing),
		T(what_a_second_one_saw_survives),
		T(so_it_does_where_the_first_has_synced_nothing),
		T(a_crash_while_forgetting_leaves_no_undecided),
		T(records_belong_to_the_owner),
	};

	const struct CMUnitTest on_fuse[] = {
		T(who_is_first_is_read_by_all),
		T(records_may_be_long),
		T(nothing_stays_open),
		T(a_symlink_to_something_else_is_not_believed),
		T(of_many_at_once_one_is_first),
		T(a_call_that_fails_is_settled),
		T(an_answer_that_is_lost_is_settled),
		T(one_is_not_second_to_oneself),
		T(who_is_second_obeys_though_his_answer_is_lost),
		T(an_enoent_is_not_the_last_word),
		T(what_is_not_durable_is_not_believed),
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
