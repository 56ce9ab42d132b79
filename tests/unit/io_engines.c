/* SPDX-License-Identifier: MIT */
/*
 * Which engine writes where io_uring is forbidden or turned off; and where threads cannot be had.
 */
#include "tests/unit/io.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static void *create_forbidden(void *arg)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, *(unsigned *)arg, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {ARRAY_SIZE(code), code};
	struct error e;

	/* For this thread and those it makes. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
		return NULL;
	return io_create(&io, &back, DEPTH, true, &e) ? NULL : arg;
}

static void where_io_uring_is_forbidden_threads_write(void **state)
{
	static unsigned calls[] = {SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register};
	pthread_t thread;
	void *ok;
	size_t i;
	int fd, fds;

	NEEDS_ENGINE();
	fd = new_file("a", 0);
	io_destroy(take_ptr(io));
	fds = count_fds();
	back.features->state[FEATURE_ACT_AS_CALLER] = FEATURE_YES;
	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		back.features->state[FEATURE_IO_URING] = FEATURE_YES; /* it seemed so */
		assert_int_equal(pthread_create(&thread, NULL, create_forbidden, &calls[i]), 0);
		pthread_join(thread, &ok);
		if (!ok)
			skip(); /* no seccomp */
		assert_string_equal(io_name(io), "threads");
		assert_int_equal(back.features->state[FEATURE_IO_URING], FEATURE_NO);
		assert_int_equal(write_now(fd, "data", 4, 0), 4);
		assert_holds(fd, "data", 4);
		io_destroy(take_ptr(io));
		assert_int_equal(count_fds(), fds);
	}
	(void)state;
	close(fd);
}

static void what_is_turned_off_is_not_used(void **state)
{
	struct error e;

	(void)state;
	NEEDS_ENGINE();
	io_destroy(take_ptr(io));
	setenv("CKPTFS_FEATURES_OFF", "io_uring", 1);
	features_init(back.features);
	unsetenv("CKPTFS_FEATURES_OFF");
	features_probe(back.features, top, true);
	assert_int_equal(io_create(&io, &back, DEPTH, true, &e), 0);
	assert_string_equal(io_name(io), "threads");
	assert_int_equal(back.features->state[FEATURE_IO_URING], FEATURE_TURNED_OFF);
	io_destroy(take_ptr(io));

	features_init(back.features);
	assert_int_equal(io_create(&io, &back, DEPTH, false, &e), 0);
	assert_string_equal(io_name(io), "threads");
	assert_true(feature_untried(back.features, FEATURE_IO_URING));
	io_destroy(take_ptr(io));

	features_probe(back.features, top, true);
	assert_true(feature(back.features, FEATURE_IO_URING));
	assert_int_equal(io_create(&io, &back, DEPTH, true, &e), 0);
	assert_string_equal(io_name(io), "io_uring");
}

static void without_threads_it_says_so(void **state)
{
	pthread_attr_t before, huge;
	struct error e;
	int fds, err;

	(void)state;
	io_destroy(take_ptr(io));
	fds = count_fds();
	pthread_getattr_default_np(&before);
	pthread_attr_init(&huge);
	pthread_attr_setstacksize(&huge, 1ull << 50); /* there is no room for such a stack */
	assert_int_equal(pthread_setattr_default_np(&huge), 0);
	err = io_create(&io, &back, DEPTH, true, &e);
	pthread_setattr_default_np(&before);
	pthread_attr_destroy(&huge);
	pthread_attr_destroy(&before);
	assert_true(err < 0);
	assert_int_equal(e.err, -err);
	assert_contains(e.text, "cannot start the threads");
	assert_int_equal(count_fds(), fds);
	io = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(where_io_uring_is_forbidden_threads_write, &io_uring_ops),
		T(what_is_turned_off_is_not_used, &io_uring_ops),
		BOTH(without_threads_it_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
