/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/*
 * Saves that are not published, since they are removed or their writer died, cut off at every
 * instant.
 */
#include "tests/unit/save_crash.h"

#include "engine/metrics/failures.h"

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
	/* by another program: what one that saves removes would wait for its next save */
	m.user.pid = getppid();
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(removed_before_it_is_published),
		T(removed_and_saved_again),
		T(whose_writer_died),
	};
	int failed;

	umask(0);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	print_message("%zu states checked\n", nr_checked);
	return failed;
}
