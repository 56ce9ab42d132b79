/* SPDX-License-Identifier: MIT */
/*
 * Records of generations as files on the backing: who is first is read by all; they are listed and
 * forgotten.
 */
#include "tests/unit/coord.h"

#include "engine/backing/creds.h"

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

static void records_belong_to_the_owner(void **state)
{
	const struct caller user = {.uid = 1234, .gid = 1235, .pid = 0};
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
	me = (struct caller){.uid = 0, .gid = 0, .pid = 0};
	assert_int_equal(record("open", "y"), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(who_is_first_is_read_by_all),	      T(records_may_be_long),
		T(odd_names_and_texts_are_refused),   T(generations_are_listed_and_forgotten),
		T(without_the_tree_there_is_nothing), T(nothing_stays_open),
		T(records_belong_to_the_owner),
	};

	const struct CMUnitTest on_fuse[] = {
		T(who_is_first_is_read_by_all),
		T(records_may_be_long),
		T(nothing_stays_open),
	};
	int failed;

	umask(0);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	fuse = true;
	return failed + cmocka_run_group_tests(on_fuse, NULL, NULL);
}
