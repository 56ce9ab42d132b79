/* SPDX-License-Identifier: MIT */
/* version.json and the tree around it: parsed strictly, made once, found above. */
#include "tests/unit/unit.h"

#include <sys/file.h>
#include <sys/syscall.h>

#include "engine/format/format.h"

#define UUID "01234567-89ab-4def-8123-456789abcdef"

static const char *parse(const char *text, long long *version)
{
	struct format f = {0};

	return format_parse(text, strlen(text), &f, version);
}

static void good_texts_parse(void **state)
{
	struct format f = {0};
	long long version = 0;
	static const char text[] = "{\"ckptfs\": 1, \"uuid\": \"" UUID "\", \"created_ns\": 5}\n";

	(void)state;
	assert_null(format_parse(text, sizeof(text) - 1, &f, &version));
	assert_int_equal(version, 1);
	assert_true(f.present);
	assert_string_equal(f.uuid, UUID);
	/* What a later version adds is no reason to refuse. */
	assert_null(parse("{\"ckptfs\": 99, \"uuid\": \"" UUID "\", \"new\": []}", &version));
	assert_int_equal(version, 99);
	assert_null(parse("{\"ckptfs\": 98, \"id\": 5}", &version)); /* nor what it leaves out */
	assert_int_equal(version, 98);
}

static void damaged_texts_are_told(void **state)
{
	static const struct {
		const char *text, *problem;
	} bad[] = {
		{"", "not JSON"},
		{"{", "not JSON"},
		{"garbage", "not JSON"},
		{"{\"ckptfs\": 1, \"ckptfs\": 1, \"uuid\": \"" UUID "\"}", "not JSON"},
		{"{\"ckptfs\": 1, \"uuid\": \"" UUID "\"} x", "not JSON"},
		{"[1]", "no format number in key 'ckptfs'"},
		{"{}", "no format number in key 'ckptfs'"},
		{"{\"ckptfs\": \"1\", \"uuid\": \"" UUID "\"}", "no format number in key 'ckptfs'"},
		{"{\"ckptfs\": 1.5, \"uuid\": \"" UUID "\"}", "no format number in key 'ckptfs'"},
		{"{\"ckptfs\": 0, \"uuid\": \"" UUID "\"}", "no format number in key 'ckptfs'"},
		{"{\"ckptfs\": -1, \"uuid\": \"" UUID "\"}", "no format number in key 'ckptfs'"},
		{"{\"ckptfs\": 1}", "no uuid"},
		{"{\"ckptfs\": 1, \"uuid\": 5}", "no uuid"},
		{"{\"ckptfs\": 1, \"uuid\": \"\"}", "no uuid"},
		{"{\"ckptfs\": 1, \"uuid\": \"" UUID "0\"}", "no uuid"},
	};
	long long version = 77;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const char *problem = parse(bad[i].text, &version);

		if (!problem || strcmp(problem, bad[i].problem))
			fail_msg("%s: %s", bad[i].text, problem ? problem : "accepted");
		assert_int_equal(version, 77);
	}
}

static void bytes_behind_the_end_are_not_read(void **state)
{
	struct format f = {0};
	long long version;
	static const char text[] = "{\"ckptfs\": 1, \"uuid\": \"" UUID "\"}garbage";

	(void)state;
	assert_null(format_parse(text, sizeof(text) - 8, &f, &version));
}

static void init_makes_the_tree_once(void **state)
{
	struct format first, second;
	struct error e;
	struct stat st, again;
	int dir = scratch_fd(), i;

	(void)state;
	assert_int_equal(format_read(dir, "here", &first, &e), 0);
	assert_false(first.present);
	assert_int_equal(format_init(dir, "here", &e), 0);
	assert_int_equal(format_read(dir, "here", &first, &e), 0);
	assert_true(first.present);
	assert_int_equal(strlen(first.uuid), 36);
	assert_int_equal(first.uuid[14], '4'); /* a random uuid says so */
	assert_non_null(strchr("89ab", first.uuid[19]));
	assert_int_equal(fstatat(dir, ".ckptfs", &st, 0), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0755);
	assert_int_equal(fstatat(dir, ".ckptfs/txn", &st, 0), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 01777);
	assert_int_equal(fstatat(dir, ".ckptfs/nodes", &st, 0), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 01777);
	assert_int_equal(fstatat(dir, ".ckptfs/digests", &st, 0), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 01777);
	assert_int_equal(fstatat(dir, ".ckptfs/version.json", &st, 0), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0644);
	assert_int_equal(st.st_nlink, 1);
	for (i = 0; i < 3; i++)
		assert_int_equal(format_init(dir, "here", &e), 0);
	assert_int_equal(format_read(dir, "here", &second, &e), 0);
	assert_string_equal(first.uuid, second.uuid);
	assert_int_equal(fstatat(dir, ".ckptfs/version.json", &again, 0), 0);
	assert_int_equal(st.st_ino, again.st_ino);
	close(dir);
}

static int entries(int top, const char *name)
{
	int fd = openat(top, name, O_RDONLY | O_DIRECTORY);
	DIR *d = fdopendir(fd);
	int nr = -2;

	assert_non_null(d);
	while (readdir(d))
		nr++;
	closedir(d);
	return nr;
}

static void init_completes_what_is_missing(void **state)
{
	struct error e;
	int dir = scratch_fd();

	(void)state;
	assert_int_equal(mkdirat(dir, ".ckptfs", 0700), 0);
	assert_int_equal(format_init(dir, "here", &e), 0);
	assert_int_equal(entries(dir, ".ckptfs"), 4); /* no temporary file is left */
	close(dir);
}

/* Many nodes mount for the first time at once: one uuid comes of it. */
static void init_at_once_agrees(void **state)
{
	char uuids[8][37];
	int dir = scratch_fd(), go[2], out[2], i;
	char c;

	(void)state;
	assert_int_equal(pipe(go), 0);
	assert_int_equal(pipe(out), 0);
	for (i = 0; i < 8; i++) {
		struct format f;
		struct error e;

		if (fork())
			continue;
		close(go[1]);
		if (read(go[0], &c, 1) < 0 || format_init(dir, "x", &e) ||
		    format_read(dir, "x", &f, &e) || write(out[1], f.uuid, 37) != 37)
			_exit(1);
		_exit(0);
	}
	close(go[0]);
	close(go[1]);
	close(out[1]);
	for (i = 0; i < 8; i++) {
		assert_int_equal(read(out[0], uuids[i], 37), 37);
		assert_string_equal(uuids[i], uuids[0]);
	}
	close(out[0]);
	assert_int_equal(entries(dir, ".ckptfs"), 4);
	close(dir);
}

static void newer_formats_are_refused(void **state)
{
	struct format f;
	struct error e;
	int dir = scratch_fd();

	(void)state;
	assert_int_equal(mkdirat(dir, ".ckptfs", 0755), 0);
	make_file(dir, ".ckptfs/version.json", "{\"ckptfs\": 2, \"uuid\": \"" UUID "\"}");
	assert_int_equal(format_read(dir, "here", &f, &e), -EPROTO);
	assert_contains(e.text, "format 2");
	assert_contains(e.text, "knows up to 1");
	assert_int_equal(format_init(dir, "here", &e), -EPROTO);
	make_file(dir, ".ckptfs/version.json", "{\"ckptfs\": 3}");
	assert_int_equal(format_read(dir, "here", &f, &e), -EPROTO);
	assert_contains(e.text, "format 3");
	close(dir);
}

/* A backing's owner may have made .ckptfs a link out of it. */
static void linked_directories_are_refused(void **state)
{
	struct format f;
	struct error e;
	struct stat st;
	char outside[PATH_MAX];
	int dir = scratch_fd(), out = open(scratch_dir(outside), O_RDONLY | O_DIRECTORY);

	(void)state;
	assert_int_equal(format_init(out, outside, &e), 0);
	assert_int_equal(chmod(outside, 0700), 0);
	assert_int_equal(unlinkat(out, ".ckptfs/nodes", AT_REMOVEDIR), 0);
	snprintf(outside + strlen(outside), sizeof(outside) - strlen(outside), "/.ckptfs");
	assert_int_equal(chmod(outside, 0700), 0);
	assert_int_equal(symlinkat(outside, dir, ".ckptfs"), 0);
	assert_int_equal(format_read(dir, "here", &f, &e), -ELOOP);
	assert_contains(e.text, "here/.ckptfs is a symbolic link");
	assert_false(f.present);
	assert_int_equal(format_init(dir, "here", &e), -ELOOP);
	assert_contains(e.text, "here/.ckptfs is a symbolic link");
	assert_int_equal(stat(outside, &st), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0700);
	assert_int_equal(faccessat(out, ".ckptfs/nodes", F_OK, 0), -1);
	close(out);
	close(dir);
}

static int swap_in =
	-1; /* the backing, whose owner waits for .ckptfs to be made; -1: nobody waits */
static char victim[PATH_MAX];

/* In place of libc's, also for the engine. */
int mkdirat(int dir, const char *name, mode_t mode)
{
	int r = (int)syscall(SYS_mkdirat, dir, name, mode);

	if (!r && swap_in >= 0 && !strcmp(name, ".ckptfs")) {
		assert_int_equal(renameat(dir, name, dir, "old"), 0);
		assert_int_equal(symlinkat(victim, dir, name), 0);
	}
	return r;
}

static void init_changes_nothing_that_is_swapped_in(void **state)
{
	struct error e;
	struct stat st;

	(void)state;
	swap_in = scratch_fd();
	scratch_dir(victim);
	assert_int_equal(chmod(victim, 0700), 0);
	assert_true(format_init(swap_in, "here", &e) < 0);
	assert_contains(e.text, "here/.ckptfs");
	assert_int_equal(stat(victim, &st), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0700);
	assert_int_equal(rmdir(victim), 0); /* empty */
	close(swap_in);
	swap_in = -1;
}

static void damaged_files_are_left_alone(void **state)
{
	struct format f;
	struct error e;
	struct stat st;
	int dir = scratch_fd();

	(void)state;
	assert_int_equal(mkdirat(dir, ".ckptfs", 0755), 0);
	make_file(dir, ".ckptfs/version.json", "garbage");
	assert_int_equal(format_read(dir, "here", &f, &e), -EINVAL);
	assert_contains(e.text, "not JSON");
	assert_int_equal(format_init(dir, "here", &e), -EINVAL);
	assert_int_equal(fstatat(dir, ".ckptfs/version.json", &st, 0), 0);
	assert_int_equal(st.st_size, 7);
	assert_int_equal(faccessat(dir, ".ckptfs/txn", F_OK, 0), -1);
	close(dir);
}

/* Another user may have put anything there: no symlink is followed and no FIFO waited
 * for. */
static void odd_files_do_not_mislead(void **state)
{
	struct format f;
	struct error e;
	int dir = scratch_fd();

	(void)state;
	assert_int_equal(mkdirat(dir, ".ckptfs", 0755), 0);
	make_file(dir, "good", "{\"ckptfs\": 1, \"uuid\": \"" UUID "\"}");
	assert_int_equal(symlinkat("../good", dir, ".ckptfs/version.json"), 0);
	assert_true(format_read(dir, "here", &f, &e) < 0);
	assert_int_equal(unlinkat(dir, ".ckptfs/version.json", 0), 0);
	assert_int_equal(mkfifoat(dir, ".ckptfs/version.json", 0644), 0);
	assert_true(format_read(dir, "here", &f, &e) < 0);
	assert_int_equal(unlinkat(dir, ".ckptfs/version.json", 0), 0);
	assert_int_equal(mkdirat(dir, ".ckptfs/version.json", 0755), 0);
	assert_true(format_read(dir, "here", &f, &e) < 0);
	close(dir);
	dir = scratch_fd();
	make_file(dir, ".ckptfs", "a file");
	assert_int_equal(format_read(dir, "here", &f, &e), 0);
	assert_false(f.present);
	assert_true(format_init(dir, "here", &e) < 0);
	assert_contains(e.text, "cannot make here/.ckptfs");
	close(dir);
}

static void nested_backings_are_found(void **state)
{
	struct error e;
	int dir = scratch_fd(), sub, before;

	(void)state;
	assert_int_equal(mkdirat(dir, "a", 0755), 0);
	assert_int_equal(mkdirat(dir, "a/b", 0755), 0);
	assert_int_equal(mkdirat(dir, "a/b/c", 0755), 0);
	sub = openat(dir, "a/b/c", O_RDONLY | O_DIRECTORY);
	before = count_fds();
	assert_int_equal(format_check_nested(sub, "sub", &e), 0);
	assert_int_equal(format_init(sub, "sub", &e), 0);
	assert_int_equal(format_check_nested(sub, "sub", &e), 0); /* not by itself */
	assert_int_equal(format_init(dir, "top", &e), 0);
	assert_int_equal(format_check_nested(sub, "sub", &e), -EBUSY);
	assert_contains(e.text, "sub lies inside /");
	assert_int_equal(format_check_nested(dir, "top", &e), 0);
	assert_int_equal(format_check_nested(-1, "closed", &e), -EBADF);
	assert_contains(e.text, "closed");
	assert_int_equal(count_fds(), before);
	close(sub);
	close(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_texts_parse),
		cmocka_unit_test(damaged_texts_are_told),
		cmocka_unit_test(bytes_behind_the_end_are_not_read),
		cmocka_unit_test(init_makes_the_tree_once),
		cmocka_unit_test(init_completes_what_is_missing),
		cmocka_unit_test(init_at_once_agrees),
		cmocka_unit_test(newer_formats_are_refused),
		cmocka_unit_test(linked_directories_are_refused),
		cmocka_unit_test(init_changes_nothing_that_is_swapped_in),
		cmocka_unit_test(damaged_files_are_left_alone),
		cmocka_unit_test(odd_files_do_not_mislead),
		cmocka_unit_test(nested_backings_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
