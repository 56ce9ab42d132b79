/* SPDX-License-Identifier: MIT */
/* libckptfs: how a session begins and ends, who may use it, and what tensors it knows. */
#include "tests/unit/client_daemon.h"

static int open_at(const char *below, struct ckptfs_session **s)
{
	char path[300];

	snprintf(path, sizeof(path), "%s%s", daemon_.top, below);
	return ckptfs_open(path, NULL, s);
}

static void the_mount_is_found_from_any_path_in_it(void **state)
{
	struct ckptfs_session *s;
	char path[300];

	(void)state;
	snprintf(path, sizeof(path), "%s/run", daemon_.top);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/run/step-1", daemon_.top);
	mkdir(path, 0755);
	close(file_create("run/step-1/file"));
	assert_int_equal(open_at("/run/step-1/file", &s), 0);
	assert_string_equal(ckptfs_error(NULL), "");
	ckptfs_close(s);
	assert_int_equal(daemon_.nr_byes, 1);
	assert_int_equal(open_at("/run/none", &s), -ENOENT);
	assert_null(s);
	assert_non_null(strstr(ckptfs_error(NULL), "/run/none"));
	assert_int_equal(ckptfs_open("/proc", NULL, &s), -ENOTTY);
	assert_non_null(strstr(ckptfs_error(NULL), "/proc: lies in no mount of ckptfs"));
	ckptfs_close(NULL);
}

static bool none_is_ckptfs(int fd)
{
	(void)fd;
	return false;
}

static int no_such_ioctl(int fd, unsigned long request, void *arg)
{
	(void)fd, (void)request, (void)arg;
	return -ENOTTY;
}

/* A backing has such a directory, too; a daemon of an older release has no sessions. */
static void what_only_looks_like_a_mount_is_none(void **state)
{
	struct ckpt_wire wire = {.ioctl = fake_ioctl, .is_ckptfs = none_is_ckptfs};
	struct ckptfs_session *s;

	(void)state;
	ckpt_wire = &wire;
	assert_int_equal(open_at("", &s), -ENOTTY);
	wire = (struct ckpt_wire){.ioctl = no_such_ioctl, .is_ckptfs = fake_is_ckptfs};
	assert_int_equal(open_at("", &s), -EPROTO);
	assert_non_null(strstr(ckptfs_error(NULL), "knows no sessions"));
}

static void another_abi_is_told(void **state)
{
	struct ckptfs_session *s;

	(void)state;
	daemon_.abi = CKPTFS_ABI_VERSION + 41;
	assert_int_equal(open_at("", &s), -EPROTO);
	assert_string_equal(ckptfs_error(NULL),
			    "the daemon speaks version 42 of the ABI, this library version 1: "
			    "use those of one release, and mount anew");
}

static void memory_that_could_shrink_is_refused(void **state)
{
	struct ckptfs_session *s;

	(void)state;
	daemon_.seals = F_SEAL_GROW | F_SEAL_SEAL;
	assert_int_equal(open_at("", &s), -EPROTO);
	assert_non_null(strstr(ckptfs_error(NULL), "not as it says"));
	assert_int_equal(daemon_.nr_byes, 1);
	daemon_teardown(NULL);
	daemon_setup(NULL);
	daemon_.memory_off = -1;
	assert_int_equal(open_at("", &s), -EPROTO);
	daemon_teardown(NULL);
	daemon_setup(NULL);
	daemon_.memory_off = 4096;
	assert_int_equal(open_at("", &s), -EPROTO);
}

static void a_socket_of_packets_does_as_well(void **state)
{
	(void)state;
	daemon_.socket_type = SOCK_SEQPACKET;
	ckptfs_close(session_open());
}

static void assert_said(int rank, int world, int local_rank, int local_world)
{
	assert_int_equal(daemon_.hello.rank, rank);
	assert_int_equal(daemon_.hello.world, world);
	assert_int_equal(daemon_.hello.local_rank, local_rank);
	assert_int_equal(daemon_.hello.local_world, local_world);
}

/* Opens and closes a session with a new daemon. */
static void greet(const struct ckptfs_options *o)
{
	struct ckptfs_session *s;

	daemon_teardown(NULL);
	daemon_setup(NULL);
	assert_int_equal(ckptfs_open(daemon_.top, o, &s), 0);
	ckptfs_close(s);
}

static void the_rank_is_what_the_launcher_says(void **state)
{
	static const char *const variables[][2] = {{"SLURM_PROCID", "4"},
						   {"SLURM_NTASKS", "8"},
						   {"SLURM_LOCALID", "2"},
						   {"SLURM_STEP_ID", "0"},
						   {"RANK", "5"},
						   {"WORLD_SIZE", "16"},
						   {"LOCAL_RANK", "1"},
						   {"LOCAL_WORLD_SIZE", "4"},
						   {"SLURM_STEP_TASKS_PER_NODE", "3(x2),12"}};
	struct ckptfs_options given = CKPTFS_OPTIONS_DEFAULT;

	(void)state;
	for (unsigned i = 0; i < 9; i++)
		unsetenv(variables[i][0]);
	greet(NULL);
	assert_said(-1, 0, -1, 0);
	for (unsigned i = 0; i < 3; i++)
		setenv(variables[i][0], variables[i][1], 1);
	greet(&given); /* in a batch script, but in no step */
	assert_said(-1, 0, -1, 0);
	setenv(variables[3][0], variables[3][1], 1);
	greet(NULL);
	assert_said(4, 8, 2, 0);
	setenv(variables[8][0], variables[8][1], 1);
	greet(NULL);
	assert_said(4, 8, 2, 12);
	for (unsigned i = 4; i < 8; i++)
		setenv(variables[i][0], variables[i][1], 1);
	greet(NULL);
	assert_said(5, 16, 1, 4);
	given = (struct ckptfs_options){
		.rank = 0, .world = 1, .local_rank = -1, .arena_bytes = 12345};
	greet(&given);
	assert_said(0, 1, 1, 4);
	assert_int_equal(daemon_.hello.arena_bytes, 12345);
	for (unsigned i = 0; i < 9; i++)
		unsetenv(variables[i][0]);
}

/* What the child says is its exit status: 0, or the number of the check that failed. */
static int child_checks(struct ckptfs_session *s, int fd)
{
	struct ckptfs_tensor_info t = tensor_of(2, "other", 5);
	struct ckptfs_session_stats st;
	uint64_t id = 1;
	char byte;

	if (ckptfs_register(s, &t, 1) != -ECHILD)
		return 1;
	if (!strstr(ckptfs_error(s), "a child opens its own"))
		return 2;
	if (ckptfs_unregister(s, &id, 1) != -ECHILD)
		return 3;
	if (write_tensor(s, fd, 1, &byte, 1) != -ECHILD)
		return 4;
	if (ckptfs_barrier(s, NULL, 0, 0, 0) != -ECHILD)
		return 5;
	if (ckptfs_session_stats(s, &st) != -ECHILD)
		return 6;
	ckptfs_close(s);
	return 0;
}

static void a_child_has_no_session(void **state)
{
	struct ckptfs_session *s = session_open();
	unsigned char *bytes = tensor_create(s, 1, "t", 50000);
	int fd = file_create("f"), status;
	pid_t child;

	(void)state;
	DAEMON_SET(daemon_.hold = true);
	assert_int_equal(write_tensor(s, fd, 1, bytes, 50000), 0);
	child = fork();
	if (!child)
		_exit(child_checks(s, fd));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	/* And its parent's is what it was. */
	DAEMON_SET(daemon_.hold = false);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), 0);
	assert_content(fd, 0, bytes, 50000);
	assert_int_equal(daemon_.nr_byes, 0);
	free(bytes);
	ckptfs_close(s);
	assert_int_equal(daemon_.nr_byes, 1);
	close(fd);
}

static void tensors_are_registered_all_or_none(void **state)
{
	struct ckptfs_session *s = session_open();
	struct ckptfs_tensor_info t[200];
	uint64_t ids[200];

	(void)state;
	for (unsigned i = 0; i < 200; i++) {
		t[i] = tensor_of(i + 1, "layer", 5);
		ids[i] = i + 1;
	}
	/* The daemon refuses the last batch: of those before nothing stays. */
	daemon_.register_err = -ENOSPC;
	daemon_.registers_before_err = 3;
	assert_int_equal(ckptfs_register(s, t, 200), -ENOSPC);
	assert_int_equal(daemon_.nr_ids, 0);
	assert_int_equal(ckptfs_unregister(s, ids, 1), -EBADF);
	daemon_.register_err = 0;
	assert_int_equal(ckptfs_register(s, t, 200), 0);
	assert_int_equal(daemon_.nr_ids, 200);
	/* Anew, unchanged: nothing. Changed: an error, and the new one is not there. */
	assert_int_equal(ckptfs_register(s, t, 200), 0);
	t[1] = tensor_of(201, "new", 5);
	t[2].bytes = 6;
	assert_int_equal(ckptfs_register(s, t, 3), -EEXIST);
	assert_non_null(strstr(ckptfs_error(s), "layer: id 3 is that of layer"));
	assert_int_equal(daemon_.nr_ids, 200);
	/* Twice in one call. */
	t[0] = t[1];
	assert_int_equal(ckptfs_register(s, t, 2), 0);
	assert_int_equal(daemon_.nr_ids, 201);
	assert_int_equal(ckptfs_unregister(s, ids, 200), 0);
	assert_int_equal(daemon_.nr_ids, 1);
	/* Unknown, or twice: none goes. */
	ids[0] = ids[1] = 201;
	assert_int_equal(ckptfs_unregister(s, ids, 2), -EBADF);
	ids[1] = 5;
	assert_int_equal(ckptfs_unregister(s, ids, 2), -EBADF);
	assert_int_equal(daemon_.nr_ids, 1);
	assert_int_equal(ckptfs_unregister(s, ids, 1), 0);
	assert_int_equal(daemon_.nr_ids, 0);
	ckptfs_close(s);
}

static void tensors_that_cannot_be_are_refused(void **state)
{
	struct ckptfs_session *s = session_open();
	char longest[CKPTFS_TENSORS_BYTES];
	struct ckptfs_tensor_info t[] = {
		tensor_of(0, "no id", 1),  tensor_of(1, NULL, 1),    tensor_of(1, "", 1),
		tensor_of(1, "ndim", 1),   tensor_of(1, "dtype", 1), tensor_of(1, "no dtype", 1),
		tensor_of(1, "memory", 1), tensor_of(1, "kind", 1),  tensor_of(1, longest, 1),
		tensor_of(1, "device", 1),
	};
	static const int errors[] = {-EINVAL, -EINVAL, -EINVAL, -EINVAL,       -EINVAL,
				     -EINVAL, -EINVAL, -EINVAL, -ENAMETOOLONG, -EOPNOTSUPP};

	(void)state;
	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - sizeof(struct ckptfs_tensor) + 1] = '\0';
	t[3].ndim = 9;
	t[4].dtype = "a dtype of 16 by";
	t[5].dtype = "";
	t[6].memory = 4;
	t[7].kind = 3;
	t[9].memory = CKPTFS_CUDA;
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		assert_int_equal(ckptfs_register(s, &t[i], 1), errors[i]);
		assert_true(*ckptfs_error(s));
	}
	assert_int_equal(daemon_.nr_registers, 0);
	/* The longest that there may be. */
	longest[sizeof(longest) - sizeof(struct ckptfs_tensor)] = '\0';
	assert_int_equal(ckptfs_register(s, &t[8], 1), 0);
	ckptfs_close(s);
}

/* What was written is captured, although its tensor is not registered any more. */
static void unregistering_leaves_captures_be(void **state)
{
	struct ckptfs_session *s = session_open();
	unsigned char *bytes = tensor_create(s, 1, "t", 50000);
	int fd = file_create("f");
	uint64_t id = 1;

	(void)state;
	DAEMON_SET(daemon_.hold = true);
	assert_int_equal(write_tensor(s, fd, 1, bytes, 50000), 0);
	assert_int_equal(ckptfs_unregister(s, &id, 1), 0);
	assert_int_equal(write_tensor(s, fd, 1, bytes, 50000), -EBADF);
	assert_string_equal(ckptfs_error(s), "no tensor 1 is registered");
	DAEMON_SET(daemon_.hold = false);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), 0);
	assert_content(fd, 0, bytes, 50000);
	free(bytes);
	ckptfs_close(s);
	close(fd);
}

static void *error_of_thread(void *arg)
{
	assert_string_equal(ckptfs_error(arg), "");
	assert_int_equal(ckptfs_barrier(arg, NULL, 0, 64, 0), -EINVAL);
	assert_true(*ckptfs_error(arg));
	return NULL;
}

static void errors_are_the_threads_own(void **state)
{
	struct ckptfs_session *s = session_open();
	pthread_t t;

	(void)state;
	assert_int_equal(write_tensor(s, 0, 9, NULL, 0), -EBADF);
	pthread_create(&t, NULL, error_of_thread, s);
	pthread_join(t, NULL);
	assert_string_equal(ckptfs_error(s), "no tensor 9 is registered");
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), 0);
	assert_string_equal(ckptfs_error(s), "");
	ckptfs_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DAEMON_TEST(the_mount_is_found_from_any_path_in_it),
		DAEMON_TEST(what_only_looks_like_a_mount_is_none),
		DAEMON_TEST(another_abi_is_told),
		DAEMON_TEST(memory_that_could_shrink_is_refused),
		DAEMON_TEST(a_socket_of_packets_does_as_well),
		DAEMON_TEST(the_rank_is_what_the_launcher_says),
		DAEMON_TEST(a_child_has_no_session),
		DAEMON_TEST(tensors_are_registered_all_or_none),
		DAEMON_TEST(tensors_that_cannot_be_are_refused),
		DAEMON_TEST(unregistering_leaves_captures_be),
		DAEMON_TEST(errors_are_the_threads_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
