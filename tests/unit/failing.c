/* SPDX-License-Identifier: MIT */
/* A file of a checkpoint fails: from then on the checkpoint is not committed, however long it takes to fail as well. */
#include "tests/unit/mnt.h"

#include <sys/wait.h>

#include "engine/unit/internal.h"

#define UNIT "step-1"

static struct mnt m;
static struct file file;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool holds, held; /* lock: who asks for the path of the checkpoint waits; somebody does */

static void name(void *tree, const struct inode_id *dir, const char *what, char *buf, size_t size)
{
	tree_path_of(tree, dir, what, buf, size);
	LOCK_SCOPE(&lock);
	if (strcmp(what, UNIT) || !holds)
		return;
	held = true;
	pthread_cond_broadcast(&changed);
	while (holds)
		pthread_cond_wait(&changed, &lock);
}

/* As the kernel closes the files of a process that was killed. */
static void *close_dying(void *pid)
{
	m.user.pid = *(pid_t *)pid;
	file_close(&file);
	return NULL;
}

static void wait_held(void)
{
	LOCK_SCOPE(&lock);
	while (!held)
		pthread_cond_wait(&changed, &lock);
}

static void let_go(void)
{
	LOCK_SCOPE(&lock);
	holds = false;
	pthread_cond_broadcast(&changed);
}

/* All else that its rule asks for is there: but the file that was open is not whole. */
static void a_killed_writer(void **state)
{
	pid_t me = getpid(), pid = fork();
	char path[PATH_MAX];
	struct checkpoint *cp;
	struct inode_id dir;
	pthread_t thread;
	siginfo_t info;

	(void)state;
	if (!pid)
		_exit(1);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	mnt_open(&m, scratch_dir(path), SMALL_CACHE ",quiet_s=3600");
	mnt_start(&m);
	units_set_namer(m.en.units, name, m.fs.tree);
	assert_int_equal(dir_make(&m, UNIT), 0);
	assert_int_equal(file_open(&m, &file, UNIT "/__0_0.distcp", O_WRONLY | O_TRUNC), 0);
	assert_int_equal(file_fill(&file, 3, 5000), 0);
	assert_int_equal(save(&m, UNIT "/.metadata.tmp", 4, 100, false), 0);
	assert_int_equal(file_rename(&m, UNIT "/.metadata.tmp", UNIT "/.metadata"), 0);
	dir = node_inode(m.root);
	cp = checkpoints_find(m.en.units, &dir, UNIT);
	assert_non_null(cp);

	holds = true;
	assert_int_equal(pthread_create(&thread, NULL, close_dying, &pid), 0);
	wait_held();
	{
		LOCK_SCOPE(&m.en.units->lock);
		checkpoint_look_for_end(cp);
		assert_int_equal(cp->state, GENERATION_OPEN);
	}
	let_go();
	pthread_join(thread, NULL);
	m.user.pid = me;
	assert_int_equal(cp->state, GENERATION_FAILED);
	checkpoint_put(cp);
	mnt_close(&m);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {cmocka_unit_test(a_killed_writer)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
