/* SPDX-License-Identifier: MIT */
/* The run directory: nobody else's, one holder for each label, sockets of the dead
 * removed. */
#include "tests/unit/unit.h"

#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "fs/rundir.h"

static ino_t ino; /* of the socket of the last rundir_listen */
static char run_dir[RUNDIR_PATH_MAX];

/* A run directory of this test's own, made by rundir_make. */
static int setup(void **state)
{
	char path[PATH_MAX], name[PATH_MAX + 8];
	struct error e;

	(void)state;
	snprintf(name, sizeof(name), "%s/run", scratch_dir(path));
	setenv("CKPTFS_RUN_DIR", name, 1);
	return rundir_make(run_dir, &e);
}

static void it_is_made_for_its_owner(void **state)
{
	char again[RUNDIR_PATH_MAX];
	struct error e;
	struct stat st;

	(void)state;
	assert_string_equal(run_dir, getenv("CKPTFS_RUN_DIR"));
	assert_int_equal(stat(run_dir, &st), 0);
	assert_int_equal(st.st_uid, geteuid());
	assert_int_equal(st.st_mode & 022, 0);
	assert_int_equal(rundir_make(again, &e), 0);
	assert_string_equal(again, run_dir);
}

static void is_refused(const char *part)
{
	char out[RUNDIR_PATH_MAX];
	struct error e;

	assert_true(rundir_make(out, &e) < 0);
	assert_contains(e.text, run_dir);
	assert_contains(e.text, part);
	assert_contains(e.text, "Nothing was mounted");
}

static void what_others_may_write_is_refused(void **state)
{
	(void)state;
	assert_int_equal(chmod(run_dir, 0775), 0);
	is_refused("only its owner");
	assert_int_equal(chmod(run_dir, 0757), 0);
	is_refused("only its owner");
	assert_int_equal(chmod(run_dir, 0755), 0);
	if (geteuid() == 0) {
		assert_int_equal(chown(run_dir, 1001, 1001), 0);
		is_refused("only its owner");
	}
}

static void what_is_no_directory_is_refused(void **state)
{
	char elsewhere[PATH_MAX];

	(void)state;
	assert_int_equal(rmdir(run_dir), 0);
	assert_int_equal(symlink(scratch_dir(elsewhere), run_dir), 0);
	is_refused("only its owner");
	assert_int_equal(unlink(run_dir), 0);
	close(open(run_dir, O_WRONLY | O_CREAT, 0644));
	is_refused("only its owner");
	assert_int_equal(unlink(run_dir), 0);
	setenv("CKPTFS_RUN_DIR", "/no/such/dir/run", 1);
	snprintf(run_dir, sizeof(run_dir), "/no/such/dir/run");
	is_refused("No such file");
}

/* --- labels --- */

/* Another process that holds the label @wanted until *hold is closed; its label goes to
 * @got. */
static pid_t start_holder(const char *wanted, char got[128], int *hold)
{
	int go[2], told[2];
	pid_t pid;

	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	assert_int_equal(pipe2(told, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		char label[128] = "", c;
		struct error e;
		int fd, err = rundir_take_label(run_dir, wanted, label, &fd, &e);

		close(go[1]);
		if (write(told[1], label, sizeof(label)) < 0 || read(go[0], &c, 1) < 0)
			_exit(1);
		_exit(err != 0); /* without dropping it, as one that crashes */
	}
	close(go[0]);
	assert_int_equal(read(told[0], got, 128), 128);
	close(told[0]);
	close(told[1]);
	*hold = go[1];
	return pid;
}

static void labels_have_one_holder(void **state)
{
	char label[128], got[128];
	struct error e;
	int fd, hold;
	pid_t pid = start_holder("n1", got, &hold);

	(void)state;
	assert_string_equal(got, "n1");
	assert_int_equal(rundir_take_label(run_dir, "n1", label, &fd, &e), -EBUSY);
	assert_contains(e.text, "'n1' is in use");
	assert_int_equal(rundir_take_label(run_dir, "n2", label, &fd, &e), 0);
	rundir_drop_label(run_dir, label, fd);
	close(hold);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	/* However it died, the label is free. */
	assert_int_equal(rundir_take_label(run_dir, "n1", label, &fd, &e), 0);
	assert_string_equal(label, "n1");
	rundir_drop_label(run_dir, label, fd);
}

static void dropped_labels_leave_no_file(void **state)
{
	char label[128], path[RUNDIR_PATH_MAX + 64];
	struct error e;
	int fd, before = count_fds(), i;

	(void)state;
	for (i = 0; i < 3; i++) {
		assert_int_equal(rundir_take_label(run_dir, "n1", label, &fd, &e), 0);
		snprintf(path, sizeof(path), "%s/node-n1.lock", run_dir);
		assert_int_equal(access(path, F_OK), 0);
		rundir_drop_label(run_dir, label, fd);
		assert_int_equal(access(path, F_OK), -1);
	}
	assert_int_equal(count_fds(), before);
}

static void automatic_labels_are_numbered(void **state)
{
	char host[128] = "", expected[160], label[128], got[128];
	struct error e;
	int fd, hold;
	pid_t pid;

	(void)state;
	assert_int_equal(gethostname(host, 64), 0);
	pid = start_holder("", got, &hold);
	assert_int_equal(strncmp(got, host, strlen(host)), 0);
	assert_string_equal(got, host);
	assert_int_equal(rundir_take_label(run_dir, "", label, &fd, &e), 0);
	snprintf(expected, sizeof(expected), "%s-2", host);
	assert_string_equal(label, expected);
	close(hold);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	rundir_drop_label(run_dir, label, fd);
}

/* Takers and droppers at once: never two holders. */
static void label_races_have_one_winner(void **state)
{
	char path[RUNDIR_PATH_MAX + 64];
	int i, status, round;

	(void)state;
	snprintf(path, sizeof(path), "%s/held", run_dir);
	for (i = 0; i < 4; i++) {
		if (fork())
			continue;
		for (round = 0; round < 4000; round++) {
			char label[128];
			struct error e;
			int fd, err = rundir_take_label(run_dir, "n1", label, &fd, &e);

			if (err == -EBUSY)
				continue;
			if (err || mkdir(path, 0700)) /* somebody else is inside */
				_exit(1);
			sched_yield();
			rmdir(path);
			rundir_drop_label(run_dir, label, fd);
		}
		_exit(0);
	}
	for (i = 0; i < 4; i++) {
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
}

/* --- sockets --- */

static void owners_listen_and_are_found(void **state)
{
	struct error e;
	int listener, client, before = count_fds();

	(void)state;
	assert_int_equal(rundir_connect(geteuid(), 0, 77), -ENOENT);
	listener = rundir_listen(run_dir, 0, 77, &ino, &e);
	assert_true(listener >= 0);
	client = rundir_connect(geteuid(), 0, 77);
	assert_true(client >= 0);
	assert_int_equal(fcntl(client, F_GETFL) & O_NONBLOCK, 0);
	close(client);
	/* Someone who listens there without being the owner of the mount is not believed.
	 */
	assert_true(rundir_connect(geteuid() + 1, 0, 77) < 0);
	/* Nor does a daemon that ends take away the socket of the next one of that number. */
	rundir_unlisten(run_dir, 0, 77, ino + 1);
	client = rundir_connect(geteuid(), 0, 77);
	assert_true(client >= 0);
	close(client);
	rundir_unlisten(run_dir, 0, 77, ino);
	close(listener);
	assert_int_equal(rundir_connect(geteuid(), 0, 77), -ENOENT);
	assert_int_equal(count_fds(), before);
}

static bool there(const char *name)
{
	char path[RUNDIR_PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/%s", run_dir, name);
	return !access(path, F_OK);
}

static void sockets_of_the_dead_are_removed(void **state)
{
	struct error e;
	int alive, mine, dead;

	(void)state;
	dead = rundir_listen(run_dir, 0, 1, &ino, &e);
	close(dead);
	assert_int_equal(rundir_connect(geteuid(), 0, 1), -ECONNREFUSED);
	alive = rundir_listen(run_dir, 0, 2, &ino, &e);
	assert_true(alive >= 0);
	assert_false(there("0-1.sock"));
	dead = rundir_listen(run_dir, 0, 1, &ino, &e);
	close(dead);
	close(open(run_dir, O_RDONLY));
	mine = rundir_listen(run_dir, 0, 3, &ino, &e);
	assert_false(there("0-1.sock"));
	assert_true(there("0-2.sock"));
	assert_true(there("0-3.sock"));
	close(mine);
	/* One that was left under our own number is replaced. */
	mine = rundir_listen(run_dir, 0, 3, &ino, &e);
	assert_true(mine >= 0);
	close(mine);
	close(alive);
}

/* A daemon that accepts nothing: the queue fills up, and asking must not hang. */
static void full_queues_are_silence(void **state)
{
	struct error e;
	int listener = rundir_listen(run_dir, 0, 5, &ino, &e), fds[200], i, fd = -1;

	(void)state;
	for (i = 0; i < 200; i++) {
		fd = fds[i] = rundir_connect(geteuid(), 0, 5);
		if (fd < 0)
			break;
	}
	assert_int_equal(fd, -ETIMEDOUT);
	while (i-- > 0)
		close(fds[i]);
	close(listener);
}

static void long_paths_are_told(void **state)
{
	char dir[PATH_MAX];
	struct error e;

	(void)state;
	memset(dir, 'd', 200);
	dir[200] = '\0';
	assert_int_equal(rundir_listen(dir, 0, 1, &ino, &e), -ENAMETOOLONG);
	assert_contains(e.text, "too long for a unix socket");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(it_is_made_for_its_owner, setup),
		cmocka_unit_test_setup(what_others_may_write_is_refused, setup),
		cmocka_unit_test_setup(what_is_no_directory_is_refused, setup),
		cmocka_unit_test_setup(labels_have_one_holder, setup),
		cmocka_unit_test_setup(dropped_labels_leave_no_file, setup),
		cmocka_unit_test_setup(automatic_labels_are_numbered, setup),
		cmocka_unit_test_setup(label_races_have_one_winner, setup),
		cmocka_unit_test_setup(owners_listen_and_are_found, setup),
		cmocka_unit_test_setup(sockets_of_the_dead_are_removed, setup),
		cmocka_unit_test_setup(full_queues_are_silence, setup),
		cmocka_unit_test_setup(long_paths_are_told, setup),
	};

	umask(022);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
