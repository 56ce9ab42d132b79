/* SPDX-License-Identifier: MIT */
/*
 * libckptfs: what a device is asked for, and what it may rely on; by one that does what the test
 * tells it.
 */
#include "tests/unit/client_daemon.h"

#include <stdatomic.h>

#include "client/session.h"

#define MSEC  1000000ull
#define BYTES (2 * 4096)

static struct ckptfs_session *s;
static unsigned char *bytes;
static int fd;

/* daemon_.lock */
static struct ckpt_piece *submitted[16];
static unsigned nr_submitted, nr_fences;
static uint64_t fenced;

static int device_open(struct ckptfs_session *session, unsigned threads, void **state)
{
	(void)session, (void)threads, (void)state;
	return 0;
}

static void device_close(void *state)
{
	(void)state;
}

static int device_bind(void *state, struct ckpt_capture *c)
{
	(void)state;
	return c->source.stream == 99 ? -EBUSY : 0;
}

static void device_unbind(void *state, struct ckpt_capture *c)
{
	(void)state, (void)c;
}

static void device_submit(void *state, struct ckpt_piece *p)
{
	(void)state;
	DAEMON_SET(submitted[nr_submitted++] = p);
}

static int device_fence(void *state, const uint64_t *streams, size_t n)
{
	(void)state;
	nr_fences++;
	fenced = streams[n - 1];
	return fenced == 99 ? -EBUSY : 0;
}

static int device_write(void *state, struct ckpt_capture *c, int to)
{
	(void)state, (void)c, (void)to;
	return -EIO;
}

static const struct ckpt_device device = {.name = "test",
					  .ordered = true,
					  .open = device_open,
					  .close = device_close,
					  .bind = device_bind,
					  .unbind = device_unbind,
					  .submit = device_submit,
					  .fence = device_fence,
					  .write = device_write};

/* Two pieces of a tensor on the device are submitted. */
static void begin(void)
{
	struct ckptfs_tensor_info t = tensor_of(1, "on.the.device", BYTES);
	struct ckptfs_write_op op = {.id = 1, .len = BYTES};

	nr_submitted = nr_fences = 0;
	s = session_open();
	s->devices[1].ops->close(s->devices[1].state);
	s->devices[1].ops = &device;
	t.memory = CKPTFS_CUDA;
	fd = file_create("file");
	bytes = random_bytes(BYTES);
	op.addr = bytes;
	assert_int_equal(ckptfs_register(s, &t, 1), 0);
	assert_int_equal(ckptfs_write(s, fd, &op, 1), 0);
	DAEMON_WAIT(nr_submitted == 2);
}

static void end(void)
{
	ckptfs_close(s);
	close(fd);
	free(bytes);
}

static void copy(struct ckpt_piece *p)
{
	p->begin_ns = ckpt_now_ns();
	ckpt_source_copy(&p->capture->source, p->src_off, p->len, p->to);
	p->end_ns = ckpt_now_ns();
}

struct waiting {
	uint64_t timeout_ns;
	unsigned flags;
	atomic_bool released;
	bool was_released;
	int result;
};

static void *wait_in_barrier(void *arg)
{
	struct waiting *w = arg;

	w->result = ckptfs_barrier(s, NULL, 0, w->flags, w->timeout_ns);
	w->was_released = w->released;
	return NULL;
}

static void a_barrier_needs_only_what_has_begun(void **state)
{
	struct waiting w = {.flags = CKPTFS_BARRIER_LANDED};
	uint64_t streams[] = {4, 5};
	pthread_t t;

	(void)state;
	begin();
	assert_true(ckpt_piece_begin(s, submitted[0]));
	assert_true(ckpt_piece_begin(s, submitted[1]));
	assert_int_equal(ckptfs_barrier(s, streams, 2, 0, 0), 0);
	assert_int_equal(nr_fences, 1);
	assert_int_equal(fenced, 5);
	/* It may say that it cannot. */
	streams[0] = 99;
	assert_int_equal(ckptfs_barrier(s, streams, 1, 0, 0), -EBUSY);
	pthread_create(&t, NULL, wait_in_barrier, &w);
	copy(submitted[0]);
	copy(submitted[1]);
	w.released = true;
	ckpt_piece_end(s, submitted[1], 0, NULL);
	ckpt_piece_end(s, submitted[0], 0, NULL);
	pthread_join(t, NULL);
	assert_int_equal(w.result, 0);
	assert_true(w.was_released);
	assert_content(fd, 0, bytes, BYTES);
	end();
}

/*
 * While a device has work the pump does not wait for grants: what is done then would wait with it.
 */
static void the_pump_does_not_wait_while_a_device_works(void **state)
{
	struct ckptfs_write_op op = {.id = 1, .len = 10};
	unsigned nr;

	(void)state;
	begin();
	DAEMON_SET((daemon_.hold = true, nr = daemon_.nr_nexts));
	op.addr = bytes;
	assert_int_equal(ckptfs_write(s, fd, &op, 1), 0);
	DAEMON_WAIT(daemon_.nr_nexts > nr);
	assert_int_equal(daemon_.nr_lazy, 0);
	DAEMON_SET(daemon_.hold = false);
	for (unsigned i = 0; i < 3; i++) {
		DAEMON_WAIT(nr_submitted > i);
		assert_true(ckpt_piece_begin(s, submitted[i]));
		copy(submitted[i]);
		ckpt_piece_end(s, submitted[i], 0, NULL);
	}
	assert_int_equal(ckptfs_barrier(s, NULL, 0, CKPTFS_BARRIER_LANDED, 0), 0);
	assert_content(fd, 0, bytes, BYTES);
	end();
}

/*
 * One piece runs, one has not begun: the first is waited for, however late, and only then the
 * daemon is told.
 */
static void a_barrier_that_times_out_waits_for_what_runs(void **state)
{
	struct waiting w = {.timeout_ns = 20 * MSEC};
	struct ckptfs_write_op op = {.id = 1, .len = 10};
	struct ckptfs_session_stats st;
	pthread_t t;

	(void)state;
	begin();
	assert_true(ckpt_piece_begin(s, submitted[0]));
	pthread_create(&t, NULL, wait_in_barrier, &w);
	do {
		sched_yield();
		ckptfs_session_stats(s, &st);
	} while (!st.failed);
	/* The pump has come by again. */
	op.addr = bytes;
	assert_int_equal(ckptfs_write(s, fd, &op, 1), 0);
	DAEMON_WAIT(nr_submitted == 3);
	assert_int_equal(daemon_.nr_fails, 0);
	assert_false(ckpt_piece_begin(s, submitted[1]));
	w.released = true;
	ckpt_piece_end(s, submitted[0], 0, NULL);
	pthread_join(t, NULL);
	assert_int_equal(w.result, -ETIMEDOUT);
	assert_true(w.was_released);
	DAEMON_WAIT(daemon_.nr_fails == 1);
	assert_int_equal(daemon_.fail.seq, 1);
	assert_int_equal(daemon_.captures[0].landed, 0);
	assert_true(ckpt_piece_begin(s, submitted[2]));
	copy(submitted[2]);
	ckpt_piece_end(s, submitted[2], 0, NULL);
	end();
}

static void an_error_of_the_device_fails_the_capture(void **state)
{
	struct ckptfs_write_op op = {.id = 1, .len = 10, .stream = 99};

	(void)state;
	begin();
	assert_true(ckpt_piece_begin(s, submitted[0]));
	ckpt_piece_end(s, submitted[0], -EIO, "on.the.device: CUDA_ERROR_ILLEGAL_ADDRESS");
	assert_false(ckpt_piece_begin(s, submitted[1]));
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), -EIO);
	assert_non_null(strstr(ckptfs_error(s), "/file failed: on.the.device: CUDA_ERROR_"));
	DAEMON_WAIT(daemon_.nr_fails == 1);
	assert_int_equal(daemon_.fail.err, EIO);
	assert_string_equal(daemon_.fail.text, "on.the.device: CUDA_ERROR_ILLEGAL_ADDRESS");
	/* What it refuses to bind is not taken. */
	op.addr = bytes;
	assert_int_equal(ckptfs_write(s, fd, &op, 1), -EBUSY);
	assert_int_equal(daemon_.nr_captures, 1);
	end();
}

/* The daemon dies while a device copies: a barrier returns when it does so no more. */
static void a_daemon_that_dies_while_a_device_copies(void **state)
{
	struct waiting w = {0};
	struct ckptfs_session_stats st;
	struct ckptfs_write_op op = {.id = 1, .len = 10};
	pthread_t t;

	(void)state;
	begin();
	assert_true(ckpt_piece_begin(s, submitted[0]));
	DAEMON_SET(daemon_.next_err = -ECONNABORTED);
	op.addr = bytes;
	ckptfs_write(s, fd, &op, 1);
	do {
		sched_yield();
		ckptfs_session_stats(s, &st);
	} while (st.failed < 2);
	pthread_create(&t, NULL, wait_in_barrier, &w);
	assert_false(ckpt_piece_begin(s, submitted[1]));
	w.released = true;
	ckpt_piece_end(s, submitted[0], 0, NULL);
	pthread_join(t, NULL);
	assert_int_equal(w.result, -ECONNABORTED);
	assert_true(w.was_released);
	end();
	assert_int_equal(daemon_.nr_fails, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DAEMON_TEST(a_barrier_needs_only_what_has_begun),
		DAEMON_TEST(the_pump_does_not_wait_while_a_device_works),
		DAEMON_TEST(a_barrier_that_times_out_waits_for_what_runs),
		DAEMON_TEST(an_error_of_the_device_fails_the_capture),
		DAEMON_TEST(a_daemon_that_dies_while_a_device_copies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
