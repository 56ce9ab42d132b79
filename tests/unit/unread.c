/* SPDX-License-Identifier: MIT */
/*
 * Where others could save, too, who asks is waited for until it is read which job it is of: what
 * they save is hidden from strangers.
 */
#include "tests/unit/one_checkpoint.h"

#include <stdarg.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "engine/liveness/job.h"
#include "engine/save/checkpoint.h"

/* More often than who asks blocks while one question waits for its answer. */
#define LOOKS 6

static atomic_bool slow;
static sem_t looks;

static int setup(void **state)
{
	char path[PATH_MAX];
	struct error e;

	(void)state;
	mnt_open(&m, scratch_dir(path), SMALL_CACHE);
	f = faults_attach(&m.en.backing);
	assert_int_equal(engine_meet(&m.en, "test", "", NULL, NULL, &e), 0);
	mnt_start(&m);
	return 0;
}

/*
 * In place of libc's, also for the engine: an environment that takes longer to read than one
 * question waits.
 */
int openat(int dir, const char *name, int flags, ...)
{
	mode_t mode = 0;
	va_list ap;
	int i;

	va_start(ap, flags);
	if (flags & O_CREAT)
		mode = va_arg(ap, mode_t);
	va_end(ap);
	if (strstr(name, "/environ") && atomic_exchange(&slow, false))
		for (i = 0; i < LOOKS; i++)
			sem_wait(&looks);
	return (int)syscall(SYS_openat, dir, name, flags, mode);
}

static void who_is_slow_to_read_is_waited_for(void **state)
{
	struct caller user = m.user;
	struct process *p;
	int in[2];

	(void)state;
	assert_true(accord_has_others(m.en.units));
	assert_int_equal(pipe(in), 0);
	user.pid = fork();
	if (!user.pid) {
		char c;

		close(in[1]);
		_exit((int)read(in[0], &c, 1));
	}
	assert_int_equal(sem_init(&looks, 0, 0), 0);
	atomic_store(&slow, true);
	waiting = &looks;
	p = units_process(m.en.units, &user);
	waiting = NULL;
	assert_false(atomic_load(&slow));
	assert_true(p->read);
	process_put(p);
	close(in[0]);
	close(in[1]);
	assert_int_equal(waitpid(user.pid, NULL, 0), user.pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(who_is_slow_to_read_is_waited_for, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
