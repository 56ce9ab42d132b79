/* SPDX-License-Identifier: MIT */
/*
 * A job removes a checkpoint of one file: it is gone from the mount, and stays on the backing until the next one of that
 * job is committed, whatever gets its name meanwhile. What others remove goes at once.
 */
#include "tests/unit/mnt.h"

#include <sys/wait.h>

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
	(void)state;
	assert_int_equal(file_unlink(&m, ONE), 0);
	faults_freeze(f, CALL_SYNC);
	assert_int_equal(save(&m, ONE ".tmp", 4, 3000, false), 0);
	assert_int_equal(file_rename(&m, ONE ".tmp", ONE), 0);
	assert_int_equal(version_in(&m, ONE), 4);
	assert_int_equal(version_at(m.top, ONE), 3);
	faults_thaw(f);
	assert_int_equal(mnt_drain(&m, 60), 0);
	assert_int_equal(version_at(m.top, ONE), 4);
	assert_int_equal(version_in(&m, ONE), 4);
}

/* One that is still to be committed goes, and the committed one that it was to replace waits. */
static void with_a_newer_save_of_it(void **state)
{
	(void)state;
	faults_freeze(f, CALL_SYNC);
	assert_int_equal(save(&m, ONE, 4, 5000, false), 0);
	assert_int_equal(file_unlink(&m, ONE), 0);
	assert_int_equal(version_in(&m, ONE), ABSENT);
	assert_int_equal(version_at(m.top, ONE), 3);
	faults_thaw(f);
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
