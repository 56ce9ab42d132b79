/* SPDX-License-Identifier: MIT */
/* Removals of a part of a committed checkpoint, and what else happens meanwhile. */
#include "tests/unit/one_checkpoint.h"

#include "engine/commit/journal_removal_work.h"
#include "engine/journal/journal_pending.h"

static int setup(void **state)
{
	(void)state;
	return setup_with(",quiet_s=1");
}

struct call {
	pthread_t thread;
	int err;
};

static void *change_part(void *call)
{
	((struct call *)call)->err = save(&m, UNIT "/" PART, 9, 5000, false);
	return NULL;
}

static void *unlink_end(void *call)
{
	struct call *k = call;

	k->err = file_unlink(&m, UNIT "/.metadata");
	if (k->err == -ESTALE) /* the kernel looks it up once more */
		k->err = file_unlink(&m, UNIT "/.metadata");
	return NULL;
}

/*
 * A change that takes along what is there, begun before the removal, has not that name in the end.
 */
static void what_is_removed_is_not_taken_along(void **state)
{
	struct call change, removal;

	(void)state;
	faults_freeze(f, CALL_CHMOD); /* the last step of what takes along */
	assert_int_equal(pthread_create(&change.thread, NULL, change_part, &change), 0);
	faults_wait_frozen(f, 1);
	assert_int_equal(pthread_create(&removal.thread, NULL, unlink_end, &removal), 0);
	faults_thaw(f);
	pthread_join(change.thread, NULL);
	pthread_join(removal.thread, NULL);
	assert_int_equal(change.err, 0);
	assert_int_equal(removal.err, 0);
	assert_int_equal(version_in(&m, UNIT "/.metadata"), ABSENT);
	assert_int_equal(version_in(&m, UNIT "/" PART), 9);
}

/* What was looked up before that, would be removed from what is replaced. */
static void nothing_is_removed_while_a_change_is_committed(void **state)
{
	struct at at = at_begin(&m, UNIT "/.metadata");
	struct inode_id dir = node_inode(at.dir);
	const struct unit_place u = {m.top, node_inode(m.root), dir, UNIT, false};
	struct process *p = units_process(m.en.units, &m.user);
	struct interruptible call;
	struct checkpoint *cp;

	(void)state;
	assert_int_equal(save(&m, UNIT "/" PART, 9, 5000, false), 0);
	faults_freeze(f, CALL_SYNC_DIR);
	cp = pending(UNIT);
	assert_int_equal(checkpoint_ask(cp), 0);
	faults_wait_frozen(f, 1);
	interruptible_init(&call);
	wait_serve(&call);
	wait_interrupt(&call);
	assert_int_equal(removal_note(m.en.units, &m.user, p, &u, &dir, at.name), -EINTR);
	wait_serve(NULL);
	faults_thaw(f);
	process_put(p);
	checkpoint_put(cp);
	at_end(&m, &at);
}

/* Removed first by one whose end nobody watches, then by one who is watched. */
static void who_removes_changes(void **state)
{
	struct caller user = m.user;

	(void)state;
	m.user.uid = 12345;
	m.user.pid = 0;
	assert_int_equal(file_unlink(&m, UNIT "/" PART), 0);
	m.user = user;
	assert_int_equal(file_unlink(&m, UNIT "/.metadata"), 0);
	assert_int_equal(dir_remove(&m, UNIT), 0);
}

static void wait_for_change(void)
{
	struct units *us = m.en.units;
	LOCK_SCOPE(&us->lock);

	waitq_wake_all(&us->work);
	waitq_wake_all(&us->commits);
	units_wait(us);
}

/*
 * The change that is made of a removal in part, by a thread of the daemon's, tells nobody that a
 * save has failed.
 */
static void a_failure_is_told_to_a_program(void **state)
{
	struct checkpoint *cp = NULL;

	(void)state;
	assert_int_equal(file_unlink(&m, UNIT "/" PART), 0);
	faults_add(f, &(struct fault){.calls = CALL_SYNC, .err = EIO});
	assert_int_equal(make_checkpoint("step-2", 4), 0);
	while ((cp = pending("step-2"))) { /* until it has failed */
		checkpoint_put(cp);
		wait_for_change();
	}
	faults_clear(f);
	while (version_at(m.top, UNIT "/" PART) != ABSENT)
		wait_for_change();
	assert_int_equal(dir_make(&m, "step-3"), -EIO);
	assert_int_equal(dir_make(&m, "step-3"), 0);
}

static void remove_unit(void)
{
	assert_int_equal(file_unlink(&m, UNIT "/" PART), 0);
	assert_int_equal(file_unlink(&m, UNIT "/.metadata"), 0);
	assert_int_equal(dir_remove(&m, UNIT), 0);
}

static bool will_be_named(void)
{
	struct inode_id dir = node_inode(m.root);
	LOCK_SCOPE(&m.en.units->lock);

	return pointers_will_name_locked(m.en.units, &dir, UNIT);
}

/* Not even where room is short. */
static void what_a_pointer_is_about_to_name_stays(void **state)
{
	struct file pointer;

	(void)state;
	assert_int_equal(make_checkpoint("step-2", 4), 0);
	assert_int_equal(checkpoint_wait(&m, "step-2"), 0);
	faults_freeze(f, CALL_SYNC);
	assert_int_equal(file_open(&m, &pointer, "latest", O_WRONLY | O_TRUNC), 0);
	assert_int_equal(file_write(&pointer, UNIT, strlen(UNIT), 0), strlen(UNIT));
	assert_int_equal(file_close(&pointer), 0);
	remove_unit();
	assert_true(will_be_named());
	assert_false(removals_hasten(m.en.units, m.user.uid, NULL));
	assert_int_equal(version_at(m.top, UNIT "/" PART), 3);
	faults_thaw(f);
}

/* That pointer comes after the next of its name, which takes its place. */
static void what_a_pointer_to_the_next_of_its_name_names_goes(void **state)
{
	(void)state;
	assert_int_equal(make_checkpoint("step-2", 4), 0);
	assert_int_equal(checkpoint_wait(&m, "step-2"), 0);
	remove_unit();
	assert_int_equal(dir_make(&m, UNIT), 0);
	assert_int_equal(save(&m, UNIT "/" PART, 5, 5000, false), 0);
	assert_int_equal(link_make(&m, UNIT, "latest"), 0);
	assert_int_equal(faccessat(m.top, "latest", F_OK, AT_SYMLINK_NOFOLLOW), -1);
	assert_false(will_be_named());
	assert_true(removals_hasten(m.en.units, m.user.uid, NULL));
	assert_int_equal(version_at(m.top, UNIT "/" PART), ABSENT);
}

/* A program writes what waited for another save anew; a child of it has closed it, it has not. */
static void what_an_open_pointer_names_anew_stays(void **state)
{
	struct file pointer, of_child;

	(void)state;
	assert_int_equal(dir_make(&m, "step-2"), 0);
	assert_int_equal(save(&m, "step-2/" PART, 4, 5000, false), 0);
	assert_int_equal(file_open(&m, &pointer, "latest", O_WRONLY), 0);
	of_child = pointer;
	of_child.key = ~pointer.key;
	assert_int_equal(file_write(&pointer, "step-2", 6, 0), 6);
	assert_int_equal(data_close(&m.fs, &m.user, pointer.h, pointer.key), 0);
	assert_false(will_be_named());
	assert_int_equal(file_write(&pointer, UNIT, strlen(UNIT), 0), strlen(UNIT));
	assert_int_equal(file_write(&of_child, UNIT, strlen(UNIT), 0), strlen(UNIT));
	assert_int_equal(data_close(&m.fs, &m.user, of_child.h, of_child.key), 0);
	assert_true(will_be_named());
	assert_int_equal(file_close(&pointer), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_removed_is_not_taken_along, setup,
						teardown),
		cmocka_unit_test_setup_teardown(nothing_is_removed_while_a_change_is_committed,
						setup, teardown),
		cmocka_unit_test_setup_teardown(who_removes_changes, setup, teardown),
		cmocka_unit_test_setup_teardown(a_failure_is_told_to_a_program, setup, teardown),
		cmocka_unit_test_setup_teardown(what_a_pointer_is_about_to_name_stays, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_a_pointer_to_the_next_of_its_name_names_goes,
						setup, teardown),
		cmocka_unit_test_setup_teardown(what_an_open_pointer_names_anew_stays, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
