/* SPDX-License-Identifier: MIT */
/* libckptfs: what is written by handle lands in the files, whole and in its place. */
#include "tests/unit/client_daemon.h"

#define NR	  300
#define BYTES_MAX 20000

static void many_tensors_land_in_any_order(void **state)
{
	struct ckptfs_session *s;
	struct ckptfs_session_stats st;
	struct ckptfs_tensor_info t[NR];
	struct ckptfs_write_op ops[NR];
	unsigned char *bytes[NR];
	char name[NR][300];
	uint64_t off = 0, sum = 0;
	int fd;

	(void)state;
	daemon_.ragged = true;
	s = session_open();
	fd = file_create("many");
	for (unsigned i = 0; i < NR; i++) {
		/* Names so long that several ioctls are needed. */
		snprintf(name[i], sizeof(name[i]), "layer.%u.%0*u", i, (int)(i % 200) + 1, i);
		t[i] = tensor_of(1000 + i, name[i], (i * 7919) % BYTES_MAX + 1);
		bytes[i] = random_bytes(t[i].bytes);
		/* A part of every third, the whole of the others. */
		ops[i] =
			(struct ckptfs_write_op){.id = 1000 + i, .addr = bytes[i], .file_off = off};
		ops[i].src_off = i % 3 ? 0 : t[i].bytes / 3;
		ops[i].len = t[i].bytes - ops[i].src_off;
		off += ops[i].len + i % 5;
		sum += ops[i].len;
	}
	assert_int_equal(ckptfs_register(s, t, NR), 0);
	assert_true(daemon_.nr_registers > 1);
	assert_int_equal(daemon_.nr_ids, NR);
	assert_int_equal(ckptfs_write(s, fd, ops, NR), 0);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), 0);
	for (unsigned i = 0; i < NR; i++) {
		assert_content(fd, ops[i].file_off, bytes[i] + ops[i].src_off, ops[i].len);
		free(bytes[i]);
	}
	assert_int_equal(ckptfs_session_stats(s, &st), 0);
	assert_int_equal(st.captures, NR);
	assert_int_equal(st.captured_bytes, sum);
	assert_int_equal(st.pending, 0);
	assert_int_equal(st.pending_bytes, 0);
	assert_int_equal(st.failed, 0);
	assert_int_equal(st.arena_bytes, 8 * 4096);
	ckptfs_close(s);
	assert_int_equal(daemon_.nr_fails, 0);
	close(fd);
}

static void a_tensor_larger_than_the_arena_flows_through(void **state)
{
	const size_t len = 1000001;
	struct ckptfs_session *s;
	unsigned char *bytes;
	int fd;

	(void)state;
	daemon_.check = CKPTFS_CHECK_ALL;
	daemon_.ragged = true;
	daemon_.nr_slots = 3;
	s = session_open();
	fd = file_create("large");
	bytes = tensor_create(s, 1, "large", len);
	assert_int_equal(write_tensor(s, fd, 1, bytes, len), 0);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), 0);
	assert_content(fd, 0, bytes, len);
	free(bytes);
	ckptfs_close(s);
	close(fd);
}

static void strided_sources_are_gathered(void **state)
{
	enum { ROWS = 700, ROW = 77, PITCH = 100 };
	struct ckptfs_write_op op = {.id = 1, .len = ROWS * ROW, .rows = ROWS, .row_bytes = ROW};
	unsigned char *bytes = random_bytes(ROWS * PITCH), dense[ROWS * ROW];

	(void)state;
	for (unsigned r = 0; r < ROWS; r++)
		memcpy(dense + r * ROW, bytes + r * PITCH, ROW);
	for (unsigned check = CKPTFS_CHECK_OFF; check <= CKPTFS_CHECK_ALL; check++) {
		struct ckptfs_tensor_info t = tensor_of(1, "columns", ROWS * ROW);
		struct ckptfs_session *s;
		int fd = file_create(check == 0 ? "off" : check == 1 ? "sample" : "all");

		daemon_.check = check;
		daemon_.ragged = true;
		s = session_open();
		assert_int_equal(ckptfs_register(s, &t, 1), 0);
		op.addr = bytes;
		op.pitch = PITCH;
		assert_int_equal(ckptfs_write(s, fd, &op, 1), 0);
		assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), 0);
		assert_content(fd, 0, dense, sizeof(dense));
		/* Rows that overlap, or are not as many bytes as the tensor has, are none. */
		op.pitch = ROW - 1;
		assert_int_equal(ckptfs_write(s, fd, &op, 1), -EINVAL);
		op.pitch = PITCH;
		op.rows++;
		assert_int_equal(ckptfs_write(s, fd, &op, 1), -EINVAL);
		op.rows--;
		ckptfs_close(s);
		close(fd);
		daemon_teardown(NULL);
		daemon_setup(NULL);
	}
	free(bytes);
}

static void nothing_is_written_of_no_bytes(void **state)
{
	struct ckptfs_session *s = session_open();
	unsigned char *bytes = tensor_create(s, 1, "empty", 0);
	struct ckptfs_write_op op = {.id = 1, .file_off = 3};
	int fd = file_create("empty");

	(void)state;
	assert_int_equal(ckptfs_write(s, fd, &op, 1), 0);
	assert_int_equal(ckptfs_write(s, fd, NULL, 0), 0);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, CKPTFS_BARRIER_LANDED, 0), 0);
	assert_int_equal(daemon_.nr_captures, 0);
	free(bytes);
	ckptfs_close(s);
	close(fd);
}

/* What cannot be is refused before anything of the call is taken. */
static void impossible_writes_are_refused(void **state)
{
	struct ckptfs_session *s = session_open();
	unsigned char *bytes = tensor_create(s, 1, "t", 100);
	int fd = file_create("t");
	static const struct {
		struct ckptfs_write_op op;
		int err;
	} cases[] = {
		{{.id = 2, .len = 1}, -EBADF},
		{{.id = 0, .len = 1}, -EBADF},
		{{.id = 1, .len = 101}, -EINVAL},
		{{.id = 1, .src_off = 100, .len = 1}, -EINVAL},
		{{.id = 1, .src_off = 101}, -EINVAL},
		{{.id = 1, .src_off = UINT64_MAX, .len = 2}, -EINVAL},
		{{.id = 1, .file_off = UINT64_MAX, .len = 1}, -EFBIG},
		{{.id = 1, .file_off = INT64_MAX, .len = 1}, -EFBIG},
		{{.id = 1, .len = 1, .rows = 2, .row_bytes = UINT64_MAX, .pitch = UINT64_MAX},
		 -EINVAL},
		{{.id = 1, .len = 1, .rows = 3, .row_bytes = 0, .pitch = UINT64_MAX}, -EINVAL},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ckptfs_write_op ops[2] = {{.id = 1, .addr = bytes, .len = 100}, cases[i].op};

		ops[1].addr = bytes;
		assert_int_equal(ckptfs_write(s, fd, ops, 2), cases[i].err);
		assert_true(*ckptfs_error(s));
	}
	assert_int_equal(write_tensor(s, fd, 1, NULL, 100), -EFAULT);
	assert_int_equal(daemon_.nr_captures, 0);
	free(bytes);
	ckptfs_close(s);
	close(fd);
}

/*
 * Of files that are no checkpoint's, and on other filesystems, the bytes are written; so are eager
 * tensors.
 */
static void plain_files_and_eager_tensors_are_written(void **state)
{
	static const int refusals[] = {-EOPNOTSUPP, -ENOTTY};
	enum { ROWS = 9000, ROW = 50, PITCH = 64 };
	struct ckptfs_session *s = session_open();
	struct ckptfs_tensor_info t[2] = {tensor_of(1, "flat", 5000),
					  tensor_of(2, "rows", ROWS * ROW)};
	unsigned char *flat = random_bytes(5000), *rows = random_bytes(ROWS * PITCH);
	unsigned char *dense = malloc(ROWS * ROW);
	struct ckptfs_write_op ops[2] = {{.id = 1, .addr = flat, .src_off = 10, .len = 4990},
					 {.id = 2,
					  .addr = rows,
					  .file_off = 4990,
					  .len = ROWS * ROW,
					  .rows = ROWS,
					  .row_bytes = ROW,
					  .pitch = PITCH}};
	uint64_t ids[] = {1, 2};
	int fd;

	(void)state;
	for (unsigned r = 0; r < ROWS; r++)
		memcpy(dense + r * ROW, rows + r * PITCH, ROW);
	for (unsigned i = 0; i < 3; i++) {
		daemon_.write_err = i < 2 ? refusals[i] : 0;
		daemon_.writes_before_err = 0;
		t[0].eager = t[1].eager = i == 2;
		assert_int_equal(ckptfs_register(s, t, 2), 0);
		fd = file_create(i == 0 ? "a" : i == 1 ? "b" : "c");
		assert_int_equal(ckptfs_write(s, fd, ops, 2), 0);
		/* Here and now. */
		assert_content(fd, 0, flat + 10, 4990);
		assert_content(fd, 4990, dense, ROWS * ROW);
		assert_int_equal(daemon_.nr_captures, 0);
		assert_int_equal(ckptfs_unregister(s, ids, 2), 0);
		close(fd);
	}
	/* One that fails is told. */
	assert_int_equal(ckptfs_register(s, t, 2), 0);
	fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	assert_int_equal(ckptfs_write(s, fd, ops, 2), -ENOSPC);
	assert_non_null(strstr(ckptfs_error(s), "flat: "));
	close(fd);
	free(flat);
	free(rows);
	free(dense);
	ckptfs_close(s);
}

/* Eager and lazy ones in one call, in turn. */
static void eager_and_lazy_go_together(void **state)
{
	struct ckptfs_session *s = session_open();
	struct ckptfs_tensor_info t[20];
	struct ckptfs_write_op ops[20];
	unsigned char *bytes = random_bytes(20 * 3000);
	char name[20][16];
	int fd = file_create("both");

	(void)state;
	DAEMON_SET(daemon_.hold = true);
	for (unsigned i = 0; i < 20; i++) {
		snprintf(name[i], sizeof(name[i]), "t%u", i);
		t[i] = tensor_of(i + 1, name[i], 3000);
		t[i].eager = i % 3 == 1;
		ops[i] = (struct ckptfs_write_op){
			.id = i + 1, .addr = bytes + i * 3000, .file_off = i * 3000, .len = 3000};
	}
	assert_int_equal(ckptfs_register(s, t, 20), 0);
	assert_int_equal(ckptfs_write(s, fd, ops, 20), 0);
	for (unsigned i = 1; i < 20; i += 3)
		assert_content(fd, i * 3000, bytes + i * 3000, 3000);
	assert_int_equal(daemon_.nr_captures, 13);
	DAEMON_SET(daemon_.hold = false);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), 0);
	assert_content(fd, 0, bytes, 20 * 3000);
	free(bytes);
	ckptfs_close(s);
	close(fd);
}

struct writing {
	struct ckptfs_session *s;
	struct ckptfs_write_op *ops;
	size_t nr;
	int fd, result;
};

static void *write_many(void *arg)
{
	struct writing *w = arg;

	w->result = ckptfs_write(w->s, w->fd, w->ops, w->nr);
	return NULL;
}

/* More than the daemon takes at a time: the rest waits till some have landed. */
static void more_captures_than_may_wait(void **state)
{
	enum { MANY = CKPTFS_CAPTURES_MAX + 3000 };
	struct writing w = {.nr = MANY};
	unsigned char *bytes;
	pthread_t t;

	(void)state;
	daemon_.hold = true;
	daemon_.slot_bytes = 64;
	daemon_.nr_slots = SLOTS_MAX;
	w.s = session_open();
	bytes = tensor_create(w.s, 1, "many", MANY);
	w.fd = file_create("many");
	w.ops = calloc(MANY, sizeof(*w.ops));
	for (size_t i = 0; i < MANY; i++)
		w.ops[i] = (struct ckptfs_write_op){
			.id = 1, .addr = bytes, .file_off = i, .src_off = i, .len = 1};
	/* Those that are cancelled wait no more. */
	assert_int_equal(ckptfs_write(w.s, w.fd, w.ops, CKPTFS_CAPTURES_MAX), 0);
	assert_int_equal(ckptfs_barrier(w.s, NULL, 0, 0, 1), -ETIMEDOUT);
	pthread_create(&t, NULL, write_many, &w);
	DAEMON_WAIT(daemon_.nr_captures > 2 * CKPTFS_CAPTURES_MAX - CKPTFS_WRITES_MAX);
	DAEMON_SET(daemon_.hold = false);
	pthread_join(t, NULL);
	assert_int_equal(w.result, 0);
	assert_int_equal(ckptfs_barrier(w.s, NULL, 0, 0, 0), 0);
	assert_int_equal(daemon_.nr_captures, CKPTFS_CAPTURES_MAX + MANY);
	assert_true(daemon_.nr_most_pending <= CKPTFS_CAPTURES_MAX);
	assert_content(w.fd, 0, bytes, MANY);
	free(w.ops);
	free(bytes);
	ckptfs_close(w.s);
	close(w.fd);
}

/* The first 400 were taken, the others refused: none is to be. */
static void a_write_that_is_refused_in_part_is_withdrawn(void **state)
{
	struct ckptfs_session_stats st;
	struct ckptfs_write_op ops[500];
	struct ckptfs_session *s;
	unsigned char *bytes;
	int fd;

	(void)state;
	daemon_.hold = true;
	s = session_open();
	bytes = tensor_create(s, 1, "all", 500);
	fd = file_create("all");
	for (unsigned i = 0; i < 500; i++)
		ops[i] = (struct ckptfs_write_op){
			.id = 1, .addr = bytes, .file_off = i, .src_off = i, .len = 1};
	daemon_.write_err = -EIO;
	daemon_.writes_before_err = 1;
	assert_int_equal(ckptfs_write(s, fd, ops, 500), -EIO);
	DAEMON_WAIT(daemon_.nr_fails == 400);
	assert_int_equal(daemon_.fail.err, EIO);
	assert_non_null(strstr(daemon_.fail.text, "all: was written with others"));
	assert_int_equal(ckptfs_session_stats(s, &st), 0);
	assert_int_equal(st.pending, 0);
	assert_int_equal(st.failed, 400);
	/* Numbers go on without a gap: the daemon asserts that. */
	DAEMON_SET((daemon_.write_err = 0, daemon_.hold = false));
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), -EIO);
	assert_int_equal(ckptfs_write(s, fd, ops, 500), 0);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), 0);
	assert_content(fd, 0, bytes, 500);
	/* The library waits by itself where the daemon lets it; what that refuses is told. */
	daemon_.write_err = -EAGAIN;
	daemon_.writes_before_err = 0;
	assert_int_equal(ckptfs_write(s, fd, ops, 1), -EAGAIN);
	assert_non_null(strstr(ckptfs_error(s), "too many captures wait"));
	free(bytes);
	ckptfs_close(s);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DAEMON_TEST(many_tensors_land_in_any_order),
		DAEMON_TEST(a_tensor_larger_than_the_arena_flows_through),
		DAEMON_TEST(strided_sources_are_gathered),
		DAEMON_TEST(nothing_is_written_of_no_bytes),
		DAEMON_TEST(impossible_writes_are_refused),
		DAEMON_TEST(plain_files_and_eager_tensors_are_written),
		DAEMON_TEST(eager_and_lazy_go_together),
		DAEMON_TEST(more_captures_than_may_wait),
		DAEMON_TEST(a_write_that_is_refused_in_part_is_withdrawn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
