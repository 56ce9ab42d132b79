/* SPDX-License-Identifier: MIT */
/* libckptfs: the update barrier, what it waits for and what becomes of captures that go wrong. */
#include "tests/unit/client_daemon.h"

#include <stdatomic.h>

#define MSEC 1000000ull

static struct ckptfs_session *s;
static unsigned char *bytes;
static int fd;

/* One tensor that is written, of so many bytes. */
static void write_one(uint64_t len)
{
	s = session_open();
	fd = file_create("file");
	bytes = tensor_create(s, 1, "layer.0.weight", len);
	assert_int_equal(write_tensor(s, fd, 1, bytes, len), 0);
}

static void end(void)
{
	ckptfs_close(s);
	close(fd);
	free(bytes);
}

struct waiting {
	atomic_bool released;
	bool was_released;
	unsigned flags;
	int result;
};

static void *wait_in_barrier(void *arg)
{
	struct waiting *w = arg;

	w->result = ckptfs_barrier(s, NULL, 0, w->flags, 0);
	w->was_released = w->released;
	return NULL;
}

static void it_waits_for_what_is_not_captured(void **state)
{
	struct waiting w = {0};
	pthread_t t;

	(void)state;
	daemon_.hold = true;
	write_one(100000);
	pthread_create(&t, NULL, wait_in_barrier, &w);
	DAEMON_WAIT(daemon_.nr_waiting);
	w.released = true;
	DAEMON_SET(daemon_.hold = false);
	pthread_join(t, NULL);
	assert_int_equal(w.result, 0);
	assert_true(w.was_released);
	/* Nothing of the tensor is read any more. */
	unsigned char *before = malloc(100000);

	memcpy(before, bytes, 100000);
	memset(bytes, 0, 100000);
	assert_content(fd, 0, before, 100000);
	free(before);
	end();
}

static void without_captures_it_is_nothing(void **state)
{
	(void)state;
	s = session_open();
	assert_int_equal(ckptfs_barrier(s, NULL, 0, CKPTFS_BARRIER_LANDED, 1), 0);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 2, 1), -EINVAL);
	ckptfs_close(s);
	assert_int_equal(daemon_.nr_barriers, 0);
}

static void it_times_out_and_what_is_left_is_cancelled(void **state)
{
	struct ckptfs_session_stats st;
	unsigned char *other;

	(void)state;
	daemon_.nr_slots = 4;
	daemon_.grants_left = 3; /* of the first, which is begun; the second is not */
	write_one(10 * 4096);
	other = tensor_create(s, 2, "layer.1.weight", 50);
	assert_int_equal(write_tensor(s, fd, 2, other, 50), 0);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 30 * MSEC), -ETIMEDOUT);
	assert_non_null(strstr(ckptfs_error(s), "2 captures were cancelled"));
	memset(bytes, 0, 10 * 4096);
	DAEMON_WAIT(daemon_.nr_fails == 2 && daemon_.nr_barriers == 1);
	assert_int_equal(daemon_.fail.err, ETIMEDOUT);
	assert_non_null(strstr(daemon_.fail.text, "was not captured within"));
	assert_int_equal(daemon_.barrier.session, SESSION);
	assert_int_equal(daemon_.barrier.timed_out, 1);
	assert_int_equal(ckptfs_session_stats(s, &st), 0);
	assert_int_equal(st.barriers, 1);
	assert_true(st.barrier_ns >= 30 * MSEC);
	assert_int_equal(daemon_.barrier.blocked_ns, st.barrier_ns);
	assert_int_equal(st.pending, 0);
	assert_int_equal(st.failed, 2);
	/* The next checkpoint is one. */
	DAEMON_SET(daemon_.hold = false);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), 0);
	assert_int_equal(write_tensor(s, fd, 1, bytes, 10 * 4096), 0);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), 0);
	assert_content(fd, 0, bytes, 10 * 4096);
	free(other);
	end();
}

/*
 * Not even then does the trainer hang; and what the daemon grants when it goes on is copied no
 * more.
 */
static void it_times_out_though_the_daemon_is_stuck(void **state)
{
	(void)state;
	daemon_.stuck = true;
	write_one(3 * 4096);
	DAEMON_WAIT(daemon_.nr_waiting);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 30 * MSEC), -ETIMEDOUT);
	memset(bytes, 0, 3 * 4096);
	DAEMON_SET(daemon_.stuck = false);
	DAEMON_WAIT(daemon_.nr_fails == 1);
	assert_int_equal(daemon_.captures[0].landed, 0);
	end();
}

/*
 * Nothing is lost by that: the tensors may change, and the checkpoint is whole when the daemon goes
 * on.
 */
static void it_times_out_though_all_is_copied(void **state)
{
	unsigned char *was = malloc(100);

	(void)state;
	daemon_.deaf = true;
	write_one(100);
	memcpy(was, bytes, 100);
	DAEMON_WAIT(daemon_.nr_unheard == 1);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 30 * MSEC), -ETIMEDOUT);
	assert_non_null(strstr(ckptfs_error(s), "all is copied"));
	memset(bytes, 0, 100);
	DAEMON_SET(daemon_.deaf = false);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, CKPTFS_BARRIER_LANDED, 0), 0);
	assert_int_equal(daemon_.nr_fails, 0);
	assert_content(fd, 0, was, 100);
	free(was);
	end();
}

static void change_shows(size_t len, size_t at, bool shows)
{
	int err;

	daemon_.hold = true;
	daemon_.slot_bytes = 20000;
	write_one(len);
	bytes[at] ^= 1;
	DAEMON_SET(daemon_.hold = false);
	err = ckptfs_barrier(s, NULL, 0, 0, 0);
	assert_int_equal(err, shows ? -ESTALE : 0);
	if (shows) {
		const char *text = "layer.0.weight was changed before it was captured: no barrier "
				   "came before the change (rank 3)";
		const char *said = strstr(ckptfs_error(s), " failed: ");

		assert_non_null(said);
		assert_string_equal(said + strlen(" failed: "), text);
		DAEMON_WAIT(daemon_.nr_fails == 1);
		assert_int_equal(daemon_.fail.err, ESTALE);
		assert_string_equal(daemon_.fail.text, text);
		/* Told once; what comes then is another matter. */
		assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), 0);
		assert_int_equal(write_tensor(s, fd, 1, bytes, len), 0);
		assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), 0);
		assert_content(fd, 0, bytes, len);
	} else {
		assert_int_equal(daemon_.nr_fails, 0);
	}
	end();
}

static void a_tensor_that_changed_too_early_fails(void **state)
{
	static const struct {
		unsigned check;
		size_t len, at;
		bool shows;
	} cases[] = {
		{CKPTFS_CHECK_SAMPLE, 50000, 0, true},
		{CKPTFS_CHECK_SAMPLE, 50000, 511, true},
		{CKPTFS_CHECK_SAMPLE, 50000, 49999, true},
		{CKPTFS_CHECK_SAMPLE, 50000, 49999 - 511, true},
		{CKPTFS_CHECK_SAMPLE, 2048, 1000, true},
		{CKPTFS_CHECK_SAMPLE, 1300, 1299, true},
		{CKPTFS_CHECK_SAMPLE, 1, 0, true},
		{CKPTFS_CHECK_ALL, 50000, 31234, true},
		{CKPTFS_CHECK_ALL, 50000, 49999, true},
		{CKPTFS_CHECK_ALL, 50000, 0, true},
		{CKPTFS_CHECK_OFF, 50000, 0, false},
	};

	(void)state;
	setenv("RANK", "3", 1);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		daemon_.check = cases[i].check;
		daemon_.ragged = i % 2;
		change_shows(cases[i].len, cases[i].at, cases[i].shows);
		daemon_teardown(NULL);
		daemon_setup(NULL);
	}
	unsetenv("RANK");
}

static void the_daemon_dies(void **state)
{
	struct ckptfs_session_stats st;
	struct waiting w = {.flags = CKPTFS_BARRIER_LANDED};
	struct ckptfs_tensor_info other = tensor_of(2, "other", 5);
	pthread_t t;

	(void)state;
	daemon_.grants_left = 5;
	write_one(100000);
	pthread_create(&t, NULL, wait_in_barrier, &w);
	DAEMON_WAIT(daemon_.hold && daemon_.nr_waiting);
	DAEMON_SET(daemon_.next_err = -ENOTCONN);
	pthread_join(t, NULL);
	assert_int_equal(w.result, -ENOTCONN);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), -ENOTCONN);
	assert_non_null(strstr(ckptfs_error(s), "the daemon is gone"));
	assert_int_equal(write_tensor(s, fd, 1, bytes, 1), -ENOTCONN);
	assert_int_equal(ckptfs_register(s, &other, 1), -ENOTCONN);
	assert_int_equal(ckptfs_session_stats(s, &st), 0);
	assert_int_equal(st.pending, 0);
	assert_int_equal(st.failed, 1);
	end();
	assert_int_equal(daemon_.nr_fails, 0);
}

/*
 * Its file failed, or was removed: the daemon grants no more of a capture. Nobody waits for it
 * then.
 */
static void the_daemon_gives_a_capture_up(void **state)
{
	struct ckptfs_session_stats st;

	(void)state;
	daemon_.give_up = ENOSPC;
	write_one(100000);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), -ENOSPC);
	assert_non_null(strstr(ckptfs_error(s), "layer.0.weight: is no longer wanted"));
	assert_int_equal(ckptfs_session_stats(s, &st), 0);
	assert_int_equal(st.pending, 0);
	assert_int_equal(st.failed, 1);
	DAEMON_SET(daemon_.give_up = 0);
	assert_int_equal(write_tensor(s, fd, 1, bytes, 100000), 0);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), 0);
	assert_content(fd, 0, bytes, 100000);
	end();
	for (size_t i = 0; i < daemon_.nr_grants; i++)
		assert_true(daemon_.grants[i].done);
}

static void strange_grants_end_the_session(void **state)
{
	(void)state;
	daemon_.nr_slots = 1;
	daemon_.hold = true;
	write_one(5000);
	/* A place in the arena that is none. */
	DAEMON_SET((daemon_.busy[0] = true, daemon_.nr_slots = 2, daemon_.hold = false));
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), -EPROTO);
	DAEMON_SET(daemon_.nr_slots = 1);
	end();
}

static void closing_waits_for_what_was_written(void **state)
{
	unsigned char *before = malloc(300000);

	(void)state;
	write_one(300000);
	memcpy(before, bytes, 300000);
	ckptfs_close(s);
	assert_int_equal(daemon_.nr_byes, 1);
	assert_int_equal(daemon_.nr_fails, 0);
	assert_content(fd, 0, before, 300000);
	free(before);
	free(bytes);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DAEMON_TEST(it_waits_for_what_is_not_captured),
		DAEMON_TEST(without_captures_it_is_nothing),
		DAEMON_TEST(it_times_out_and_what_is_left_is_cancelled),
		DAEMON_TEST(it_times_out_though_the_daemon_is_stuck),
		DAEMON_TEST(it_times_out_though_all_is_copied),
		DAEMON_TEST(a_tensor_that_changed_too_early_fails),
		DAEMON_TEST(the_daemon_dies),
		DAEMON_TEST(the_daemon_gives_a_capture_up),
		DAEMON_TEST(strange_grants_end_the_session),
		DAEMON_TEST(closing_waits_for_what_was_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
