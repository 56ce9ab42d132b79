/* SPDX-License-Identifier: MIT */
/*
 * Of saves that have failed the daemon keeps no descriptors, and forgets those that nobody can ask
 * for; what a program finds under their names, or where it stands in one, stays as it was.
 */
#include "tests/unit/one_checkpoint.h"

#include <dirent.h>

#include "engine/base/json.h"
#include "engine/calls/directory.h"
#include "engine/cluster/fail.h"

#define MANY 300

static int setup(void **state)
{
	(void)state;
	return setup_with(",quiet_s=3600");
}

/* Those of directories: files that are still being written have some, too, for a moment. */
static unsigned nr_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	const struct dirent *entry;
	struct stat st;
	unsigned nr = 0;

	assert_non_null(d);
	while ((entry = readdir(d)))
		nr += !fstatat(dirfd(d), entry->d_name, &st, 0) && S_ISDIR(st.st_mode);
	closedir(d);
	return nr;
}

static void name_of(char name[16], unsigned nr)
{
	snprintf(name, 16, "step-%u", 100 + nr);
}

static void fail_pending(const char *name)
{
	struct checkpoint *cp = pending(name);

	assert_non_null(cp);
	checkpoint_fail(cp, -ECANCELED, "a test wants it");
	checkpoint_put(cp);
}

/* A save that has one file, and fails. */
static void fail_one(const char *name)
{
	char part[64];

	snprintf(part, sizeof(part), "%s/" PART, name);
	assert_int_equal(dir_make(&m, name), 0);
	assert_int_equal(save(&m, part, 5, 5000, false), 0);
	fail_pending(name);
}

static int find(const char *name, struct node **n)
{
	struct statx stx;

	return tree_lookup(m.fs.tree, &m.en.backing, m.root, name, 0, n, &stx);
}

static void let_go(struct node *n)
{
	tree_forget(m.fs.tree, n->id, 1);
	node_put(m.fs.tree, n);
}

static void many_failures_cost_no_descriptors(void **state)
{
	unsigned before, i;
	char name[16];
	struct node *n;

	(void)state;
	before = nr_descriptors();
	for (i = 0; i < MANY; i++) {
		name_of(name, i);
		fail_one(name);
	}
	assert_in_range(nr_descriptors(), 1, before + 16);
	assert_in_range(failures_total(m.en.units->failures), MANY, UINT64_MAX);
	for (i = 0; i < MANY; i++) {
		name_of(name, i);
		assert_int_equal(find(name, &n), -ENOENT);
	}
	/* And another may have the name. */
	name_of(name, 0);
	assert_int_equal(make_checkpoint(name, 7), 0);
	assert_int_equal(checkpoint_wait(&m, name), 0);
}

/* As a shell stands in it, or a program has it open. */
static void who_stands_in_one_finds_it_as_it_was(void **state)
{
	struct node_fd at;
	struct checkpoint *cp;
	struct inode_id id;
	enum generation_state known;
	char reason[MESSAGE_MAX], name[16];
	struct stat st;
	struct node *n;
	unsigned i;

	(void)state;
	assert_int_equal(dir_make(&m, "step-2"), 0);
	assert_int_equal(save(&m, "step-2/" PART, 5, 5000, false), 0);
	assert_int_equal(find("step-2", &n), 0);
	id = node_inode(n);
	fail_pending("step-2");
	for (i = 0; i < MANY; i++) {
		name_of(name, i);
		fail_one(name);
	}
	assert_int_equal(tree_fd(m.fs.tree, &m.en.backing, n, &at), 0);
	assert_int_equal(fstatat(at.fd, PART, &st, 0), 0);
	tree_fd_put(m.fs.tree, &at);
	assert_true(checkpoint_state_of(m.en.units, &id, &known, reason));
	assert_int_equal(known, GENERATION_FAILED);
	assert_string_equal(reason, "a test wants it");
	cp = checkpoints_find_inode(m.en.units, &id);
	assert_non_null(cp);
	assert_int_equal(checkpoint_enter(cp, NULL), -ECANCELED);
	checkpoint_put(cp);
	let_go(n);
}

/* Of those that no program can have, only so many are remembered. */
static void old_ones_are_left_to_fsck(void **state)
{
	struct units *us = m.en.units;
	struct inode_id id;
	struct checkpoint *cp;
	char name[16];
	struct node *n;
	unsigned i;

	(void)state;
	assert_int_equal(dir_make(&m, "step-2"), 0);
	assert_int_equal(find("step-2", &n), 0);
	id = node_inode(n);
	fail_pending("step-2");
	for (i = 0; i < WRECKS_KEPT + MANY; i++) {
		name_of(name, i);
		assert_int_equal(dir_make(&m, name), 0);
		fail_pending(name);
	}
	assert_in_range(us->wrecks.by_inode.nr, 1, WRECKS_KEPT + 128);
	cp = checkpoints_find_inode(us, &id);
	assert_non_null(cp);
	checkpoint_put(cp);
	let_go(n);
}

/* One that the name had before is shown again. */
static void the_name_shows_the_previous_commit(void **state)
{
	struct node *n;

	(void)state;
	assert_int_equal(save(&m, UNIT "/" PART, 9, 5000, false), 0);
	fail_pending(UNIT);
	assert_int_equal(find(UNIT, &n), 0);
	let_go(n);
	assert_int_equal(version_in(&m, UNIT "/" PART), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(many_failures_cost_no_descriptors, setup, teardown),
		cmocka_unit_test_setup_teardown(who_stands_in_one_finds_it_as_it_was, setup,
						teardown),
		cmocka_unit_test_setup_teardown(old_ones_are_left_to_fsck, setup, teardown),
		cmocka_unit_test_setup_teardown(the_name_shows_the_previous_commit, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
