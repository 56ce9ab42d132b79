/* SPDX-License-Identifier: MIT */
/*
 * A file of a checkpoint fails: from then on the checkpoint is not committed, however long it takes
 * to fail as well.
 */
#include "tests/unit/mnt.h"

#include <sys/wait.h>

#include "engine/cluster/fail.h"
#include "engine/commit/start.h"
#include "engine/save/units.h"
#include "tests/backing/faults.h"

#define UNIT "step-1"
#define PART "__0_0.distcp"

static struct mnt m;
static struct file file;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool (*holds)(void); /* lock: a thread that asks for a path waits while this is so */
static bool held;	    /* lock: a thread does */
static sem_t waits;	    /* a process that was told by a call waits, or does not any more */
static struct backing_ops ops;
static const struct backing_ops *next;

static ssize_t path_of(void *arg, int fd, char *buf, size_t size)
{
	{
		MUTEX_SCOPE(&lock);
		if (holds && holds()) {
			held = true;
			pthread_cond_broadcast(&changed);
		}
		while (held && holds)
			pthread_cond_wait(&changed, &lock);
	}
	return next->path(arg, fd, buf, size);
}

/* Before mnt_start. */
static void hold_paths(void)
{
	next = m.en.backing.ops;
	ops = *next;
	ops.path = path_of;
	m.en.backing.ops = &ops;
}

static bool file_has_failed(void)
{
	return file.h->generation->state == GENERATION_FAILED;
}

static bool always(void)
{
	return true;
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
	MUTEX_SCOPE(&lock);
	while (!held)
		pthread_cond_wait(&changed, &lock);
}

static void let_go(void)
{
	MUTEX_SCOPE(&lock);
	holds = NULL;
	held = false;
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
	hold_paths();
	mnt_start(&m);
	assert_int_equal(dir_make(&m, UNIT), 0);
	assert_int_equal(file_open(&m, &file, UNIT "/" PART, O_WRONLY | O_TRUNC), 0);
	assert_int_equal(file_fill(&file, 3, 5000), 0);
	assert_int_equal(save(&m, UNIT "/.metadata.tmp", 4, 100, false), 0);
	assert_int_equal(file_rename(&m, UNIT "/.metadata.tmp", UNIT "/.metadata"), 0);
	dir = node_inode(m.root);
	cp = checkpoints_find(m.en.units, &dir, UNIT);
	assert_non_null(cp);

	holds = file_has_failed;
	assert_int_equal(pthread_create(&thread, NULL, close_dying, &pid), 0);
	wait_held();
	{
		LOCK_SCOPE(&m.en.units->lock);
		checkpoint_look_for_end_locked(cp);
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

/* As the flush finds out. */
static void *fail_content(void *unused)
{
	content_fail(file.h->generation->content, -EDQUOT);
	return unused;
}

/* As a write answers that finds the error of the flush. */
static void *tell(void *unused)
{
	waiting = &waits;
	checkpoint_told(file.h->generation, &m.user);
	sem_post(&waits);
	return unused;
}

/*
 * A write that fails tells its process, also when that is answered before the checkpoint has failed
 * as well.
 */
static void nobody_is_told_twice(void **state)
{
	char path[PATH_MAX];
	pthread_t fails, tells;

	(void)state;
	mnt_open(&m, scratch_dir(path), SMALL_CACHE ",quiet_s=3600");
	hold_paths();
	mnt_start(&m);
	assert_int_equal(dir_make(&m, UNIT), 0);
	assert_int_equal(file_open(&m, &file, UNIT "/" PART, O_WRONLY | O_TRUNC), 0);
	assert_int_equal(file_fill(&file, 3, 5000), 0);
	holds = always;
	assert_int_equal(pthread_create(&fails, NULL, fail_content, NULL), 0);
	wait_held();
	sem_init(&waits, 0, 0);
	assert_int_equal(pthread_create(&tells, NULL, tell, NULL), 0);
	sem_wait(&waits);
	let_go();
	pthread_join(fails, NULL);
	pthread_join(tells, NULL);
	assert_int_equal(file_close(&file), -EDQUOT);
	assert_int_equal(dir_make(&m, "step-2"), 0);
	mnt_close(&m);
}

static void *close_pointer(void *pointer)
{
	file_close(pointer);
	return NULL;
}

/*
 * Who names one that has failed looks whether anything else has its name. A backing that hangs then
 * is for him alone.
 */
static void a_pointer_to_it(void **state)
{
	struct file pointer, other;
	struct units_progress progress;
	struct checkpoint *cp;
	struct inode_id dir;
	char path[PATH_MAX];
	struct faults *f;
	pthread_t thread;

	(void)state;
	mnt_open(&m, scratch_dir(path), SMALL_CACHE ",quiet_s=3600");
	f = faults_attach(&m.en.backing);
	mnt_start(&m);
	assert_int_equal(dir_make(&m, UNIT), 0);
	assert_int_equal(save(&m, UNIT "/" PART, 3, 5000, false), 0);
	assert_int_equal(file_open(&m, &other, UNIT "/__1_0.distcp", O_WRONLY | O_TRUNC), 0);
	dir = node_inode(m.root);
	cp = checkpoints_find(m.en.units, &dir, UNIT);
	assert_non_null(cp);
	assert_int_equal(file_open(&m, &pointer, "latest", O_WRONLY | O_TRUNC), 0);
	assert_int_equal(file_write(&pointer, UNIT, strlen(UNIT), 0), strlen(UNIT));
	checkpoint_fail(cp, -EIO, "of this test");

	faults_freeze(f, CALL_STAT);
	assert_int_equal(pthread_create(&thread, NULL, close_pointer, &pointer), 0);
	faults_wait_frozen(f, 1);
	units_progress(m.en.units, &progress);
	faults_thaw(f);
	pthread_join(thread, NULL);
	file_close(&other);
	assert_int_not_equal(mnt_drain(&m, 60), -ETIMEDOUT); /* what is dropped counts as failed */
	assert_int_equal(faccessat(m.top, "latest", F_OK, 0), -1);
	checkpoint_put(cp);
	engine_stop(&m.en);
	faults_detach(f);
	mnt_close(&m);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_killed_writer),
		cmocka_unit_test(nobody_is_told_twice),
		cmocka_unit_test(a_pointer_to_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
