/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/* Saves of one file and of several, new or over old ones, cut off at every instant. */
#include "tests/unit/save_crash.h"

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

/* A shorter one leaves no tail of the old. */
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

		assert_int_equal(content_write(generation_content(g), data, 70000, 0), 70000);
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
	};
	int failed;

	umask(0);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	print_message("%zu states checked\n", nr_checked);
	return failed;
}
