/* SPDX-License-Identifier: MIT */
/*
 * What a name shows: each row of the table in engine/names/names.h, and that it comes before the
 * rows below it. What a directory lists beside the backing's names.
 */
#include "tests/unit/one_checkpoint.h"

#include "engine/names/names.h"

#define FILE_OF_ONE "single-1.pt"
#define NEXT	    "step-2" /* a checkpoint that is still being saved */
#define LATEST	    "latest" /* a pointer by its name */

static int setup(void **state)
{
	(void)state;
	setup_with("");
	assert_int_equal(save(&m, FILE_OF_ONE, 3, 5000, false), 0);
	assert_int_equal(mnt_drain(&m, 60), 0);
	return 0;
}

static struct place at(const char *name)
{
	return (struct place){m.top, node_inode(m.root), name};
}

/* What the name shows to the thread @viewer. */
static enum name_shown_as shown_to(const char *name, pid_t viewer)
{
	struct place p = at(name);
	struct name_shown s;

	assert_int_equal(names_look(m.en.units, &m.en.backing, &p, viewer, &s), 0);
	names_put(&s);
	assert_int_equal(!!s.file, s.as == SHOWN_FILE);
	assert_int_equal(!!s.checkpoint, s.as == SHOWN_CHECKPOINT);
	assert_int_equal(s.pin >= 0, s.as == SHOWN_POINTER);
	return s.as;
}

static enum name_shown_as shown(const char *name)
{
	return shown_to(name, 0);
}

static bool is_behind(const char *name)
{
	struct place p = at(name);
	struct statx stx;
	int err = names_look_behind(m.en.units, &m.en.backing, &p, &stx);

	assert_true(!err || err == -ENOENT);
	return !err;
}

/* @name becomes, by a rename, a pending pointer to what is not committed yet. */
static void hold(const char *name)
{
	struct inode_id dir = node_inode(m.root);

	if (!names_look_saved(m.en.units, &dir, NEXT, 0, NULL)) {
		assert_int_equal(dir_make(&m, NEXT), 0);
		assert_int_equal(save(&m, NEXT "/" PART, 4, 5000, false), 0);
	}
	assert_int_equal(symlinkat(NEXT, m.top, "new"), 0);
	assert_int_equal(file_rename(&m, "new", name), 0);
	assert_int_equal(shown("new"), SHOWN_NOTHING);
}

/* 1: for that thread alone. */
static void a_pointer_for_its_writer(void **state)
{
	struct place p = at(LATEST);
	struct generation *g;
	struct name_shown s;

	(void)state;
	make_file(m.top, LATEST, "");
	assert_int_equal(generation_begin(m.en.units, &m.user, &p, 0600, -1, false, 77, &g), 0);
	assert_int_equal(names_look(m.en.units, &m.en.backing, &p, 77, &s), 0);
	assert_ptr_equal(s.file, g);
	names_put(&s);
	assert_int_equal(shown_to(LATEST, 77), SHOWN_FILE);
	assert_int_equal(shown_to(LATEST, 78), SHOWN_ON_BACKING);
	assert_int_equal(shown(LATEST), SHOWN_ON_BACKING);
	hold(LATEST);
	assert_int_equal(unlinkat(m.top, LATEST, 0), 0);
	assert_int_equal(shown_to(LATEST, 77), SHOWN_FILE);
	assert_int_equal(shown(LATEST), SHOWN_POINTER);
	generation_put(g);
}

/* 2: before what is removed, on the backing, or waits. */
static void a_file_that_is_being_saved(void **state)
{
	struct place lost = {-ESTALE, node_inode(m.root), "single-2.pt"};
	struct name_shown s;
	struct file file;

	(void)state;
	assert_int_equal(file_open(&m, &file, "single-2.pt", O_WRONLY), 0);
	assert_int_equal(shown("single-2.pt"), SHOWN_FILE);
	assert_int_equal(names_look(m.en.units, NULL, &lost, 0, &s), 0);
	assert_ptr_equal(s.file, file.h->generation);
	names_put(&s);
	assert_false(is_behind("single-2.pt"));
	assert_int_equal(file_close(&file), 0);
	assert_int_equal(mnt_drain(&m, 60), 0);
	assert_int_equal(shown("single-2.pt"), SHOWN_ON_BACKING);

	assert_int_equal(file_open(&m, &file, FILE_OF_ONE, O_WRONLY | O_TRUNC), 0);
	assert_int_equal(shown(FILE_OF_ONE), SHOWN_FILE);
	assert_true(is_behind(FILE_OF_ONE));
	assert_int_equal(file_unlink(&m, FILE_OF_ONE), 0);
	assert_int_equal(shown(FILE_OF_ONE), SHOWN_REMOVED);
	assert_int_equal(file_close(&file), 0);
	assert_int_equal(file_open(&m, &file, FILE_OF_ONE, O_WRONLY | O_EXCL), 0);
	assert_int_equal(shown(FILE_OF_ONE), SHOWN_FILE);
	assert_false(is_behind(FILE_OF_ONE));
	assert_int_equal(file_close(&file), 0);
}

/* 3: the same. */
static void a_checkpoint_that_is_being_saved(void **state)
{
	struct inode_id dir = node_inode(m.root);
	struct checkpoint *cp;

	(void)state;
	assert_int_equal(dir_make(&m, NEXT), 0);
	assert_int_equal(shown(NEXT), SHOWN_CHECKPOINT);
	cp = names_checkpoint(m.en.units, &dir, NEXT);
	assert_non_null(cp);
	checkpoint_put(cp);
	assert_null(names_checkpoint(m.en.units, &dir, UNIT));
	assert_int_equal(save(&m, UNIT "/" PART, 9, 5000, false), 0); /* a change */
	assert_int_equal(shown(UNIT), SHOWN_CHECKPOINT);
	assert_true(is_behind(UNIT));
}

/* 4: before what the backing has. */
static void what_ckptfs_keeps(void **state)
{
	int dir = openat(m.top, UNIT, O_PATH | O_CLOEXEC);
	struct place commit = {dir, {0}, COMMIT_FILE};
	struct name_shown s;

	(void)state;
	make_file(m.top, ".ckptfs-x", "");
	assert_int_equal(shown(".ckptfs-x"), SHOWN_RESERVED);
	assert_int_equal(shown(".ckptfs-y"), SHOWN_RESERVED);
	assert_int_equal(names_look(m.en.units, &m.en.backing, &commit, 0, &s), 0);
	assert_int_equal(s.as, SHOWN_ON_BACKING);
	names_put(&s);
	close(dir);
}

/* 5: before what the backing has; but a pointer that came since then is shown. */
static void what_was_removed(void **state)
{
	(void)state;
	assert_int_equal(shown(FILE_OF_ONE), SHOWN_ON_BACKING);
	assert_int_equal(file_unlink(&m, FILE_OF_ONE), 0);
	assert_int_equal(version_at(m.top, FILE_OF_ONE), 3);
	assert_int_equal(shown(FILE_OF_ONE), SHOWN_REMOVED);
	assert_false(is_behind(FILE_OF_ONE));
	hold(FILE_OF_ONE);
	assert_int_equal(version_at(m.top, FILE_OF_ONE), 3);
	assert_int_equal(shown(FILE_OF_ONE), SHOWN_POINTER);
}

/* 6 and 7: a pointer that waits replaces nothing yet. 8. */
static void what_the_backing_has(void **state)
{
	struct place p = at("plain"), lost = {-EACCES, p.id, "plain"};
	struct name_shown s;

	(void)state;
	assert_int_equal(shown("plain"), SHOWN_NOTHING);
	hold("plain");
	assert_int_equal(shown("plain"), SHOWN_POINTER);
	make_file(m.top, "plain", "");
	assert_int_equal(shown("plain"), SHOWN_ON_BACKING);
	assert_int_equal(names_look(m.en.units, &m.en.backing, &p, 0, &s), 0);
	assert_true(S_ISREG(s.stx.stx_mode));
	names_put(&s);
	assert_int_equal(names_look(m.en.units, NULL, &lost, 0, &s), -EACCES);
	assert_int_equal(s.as, SHOWN_NOTHING);
	names_put(&s);
}

static void a_mount_that_is_read_only(void **state)
{
	static const struct {
		const char *name;
		enum name_shown_as as;
	} rows[] = {{FILE_OF_ONE, SHOWN_ON_BACKING},
		    {".ckptfs-x", SHOWN_RESERVED},
		    {"none", SHOWN_NOTHING}};
	struct name_shown s;
	size_t i;

	(void)state;
	assert_int_equal(file_unlink(&m, FILE_OF_ONE), 0);
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct place p = at(rows[i].name);

		assert_int_equal(names_look(NULL, &m.en.backing, &p, 0, &s), 0);
		assert_int_equal(s.as, rows[i].as);
		names_put(&s);
		assert_false(names_look_saved(NULL, &p.id, p.name, 0, NULL));
	}
}

/* --- listings --- */

static bool lists(const struct names_listed *l, const char *name, mode_t type)
{
	size_t i;

	for (i = 0; i < l->nr; i++)
		if (!strcmp(l->names[i].name, name))
			return l->names[i].type == type;
	return false;
}

static bool shows(const struct names_listed *l, const char *name)
{
	struct place p = at(name);

	return names_list_shows(m.en.units, &m.en.backing, l, &p);
}

static void beside_the_backing(void **state)
{
	struct inode_id dir = node_inode(m.root);
	struct names_listed l = {0};
	struct file file;

	(void)state;
	assert_int_equal(file_open(&m, &file, FILE_OF_ONE, O_WRONLY | O_TRUNC), 0);
	hold("best");
	names_list(m.en.units, &dir, &l);
	names_read(m.en.units, &l);
	assert_int_equal(l.nr, 3);
	assert_true(lists(&l, FILE_OF_ONE, S_IFREG));
	assert_true(lists(&l, NEXT, S_IFDIR));
	assert_true(lists(&l, "best", S_IFLNK));
	assert_false(shows(&l, FILE_OF_ONE)); /* or it would be listed twice */
	assert_false(shows(&l, ".ckptfs-x"));
	assert_true(shows(&l, UNIT));
	names_list(NULL, &dir, &l);
	assert_int_equal(l.nr, 0);
	assert_int_equal(file_close(&file), 0);
}

/* Also if it was hidden when the names were read, and leaves the backing before it is listed. */
static void without_what_was_removed(void **state)
{
	struct inode_id dir = node_inode(m.root);
	struct names_listed l = {0};

	(void)state;
	assert_int_equal(file_unlink(&m, FILE_OF_ONE), 0);
	names_list(m.en.units, &dir, &l);
	names_read(m.en.units, &l);
	assert_int_equal(l.nr, 0);
	assert_false(shows(&l, FILE_OF_ONE));
	assert_int_equal(save(&m, "single-2.pt", 4, 5000, false), 0);
	while (shown(FILE_OF_ONE) == SHOWN_REMOVED)
		assert_int_equal(mnt_drain(&m, 60), 0);
	assert_int_equal(shown(FILE_OF_ONE), SHOWN_NOTHING);
	assert_false(shows(&l, FILE_OF_ONE));
	assert_true(shows(&l, "single-2.pt"));
}

static void what_is_empty(void **state)
{
	struct place p = at(UNIT), none = at("none");

	(void)state;
	assert_int_equal(names_check_empty(m.en.units, &m.en.backing, &none), -ENOENT);
	assert_int_equal(names_check_empty(m.en.units, &m.en.backing, &p), -ENOTEMPTY);
	assert_int_equal(file_unlink(&m, UNIT "/" PART), 0);
	assert_int_equal(names_check_empty(m.en.units, &m.en.backing, &p), -ENOTEMPTY);
	assert_int_equal(file_unlink(&m, UNIT "/.metadata"), 0);
	assert_int_equal(names_check_empty(m.en.units, &m.en.backing, &p), 0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		CASE(a_pointer_for_its_writer),
		CASE(a_file_that_is_being_saved),
		CASE(a_checkpoint_that_is_being_saved),
		CASE(what_ckptfs_keeps),
		CASE(what_was_removed),
		CASE(what_the_backing_has),
		CASE(a_mount_that_is_read_only),
		CASE(beside_the_backing),
		CASE(without_what_was_removed),
		CASE(what_is_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
