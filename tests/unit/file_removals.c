/* SPDX-License-Identifier: MIT */
/*
 * A job removes a checkpoint of one file: it is gone from the mount, and stays on the backing until
 * the next one of that job is committed, whatever gets its name meanwhile. What others remove goes
 * at once.
 */
#include "tests/unit/mnt.h"

#include <sys/wait.h>

#include "engine/cluster/fail.h"
#include "engine/commit/journal_removal_work.h"
#include "tests/backing/faults.h"

#define ONE "step-1.pt"
#define TWO "step-2.pt"

static struct mnt m;
static struct faults *f;
static char path[PATH_MAX];

static int setup(void **state)
{
	(void)state;
	mnt_open(&m, scratch_dir(path), SMALL_CACHE);
	f = faults_attach(&m.en.backing);
	mnt_start(&m);
	assert_int_equal(save(&m, ONE, 3, 5000, false), 0);
	assert_int_equal(mnt_drain(&m, 60), 0);
	assert_int_equal(version_at(m.top, ONE), 3);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	engine_stop(&m.en);
	faults_detach(f);
	mnt_close(&m);
	return 0;
}

static void wait_for_version(const char *name, int version)
{
	while (version_at(m.top, name) != version)
		assert_int_equal(mnt_drain(&m, 60), 0);
}

static void after_the_next_save(void **state)
{
	(void)state;
	faults_freeze(f, CALL_SYNC);
	assert_int_equal(save(&m, TWO, 4, 5000, false), 0);
	assert_int_equal(file_unlink(&m, ONE), 0);
	assert_int_equal(version_in(&m, ONE), ABSENT);
	assert_int_equal(file_unlink(&m, ONE), -ENOENT);
	faults_wait_frozen(f, 1);
	assert_int_equal(version_at(m.top, ONE), 3);
	assert_int_equal(version_at(m.top, TWO), ABSENT);
	faults_thaw(f);
	wait_for_version(ONE, ABSENT);
	assert_int_equal(version_at(m.top, TWO), 4);
}

static void before_the_next_save_of_its_name(void **state)
{
	struct file file;

	(void)state;
	assert_int_equal(file_unlink(&m, ONE), 0);
	assert_int_equal(file_open(&m, &file, ONE, O_WRONLY | O_EXCL),
			 0); /* with nothing of the old one in it */
	assert_int_equal(file_fill(&file, 4, 3000), 0);
	assert_int_equal(version_at(m.top, ONE), 3);
	assert_int_equal(file_close(&file), 0);
	assert_int_equal(mnt_drain(&m, 60), 0);
	assert_int_equal(version_at(m.top, ONE), 4);
	assert_int_equal(version_in(&m, ONE), 4);
}

static void before_a_rename_to_its_name(void **state)
{
	struct file file;

	(void)state;
	assert_int_equal(file_unlink(&m, ONE), 0);
	assert_int_equal(file_open(&m, &file, ONE ".tmp", O_WRONLY | O_EXCL), 0);
	assert_int_equal(file_fill(&file, 4, 3000), 0);
	assert_int_equal(file_rename(&m, ONE ".tmp", ONE), 0);
	assert_int_equal(version_in(&m, ONE), 4);
	assert_int_equal(version_at(m.top, ONE), 3);
	assert_int_equal(file_close(&file), 0);
	assert_int_equal(mnt_drain(&m, 60), 0);
	assert_int_equal(version_at(m.top, ONE), 4);
	assert_int_equal(version_in(&m, ONE), 4);
}

/* One that is still to be committed goes, and the committed one that it was to replace waits. */
static void with_a_newer_save_of_it(void **state)
{
	struct file file;

	(void)state;
	assert_int_equal(file_open(&m, &file, ONE, O_WRONLY | O_TRUNC), 0);
	assert_int_equal(file_fill(&file, 4, 5000), 0);
	assert_int_equal(file_unlink(&m, ONE), 0);
	assert_int_equal(version_in(&m, ONE), ABSENT);
	assert_int_equal(version_at(m.top, ONE), 3);
	assert_int_equal(file_close(&file), 0);
	assert_int_equal(save(&m, TWO, 5, 5000, false), 0);
	wait_for_version(ONE, ABSENT);
	wait_for_version(TWO, 5);
}

/* What cannot be a checkpoint gets the name: then it is free. */
static void before_something_else_gets_its_name(void **state)
{
	struct file file;
	char text[64];

	(void)state;
	assert_int_equal(file_unlink(&m, ONE), 0);
	assert_int_equal(file_open(&m, &file, ONE, O_WRONLY | O_APPEND), 0);
	assert_int_equal(file_write(&file, "log", 3, 0), 3);
	assert_int_equal(file_close(&file), 0);
	assert_int_equal(mnt_drain(&m, 60), 0);
	assert_int_equal(file_open(&m, &file, ONE, O_RDONLY), 0);
	assert_int_equal(file_read(&file, text, sizeof(text), 0), 3);
	assert_int_equal(file_close(&file), 0);
}

static void by_a_person(void **state)
{
	pid_t me = m.user.pid, other = fork();

	(void)state;
	if (!other)
		for (;;)
			pause();
	m.user.pid = other;
	assert_int_equal(file_unlink(&m, ONE), 0);
	assert_int_equal(version_at(m.top, ONE), ABSENT);
	m.user.pid = me;
	kill(other, SIGKILL);
	assert_int_equal(waitpid(other, NULL, 0), other);
}

/* The last good one is not lost with the mount. */
static void nothing_comes(void **state)
{
	(void)state;
	assert_int_equal(file_unlink(&m, ONE), 0);
	assert_int_equal(version_in(&m, ONE), ABSENT);
	engine_stop(&m.en);
	assert_int_equal(version_at(m.top, ONE), 3);
}

/* Of two that are one checkpoint, neither is a newer one of the other. */
static void all_of_them(void **state)
{
	(void)state;
	assert_int_equal(save(&m, "optim-1.pt", 4, 5000, false), 0);
	assert_int_equal(mnt_drain(&m, 60), 0);
	assert_int_equal(file_unlink(&m, ONE), 0);
	assert_int_equal(file_unlink(&m, "optim-1.pt"), 0);
	engine_stop(&m.en);
	assert_int_equal(version_at(m.top, "optim-1.pt"), 4);
	assert_int_equal(version_at(m.top, ONE), 3);
}

/*
 * The next one is written under a temporary name: not its publish, but the rename is what is waited
 * for.
 */
static void before_a_temporary_name(void **state)
{
	(void)state;
	assert_int_equal(file_unlink(&m, ONE), 0);
	assert_int_equal(save(&m, TWO ".tmp", 4, 5000, false), 0);
	assert_int_equal(name_wait(&m, TWO ".tmp"), 0);
	assert_int_equal(mnt_drain(&m, 60), 0);
	{
		LOCK_SCOPE(&m.en.units->lock);
		assert_false(removals_work_locked(m.en.units));
	}
	assert_int_equal(version_at(m.top, ONE), 3);
	assert_int_equal(file_rename(&m, TWO ".tmp", TWO), 0);
	wait_for_version(ONE, ABSENT);
	assert_int_equal(version_at(m.top, TWO), 4);
}

static void by_a_job_of_many_saves(void **state)
{
	char name[64];
	int i;

	(void)state;
	assert_int_equal(dir_make(&m, "other"), 0);
	for (i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "other/%d.pt", i);
		assert_int_equal(save(&m, name, 4, 16, false), 0);
	}
	assert_int_equal(file_unlink(&m, ONE), 0);
	assert_int_equal(version_at(m.top, ONE), 3);
}

static int lookup(const char *name)
{
	struct statx stx;
	struct node *n;
	int err = tree_lookup(m.fs.tree, &m.en.backing, m.root, name, 0, &n, &stx);

	if (!err) {
		tree_forget(m.fs.tree, n->id, 1);
		node_put(m.fs.tree, n);
	}
	return err;
}

/* Its name cannot be made durable: but it is there. */
static void named_and_not_synced(void **state)
{
	int fault;

	(void)state;
	assert_int_equal(file_unlink(&m, ONE), 0);
	fault = faults_add(f, &(struct fault){.calls = CALL_SYNC_DIR, .err = EROFS});
	assert_int_equal(save(&m, ONE, 4, 5000, false), 0);
	assert_int_equal(name_wait(&m, ONE), -EROFS);
	assert_true(faults_hits(f, fault) > 0);
	assert_int_equal(version_at(m.top, ONE), 4);
	assert_int_equal(lookup(ONE), 0);
}

static void before_a_link_gets_its_name(void **state)
{
	char text[64] = "";

	(void)state;
	assert_int_equal(file_unlink(&m, ONE), 0);
	faults_freeze(f, CALL_SYNC);
	assert_int_equal(save(&m, TWO, 4, 5000, false), 0);
	assert_int_equal(link_make(&m, TWO, "link"), 0);
	assert_int_equal(file_rename(&m, "link", ONE), 0);
	assert_int_equal(lookup(ONE), 0);
	faults_thaw(f);
	while (readlinkat(m.top, ONE, text, sizeof(text) - 1) < 0)
		assert_int_equal(mnt_drain(&m, 60), 0);
	assert_string_equal(text, TWO);
	assert_int_equal(lookup(ONE), 0);
}

/* What a save is to replace is renamed with it, and is there when that fails. */
static void before_an_older_one_gets_its_name(void **state)
{
	struct inode_id dir = node_inode(m.root);
	struct generation *g;
	struct file file;

	(void)state;
	assert_int_equal(save(&m, TWO, 4, 5000, false), 0);
	assert_int_equal(mnt_drain(&m, 60), 0);
	assert_int_equal(file_unlink(&m, ONE), 0);
	assert_int_equal(file_open(&m, &file, TWO, O_WRONLY | O_TRUNC), 0);
	assert_int_equal(file_fill(&file, 5, 3000), 0);
	assert_int_equal(file_rename(&m, TWO, ONE), 0);
	assert_int_equal(version_in(&m, ONE), 5);
	g = units_find(m.en.units, &dir, ONE, 0);
	generation_fail(g, -EIO, "of this test");
	generation_put(g);
	assert_int_equal(version_at(m.top, ONE), 4);
	assert_int_equal(version_in(&m, ONE), 4);
	file_close(&file);
}

static void before_its_directory_is_renamed_over(void **state)
{
	(void)state;
	assert_int_equal(dir_make(&m, "out"), 0);
	assert_int_equal(save(&m, "out/a.pt", 4, 5000, false), 0);
	assert_int_equal(dir_make(&m, "new"), 0);
	assert_int_equal(save(&m, "new/a.pt", 5, 5000, false), 0);
	assert_int_equal(mnt_drain(&m, 60), 0);
	assert_int_equal(file_unlink(&m, "out/a.pt"), 0);
	assert_int_equal(file_rename(&m, "new", "out"), 0);
	assert_int_equal(version_in(&m, "out/a.pt"), 5);
}

/* A call that does nothing takes nothing. */
static void before_a_rename_that_fails(void **state)
{
	struct at from = at_begin(&m, "other.bin"), to = at_begin(&m, ONE);

	(void)state;
	make_version(m.top, "other.bin", 7, 5000);
	assert_int_equal(file_unlink(&m, ONE), 0);
	assert_int_equal(
		route_rename(&m.fs, &m.user, &(struct entry_name){from.dir, from.fd.fd, from.name},
			     &(struct entry_name){to.dir, to.fd.fd, to.name}, RENAME_EXCHANGE),
		-ENOENT);
	at_end(&m, &to);
	at_end(&m, &from);
	assert_int_equal(version_at(m.top, ONE), 3);
}

/* Nothing says which file was published: the newest will do. */
static void without_attributes(void **state)
{
	(void)state;
	m.en.backing.features->state[FEATURE_XATTR] = FEATURE_TURNED_OFF;
	faults_add(f, &(struct fault){.calls = CALL_SETXATTR, .err = EOPNOTSUPP});
	assert_int_equal(save(&m, TWO, 4, 5000, false), 0);
	assert_int_equal(mnt_drain(&m, 60), 0);
	assert_int_equal(file_unlink(&m, ONE), 0);
	engine_stop(&m.en);
	assert_int_equal(version_at(m.top, ONE), ABSENT);
	assert_int_equal(version_at(m.top, TWO), 4);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	static const struct CMUnitTest tests[] = {
		T(after_the_next_save),
		T(before_the_next_save_of_its_name),
		T(before_a_rename_to_its_name),
		T(with_a_newer_save_of_it),
		T(before_something_else_gets_its_name),
		T(by_a_person),
		T(nothing_comes),
		T(all_of_them),
		T(before_a_temporary_name),
		T(by_a_job_of_many_saves),
		T(named_and_not_synced),
		T(before_a_link_gets_its_name),
		T(before_an_older_one_gets_its_name),
		T(before_its_directory_is_renamed_over),
		T(before_a_rename_that_fails),
		T(without_attributes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
