/* SPDX-License-Identifier: MIT */
/* timeout: 300 */
/* cpu: 15 */
/*
 * Saves through a mount, cut off by a power cut at every instant: under its name there is at any
 * time the old file or the new one, whole, and what was promised is there.
 */
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

static int setup(void **state)
{
	(void)state;
	scratch_dir(dir_path);
	mnt_open(&m, dir_path, SMALL_CACHE);
	r = NULL;
	promises = NULL;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (r)
		record_free(r);
	return 0;
}

static void begin(const struct expected *expected)
{
	promises = expected;
	r = record_start(&m.en.backing);
	mnt_start(&m);
}

/* --- after a crash --- */

/* The last word on a name. */
static unsigned may_be(const char *name, int mark)
{
	const struct expected *e;
	unsigned versions = 0;

	for (e = promises; e->name; e++)
		if (!strcmp(e->name, name) && e->mark <= mark)
			versions = e->versions;
	return versions;
}

static int told_otherwise(const char *name, int version, const char *where)
{
	print_error("%s %s is %s %d\n", name, where,
		    version == ABSENT ? "absent:"
		    : version == TORN ? "torn:"
				      : "version",
		    version);
	return 1;
}

/* Each name is what it may be, and a new one is vouched for. */
static int whole(const struct crash_state *s)
{
	const struct expected *e;

	for (e = promises; e->name; e++) {
		int version = version_on(s->backing, e->name);

		if (version == TORN || !(may_be(e->name, s->mark) & V(version)))
			return told_otherwise(e->name, version, "on the backing");
		if (version != ABSENT && version != OLD &&
		    feature(&m.en.backing.features, FEATURE_XATTR) &&
		    !has_digest_on(s->backing, e->name))
			return told_otherwise(e->name, version, "without a digest:");
	}
	return 0;
}

/* The next mount shows the same, and can save the same again. */
static int recovers(const struct crash_state *s)
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

static int check(void *arg, const struct crash_state *s)
{
	(void)arg;
	return whole(s) || (++nr_whole % recover_every == 0 && recovers(s));
}

static void assert_survives(void)
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

static void open_for(struct file *f, const char *name)
{
	assert_int_equal(file_open(&m, f, name, O_WRONLY | O_TRUNC), 0);
}

static void fill(struct file *f, int version, size_t size)
{
	assert_int_equal(file_fill(f, version, size), 0);
}

/* Pieces in an order of their own: a third of the file each. */
static void fill_backwards(struct file *f, int version, size_t size)
{
	__cleanup_free char *data = bytes_of(version, size);
	size_t third = size / 3;

	assert_int_equal(file_write(f, data + 2 * third, size - 2 * third, 2 * third),
			 size - 2 * third);
	assert_int_equal(file_write(f, data, third, 0), third);
	assert_int_equal(file_write(f, data + third, third, third), third);
}

static void promise(int mark)
{
	record_mark(r, mark);
}

/* --- one file --- */

static void a_new_file(void **state)
{
	static const struct expected e[] = {
		{"x.pt", 0, V(ABSENT) | V(SECOND)}, {"x.pt", 1, V(SECOND)}, {NULL, 0, 0}};

	(void)state;
	begin(e);
	assert_int_equal(save(&m, "x.pt", SECOND, NEW_SIZE, false), 0);
	assert_int_equal(name_wait(&m, "x.pt"), 0);
	promise(1);
	assert_survives();
}

/* fsync, close: what that returns is there. And not before the close. */
static void a_new_file_synced(void **state)
{
	static const struct expected e[] = {{"x.pt", 0, V(ABSENT)},
					    {"x.pt", 1, V(ABSENT) | V(SECOND)},
					    {"x.pt", 2, V(SECOND)},
					    {NULL, 0, 0}};
	struct file f;

	(void)state;
	begin(e);
	open_for(&f, "x.pt");
	fill(&f, SECOND, NEW_SIZE);
	assert_int_equal(file_sync(&f), 0);
	promise(1);
	assert_int_equal(file_close(&f), 0);
	promise(2);
	assert_survives();
}

static const struct expected over_old[] = {
	{"x.pt", 0, V(OLD)}, {"x.pt", 1, V(OLD) | V(SECOND)}, {"x.pt", 2, V(SECOND)}, {NULL, 0, 0}};

static void over_an_old_one(void **state)
{
	struct file f;

	(void)state;
	make_version(m.top, "x.pt", OLD, SIZE);
	begin(over_old);
	open_for(&f, "x.pt");
	fill(&f, SECOND, NEW_SIZE);
	promise(1);
	assert_int_equal(file_close(&f), 0);
	assert_int_equal(name_wait(&m, "x.pt"), 0);
	promise(2);
	assert_survives();
}

/* A shorter one leaves no tail of the old (W11). */
static void over_a_longer_one(void **state)
{
	struct file f;

	(void)state;
	make_version(m.top, "x.pt", OLD, SIZE);
	begin(over_old);
	open_for(&f, "x.pt");
	fill(&f, SECOND, SIZE / 2);
	promise(1);
	assert_int_equal(file_close(&f), 0);
	assert_int_equal(name_wait(&m, "x.pt"), 0);
	promise(2);
	assert_survives();
}

/* Each fsync is followed by more, the last by none: the close makes it good. */
static void fsyncs_before_the_last_write(void **state)
{
	struct file f;

	(void)state;
	make_version(m.top, "x.pt", OLD, SIZE);
	begin(over_old);
	open_for(&f, "x.pt");
	fill(&f, THIRD, NEW_SIZE / 2);
	assert_int_equal(file_sync(&f), 0);
	fill_backwards(&f, SECOND, NEW_SIZE);
	assert_int_equal(file_sync(&f), 0);
	fill(&f, SECOND, NEW_SIZE);
	promise(1);
	assert_int_equal(file_close(&f), 0);
	promise(2);
	assert_survives();
}

/* close, then fsync through another descriptor of it, or of its directory. */
static void fsync_of_the_directory(void **state)
{
	struct file f;

	(void)state;
	make_version(m.top, "x.pt", OLD, SIZE);
	begin(over_old);
	open_for(&f, "x.pt");
	fill(&f, SECOND, NEW_SIZE);
	assert_int_equal(file_sync(&f), 0);
	promise(1);
	generation_closed(f.h->generation, f.key, (struct writer_end){.fate = WRITER_ALIVE});
	assert_int_equal(dir_sync(&m), 0);
	promise(2);
	assert_int_equal(file_close(&f), 0);
	assert_survives();
}

/* What was flushed is written again, cut, and written once more. */
static void flushed_ranges_rewritten(void **state)
{
	__cleanup_free char *data = bytes_of(SECOND, NEW_SIZE);
	struct file f;

	(void)state;
	make_version(m.top, "x.pt", OLD, SIZE);
	begin(over_old);
	open_for(&f, "x.pt");
	fill(&f, THIRD, 300000);
	assert_int_equal(content_write_back(f.h->content), 0);
	assert_int_equal(file_write(&f, data + 70000, 9000, 70000), 9000);
	assert_int_equal(content_write_back(f.h->content), 0);
	assert_int_equal(file_truncate(&f, 100000), 0);
	fill(&f, FOURTH, 120000);
	assert_int_equal(content_write_back(f.h->content), 0);
	fill_backwards(&f, SECOND, NEW_SIZE);
	promise(1);
	assert_int_equal(file_close(&f), 0);
	assert_int_equal(name_wait(&m, "x.pt"), 0);
	promise(2);
	assert_survives();
}

/* Three times the cache. */
static void larger_than_the_cache(void **state)
{
	struct file f;

	(void)state;
	make_version(m.top, "x.pt", OLD, SIZE);
	begin(over_old);
	open_for(&f, "x.pt");
	fill(&f, SECOND, 3 * SMALL_CHUNKS * CHUNK + 5);
	promise(1);
	assert_int_equal(file_close(&f), 0);
	assert_int_equal(name_wait(&m, "x.pt"), 0);
	promise(2);
	assert_survives();
}

/* Opened without O_TRUNC: the new one is a copy with changes. */
static void changed_in_its_middle(void **state)
{
	static const struct expected e[] = {{"x.pt", 0, V(OLD)},
					    {"x.pt", 1, V(OLD) | V(PATCHED)},
					    {"x.pt", 2, V(PATCHED)},
					    {NULL, 0, 0}};
	__cleanup_free char *data = bytes_of(PATCHED, SIZE);
	struct file f;

	(void)state;
	make_version(m.top, "x.pt", OLD, SIZE);
	begin(e);
	assert_int_equal(file_open(&m, &f, "x.pt", O_RDWR), 0);
	assert_int_equal(file_write(&f, data + PATCH_AT, PATCH_LEN, PATCH_AT), PATCH_LEN);
	promise(1);
	assert_int_equal(file_sync(&f), 0);
	assert_int_equal(file_close(&f), 0);
	promise(2);
	assert_survives();
}

/* Opened again before it was published, by one that writes all of it anew. */
static void opened_again_while_open(void **state)
{
	struct file f, g;

	(void)state;
	make_version(m.top, "x.pt", OLD, SIZE);
	begin(over_old);
	open_for(&f, "x.pt");
	fill(&f, THIRD, NEW_SIZE + 70000);
	assert_int_equal(content_write_back(f.h->content), 0);
	open_for(&g, "x.pt");
	fill(&g, SECOND, NEW_SIZE);
	assert_int_equal(file_close(&f), 0);
	promise(1);
	assert_int_equal(file_close(&g), 0);
	assert_int_equal(name_wait(&m, "x.pt"), 0);
	promise(2);
	assert_survives();
}

/* --- more than one --- */

static void several_files(void **state)
{
	static const struct expected e[] = {{"a.pt", 0, V(OLD) | V(SECOND)},
					    {"b.pt", 0, V(ABSENT) | V(SECOND)},
					    {"c.pt", 0, V(OLD) | V(THIRD)},
					    {"b.pt", 1, V(SECOND)},
					    {"a.pt", 2, V(SECOND)},
					    {"c.pt", 3, V(THIRD)},
					    {NULL, 0, 0}};
	struct file a, b, c;

	(void)state;
	make_version(m.top, "a.pt", OLD, SIZE);
	make_version(m.top, "c.pt", OLD, SIZE);
	begin(e);
	open_for(&a, "a.pt");
	open_for(&b, "b.pt");
	open_for(&c, "c.pt");
	fill(&a, SECOND, NEW_SIZE);
	fill_backwards(&c, THIRD, 66000);
	fill(&b, SECOND, 100);
	assert_int_equal(file_sync(&b), 0);
	assert_int_equal(file_close(&b), 0);
	promise(1);
	assert_int_equal(file_close(&a), 0);
	assert_int_equal(file_close(&c), 0);
	assert_int_equal(name_wait(&m, "a.pt"), 0);
	promise(2);
	assert_int_equal(name_wait(&m, "c.pt"), 0);
	promise(3);
	assert_survives();
}

/* Saves in a row of one name: in their order, and none is lost that was promised. */
static void one_name_again_and_again(void **state)
{
	static const struct expected e[] = {{"x.pt", 0, V(OLD) | V(SECOND) | V(THIRD)},
					    {"x.pt", 1, V(THIRD)},
					    {"x.pt", 2, V(THIRD) | V(FOURTH) | V(SECOND)},
					    {"x.pt", 3, V(SECOND)},
					    {NULL, 0, 0}};

	(void)state;
	make_version(m.top, "x.pt", OLD, SIZE);
	begin(e);
	assert_int_equal(save(&m, "x.pt", SECOND, 70000, false), 0);
	assert_int_equal(save(&m, "x.pt", THIRD, NEW_SIZE, true), 0);
	promise(1);
	promise(2);
	assert_int_equal(save(&m, "x.pt", FOURTH, 66000, false), 0);
	assert_int_equal(save(&m, "x.pt", SECOND, NEW_SIZE, false), 0);
	assert_int_equal(name_wait(&m, "x.pt"), 0);
	promise(3);
	assert_survives();
}

/* One that began later was published first. */
static void one_that_was_overtaken(void **state)
{
	static const struct expected e[] = {{"x.pt", 0, V(OLD)},
					    {"x.pt", 1, V(OLD) | V(SECOND)},
					    {"x.pt", 2, V(SECOND)},
					    {NULL, 0, 0}};
	struct generation *g;
	struct inode_id dir;
	struct file f;
	int fd;

	(void)state;
	make_version(m.top, "x.pt", OLD, SIZE);
	begin(e);
	open_for(&f, "x.pt");
	fill(&f, THIRD, NEW_SIZE);
	/* As when the first is renamed here in another process at this moment. */
	dir = node_inode(m.root);
	fd = openat(m.top, "x.pt", O_RDONLY | O_CLOEXEC);
	assert_int_equal(generation_begin(m.en.units, &m.user, &(struct place){m.top, dir, "x.pt"},
					  0600, fd, false, 0, &g),
			 0);
	close(fd);
	assert_true(generation_open(g, 0));
	assert_int_equal(generation_write(g, 77), 0);
	{
		__cleanup_free char *data = bytes_of(SECOND, 70000);

		assert_int_equal(content_write(g->content, data, 70000, 0), 70000);
	}
	generation_changed(g);
	promise(1);
	generation_closed(g, 77, (struct writer_end){.fate = WRITER_ALIVE});
	assert_int_equal(generation_wait(g), 0);
	promise(2);
	generation_released(g);
	generation_put(g);
	assert_int_equal(file_sync(&f), 0);
	assert_int_equal(file_close(&f), 0);
	assert_survives();
}

/* --- renamed by the program --- */

static const struct expected by_rename[] = {{"x.pt", 0, V(OLD)},
					    {"x.pt.tmp", 0, V(ABSENT) | V(SECOND)},
					    {"x.pt", 1, V(OLD) | V(SECOND)},
					    {"x.pt", 2, V(SECOND)},
					    {NULL, 0, 0}};

static void renamed_before_it_is_published(void **state)
{
	(void)state;
	make_version(m.top, "x.pt", OLD, SIZE);
	begin(by_rename);
	assert_int_equal(save(&m, "x.pt.tmp", SECOND, NEW_SIZE, false), 0);
	promise(1);
	assert_int_equal(file_rename(&m, "x.pt.tmp", "x.pt"), 0);
	assert_int_equal(name_wait(&m, "x.pt"), 0);
	assert_int_equal(dir_sync(&m),
			 0); /* it may have been published before, under its first name */
	promise(2);
	assert_survives();
}

/* fsync, close, rename: with the rename it is there. */
static void synced_and_renamed(void **state)
{
	struct file f;

	(void)state;
	make_version(m.top, "x.pt", OLD, SIZE);
	begin(by_rename);
	open_for(&f, "x.pt.tmp");
	fill(&f, SECOND, NEW_SIZE);
	assert_int_equal(file_sync(&f), 0);
	promise(1);
	assert_int_equal(file_rename(&m, "x.pt.tmp", "x.pt"), 0);
	assert_int_equal(file_close(&f), 0);
	promise(2);
	assert_survives();
}

static void renamed_after_it_is_published(void **state)
{
	(void)state;
	make_version(m.top, "x.pt", OLD, SIZE);
	begin(by_rename);
	assert_int_equal(save(&m, "x.pt.tmp", SECOND, NEW_SIZE, true), 0);
	promise(1);
	assert_int_equal(file_rename(&m, "x.pt.tmp", "x.pt"), 0);
	assert_int_equal(dir_sync(&m), 0);
	promise(2);
	assert_survives();
}

/* As safetensors does. Over one that is itself not yet published. */
static void renamed_over_one_that_is_pending(void **state)
{
	static const struct expected e[] = {{"x.pt", 0, V(OLD) | V(THIRD)},
					    {".tmpAbc123", 0, V(ABSENT)},
					    {"x.pt", 1, V(OLD) | V(THIRD) | V(SECOND)},
					    {"x.pt", 2, V(SECOND)},
					    {NULL, 0, 0}};
	struct file f;

	(void)state;
	make_version(m.top, "x.pt", OLD, SIZE);
	begin(e);
	open_for(&f, ".tmpAbc123");
	fill(&f, SECOND, NEW_SIZE);
	assert_int_equal(save(&m, "x.pt", THIRD, 70000, false), 0);
	promise(1);
	assert_int_equal(file_rename(&m, ".tmpAbc123", "x.pt"), 0);
	assert_int_equal(file_close(&f), 0);
	assert_int_equal(name_wait(&m, "x.pt"), 0);
	promise(2);
	assert_survives();
}

/* Over one that is held open by its writer, who then comes too late. */
static void renamed_over_one_that_is_open(void **state)
{
	struct file f;

	(void)state;
	make_version(m.top, "x.pt", OLD, SIZE);
	begin(by_rename);
	open_for(&f, "x.pt");
	fill(&f, THIRD, NEW_SIZE);
	assert_int_equal(save(&m, "x.pt.tmp", SECOND, NEW_SIZE, false), 0);
	promise(1);
	assert_int_equal(file_rename(&m, "x.pt.tmp", "x.pt"), 0);
	assert_int_equal(name_wait(&m, "x.pt"), 0);
	promise(2);
	assert_int_equal(file_close(&f), 0);
	assert_survives();
}

static void renamed_to_another_directory(void **state)
{
	static const struct expected e[] = {{"a/x.pt", 0, V(ABSENT) | V(SECOND)},
					    {"b/x.pt", 0, V(OLD)},
					    {"b/x.pt", 1, V(OLD) | V(SECOND)},
					    {"b/x.pt", 2, V(SECOND)},
					    {NULL, 0, 0}};
	int dir;

	(void)state;
	assert_int_equal(mkdirat(m.top, "a", 0755) | mkdirat(m.top, "b", 0755), 0);
	make_version(m.top, "b/x.pt", OLD, SIZE);
	begin(e);
	assert_int_equal(save(&m, "a/x.pt", SECOND, NEW_SIZE, false), 0);
	promise(1);
	assert_int_equal(file_rename(&m, "a/x.pt", "b/x.pt"), 0);
	assert_int_equal(name_wait(&m, "b/x.pt"), 0);
	/* It may have been published before, under its first name. */
	dir = openat(m.top, "b", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(backing_sync(&m.en.backing, dir, false), 0);
	close(dir);
	promise(2);
	assert_survives();
}

/* A file of any name gets that of a unit: its data goes before. It has no digest. */
static int check_plain(void *arg, const struct crash_state *s)
{
	int version = version_on(s->backing, "x.pt");

	(void)arg;
	if (!(V(version) & (s->mark ? V(SECOND) : V(OLD) | V(SECOND))))
		return told_otherwise("x.pt", version, "on the backing");
	return 0;
}

static void a_plain_file_is_renamed_to_it(void **state)
{
	struct crash_options options = {.seed = 1};

	(void)state;
	make_version(m.top, "x.pt", OLD, SIZE);
	begin(by_rename);
	assert_int_equal(save(&m, "plain", SECOND, NEW_SIZE, false), 0);
	assert_int_equal(file_rename(&m, "plain", "x.pt"), 0);
	assert_int_equal(dir_sync(&m), 0);
	promise(1);
	assert_int_equal(mnt_drain(&m, 60), 0);
	record_stop(r);
	mnt_close(&m);
	if (crash_explore(r, &options, check_plain, NULL, &report))
		fail_msg("%s", report.what);
	assert_true(report.checked > 20);
}

/* --- not published --- */

static void removed_before_it_is_published(void **state)
{
	static const struct expected e[] = {{"x.pt", 0, V(OLD)},
					    {"x.pt", 1, V(OLD) | V(ABSENT)},
					    {"x.pt", 2, V(ABSENT)},
					    {NULL, 0, 0}};
	struct file f;

	(void)state;
	make_version(m.top, "x.pt", OLD, SIZE);
	begin(e);
	open_for(&f, "x.pt");
	fill(&f, SECOND, NEW_SIZE);
	promise(1);
	m.user.pid =
		getppid(); /* by another program: what one that saves removes would wait for its next save */
	assert_int_equal(file_unlink(&m, "x.pt"), 0);
	m.user.pid = getpid();
	fill(&f, THIRD, NEW_SIZE);
	assert_int_equal(file_close(&f), 0);
	assert_int_equal(dir_sync(&m), 0);
	promise(2);
	assert_survives();
}

/* Closed, removed at once, saved anew: at no time is there none. */
static void removed_and_saved_again(void **state)
{
	static const struct expected e[] = {
		{"x.pt", 0, V(OLD) | V(SECOND) | V(THIRD)}, {"x.pt", 1, V(THIRD)}, {NULL, 0, 0}};

	(void)state;
	make_version(m.top, "x.pt", OLD, SIZE);
	begin(e);
	assert_int_equal(save(&m, "x.pt", SECOND, NEW_SIZE, false), 0);
	assert_int_equal(file_unlink(&m, "x.pt"), 0);
	assert_int_equal(save(&m, "x.pt", THIRD, NEW_SIZE, true), 0);
	promise(1);
	assert_survives();
}

static unsigned nr_staged(void)
{
	DIR *d = fdopendir(openat(m.top, ".", O_RDONLY | O_DIRECTORY));
	struct dirent *entry;
	unsigned nr = 0;

	assert_non_null(d);
	while ((entry = readdir(d)))
		nr += !strncmp(entry->d_name, ".ckptfs-", 8);
	closedir(d);
	return nr;
}

static void whose_writer_died(void **state)
{
	static const struct expected e[] = {{"x.pt", 0, V(OLD)}, {NULL, 0, 0}};
	struct file f;

	(void)state;
	make_version(m.top, "x.pt", OLD, SIZE);
	begin(e);
	open_for(&f, "x.pt");
	fill(&f, SECOND, NEW_SIZE);
	assert_int_equal(content_write_back(f.h->content), 0);
	generation_closed(f.h->generation, f.key,
			  (struct writer_end){.fate = WRITER_DIED, .code = -9});
	file_close(&f);
	assert_int_equal(failures_total(m.en.failures), 1);
	while (nr_staged()) /* a publisher clears it away */
		usleep(1000);
	assert_survives();
}

/* --- anything, in any order --- */

enum { NAMES = 3, OPS = 12, MOST_WORDS = 4 * NAMES * OPS };

static const char *const some_names[NAMES] = {"a.pt", "b.pt", "c.pt.tmp"};

/* What the program knows of a name: what it is now, and what a crash may leave. */
static struct {
	int now;
	unsigned maybe;
	bool saved; /* last by a save, not by a rename or an unlink */
} known[NAMES];

static struct expected words[MOST_WORDS + 1];
static int nr_words, last_mark;
static uint64_t rng;

static unsigned pick(unsigned below)
{
	return (unsigned)(next_random(&rng) % below);
}

/* From here on all of what is known holds. */
static void say(void)
{
	int i;

	last_mark++;
	for (i = 0; i < NAMES; i++) {
		assert_true(nr_words < MOST_WORDS);
		words[nr_words++] = (struct expected){some_names[i], last_mark, known[i].maybe};
	}
	promise(last_mark);
}

static void random_save(int i, int version, bool sync)
{
	size_t size = 16 + pick(pick(4) ? 70000 : 300000);

	known[i].now = version;
	known[i].maybe |= V(version);
	known[i].saved = true;
	say();
	assert_int_equal(save(&m, some_names[i], version, size, sync), 0);
	if (sync)
		known[i].maybe = V(version);
}

static void random_rename(int from, int to)
{
	if (from == to || known[from].now == ABSENT)
		return;
	known[to].now = known[from].now;
	known[to].maybe |= V(known[from].now);
	known[from].now = ABSENT;
	known[from].maybe |= V(ABSENT);
	known[from].saved = known[to].saved = false;
	say();
	assert_int_equal(file_rename(&m, some_names[from], some_names[to]), 0);
}

static void random_unlink(int i)
{
	if (known[i].now == ABSENT)
		return;
	known[i].now = ABSENT;
	known[i].maybe |= V(ABSENT);
	known[i].saved = false;
	say();
	assert_int_equal(file_unlink(&m, some_names[i]), 0);
}

static void wait_for(int i)
{
	assert_int_equal(name_wait(&m, some_names[i]), 0);
	if (known[i].saved)
		known[i].maybe = V(known[i].now);
}

static void random_op(int version)
{
	int i = (int)pick(NAMES), k;

	switch (pick(8)) {
	case 0:
		random_rename(i, (int)pick(NAMES));
		break;
	case 1:
		random_unlink(i);
		break;
	case 2:
		wait_for(i);
		break;
	case 3:
		for (k = 0; k < NAMES; k++)
			wait_for(k);
		assert_int_equal(dir_sync(&m), 0);
		for (k = 0; k < NAMES; k++)
			known[k].maybe = V(known[k].now);
		break;
	default:
		random_save(i, version, pick(3) == 0);
	}
	say();
	for (k = 0; k < NAMES; k++)
		assert_int_equal(version_in(&m, some_names[k]), known[k].now);
}

static void anything_in_any_order(void **state)
{
	int seed, i;

	recover_every = 5;
	for (seed = 1; seed <= 5; seed++) {
		rng = (uint64_t)seed;
		memset(known, 0, sizeof(known));
		nr_words = last_mark = 0;
		known[0].now = OLD;
		make_version(m.top, some_names[0], OLD, SIZE);
		for (i = 0; i < NAMES; i++) {
			known[i].maybe = V(known[i].now);
			words[nr_words++] = (struct expected){some_names[i], 0, known[i].maybe};
		}
		begin(words);
		for (i = 0; i < OPS; i++)
			random_op(SECOND + i);
		words[nr_words].name = NULL;
		assert_survives();
		record_free(r);
		setup(state);
	}
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_new_file),
		T(a_new_file_synced),
		T(over_an_old_one),
		T(over_a_longer_one),
		T(fsyncs_before_the_last_write),
		T(fsync_of_the_directory),
		T(flushed_ranges_rewritten),
		T(larger_than_the_cache),
		T(changed_in_its_middle),
		T(opened_again_while_open),
		T(several_files),
		T(one_name_again_and_again),
		T(one_that_was_overtaken),
		T(renamed_before_it_is_published),
		T(synced_and_renamed),
		T(renamed_after_it_is_published),
		T(renamed_over_one_that_is_pending),
		T(renamed_over_one_that_is_open),
		T(renamed_to_another_directory),
		T(a_plain_file_is_renamed_to_it),
		T(removed_before_it_is_published),
		T(removed_and_saved_again),
		T(whose_writer_died),
		T(anything_in_any_order),
	};
	int failed;

	umask(0);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	print_message("%zu states checked\n", nr_checked);
	return failed;
}
