/* SPDX-License-Identifier: MIT */
/* libckptfs: what ckptfs_read reads, where to, and what it says when it cannot. */
#include "tests/unit/client_daemon.h"
#include "tests/unit/unit.h"

#include <sys/wait.h>

#include "client/cuda_driver.h"
#include "client/session.h"

#define MB	   (1u << 20)
#define FILE_BYTES (9 * MB + 12345)

static unsigned char *content;
static char path[300];
static int fd;

static int file_setup(void **state)
{
	daemon_setup(state);
	content = random_bytes(FILE_BYTES);
	fd = file_create("file");
	snprintf(path, sizeof(path), "%s/file", daemon_.top);
	assert_int_equal(write(fd, content, FILE_BYTES), FILE_BYTES);
	return 0;
}

static int file_teardown(void **state)
{
	close(fd);
	free(content);
	return daemon_teardown(state);
}

#define FILE_TEST(f) cmocka_unit_test_setup_teardown(f, file_setup, file_teardown)

/* A buffer with something in it that no read leaves as it is. */
static unsigned char *destination(size_t len)
{
	unsigned char *p = malloc(len);

	assert_non_null(p);
	memset(p, 0x5a, len);
	return p;
}

static void all_is_read_into_its_place(void **state)
{
	unsigned char *to = destination(FILE_BYTES);
	struct ckptfs_read_op ops[100];
	size_t at = 0;

	(void)state;
	for (unsigned threads = 0; threads < 70; threads += threads < 4 ? 1 : 33) {
		at = 0;
		for (size_t i = 0; i < 100; i++) {
			size_t len = i == 7 ? 8 * MB : i == 99 ? FILE_BYTES - at : i * 97;

			ops[i] = (struct ckptfs_read_op){.file_off = at,
							 .dst_off = i * 5,
							 .len = len,
							 .addr = to + at - i * 5};
			at += len;
		}
		memset(to, 0x5a, FILE_BYTES);
		assert_int_equal(ckptfs_read(NULL, fd, ops, 100, threads), 0);
		assert_memory_equal(to, content, FILE_BYTES);
	}
	assert_int_equal(ckptfs_read(NULL, fd, NULL, 0, 4), 0);
	free(to);
}

static void rows_are_scattered(void **state)
{
	enum { ROWS = 3000, ROW = 1001, PITCH = 1500 };
	unsigned char *to = destination(ROWS * PITCH);
	/* From the middle of a row to the middle of another. */
	struct ckptfs_read_op op = {.file_off = 77,
				    .dst_off = 500,
				    .len = ROWS * ROW - 1000,
				    .addr = to,
				    .rows = ROWS,
				    .row_bytes = ROW,
				    .pitch = PITCH};

	(void)state;
	assert_int_equal(ckptfs_read(NULL, fd, &op, 1, 3), 0);
	for (size_t r = 0; r < ROWS; r++)
		for (size_t c = 0; c < PITCH; c++) {
			size_t at = r * ROW + c;
			bool read = c < ROW && at >= 500 && at < 500 + op.len;

			assert_int_equal(to[r * PITCH + c], read ? content[77 + at - 500] : 0x5a);
		}
	free(to);
}

static void the_end_of_the_file_is_told(void **state)
{
	unsigned char *to = destination(FILE_BYTES + 1);
	struct ckptfs_read_op op = {.file_off = 1, .len = FILE_BYTES, .addr = to};
	char end[32];

	(void)state;
	for (unsigned threads = 1; threads < 5; threads++) {
		assert_int_equal(ckptfs_read(NULL, fd, &op, 1, threads), -ENODATA);
		assert_contains(ckptfs_error(NULL), path);
		snprintf(end, sizeof(end), "at byte %u", FILE_BYTES);
		assert_contains(ckptfs_error(NULL), end);
	}
	op.len = FILE_BYTES - 1;
	assert_int_equal(ckptfs_read(NULL, fd, &op, 1, 2), 0);
	assert_string_equal(ckptfs_error(NULL), "");
	free(to);
}

static void errors_of_the_file_are_told(void **state)
{
	unsigned char to[16];
	struct ckptfs_read_op op = {.len = 16, .addr = to};
	int other = open(path, O_WRONLY | O_CLOEXEC);

	(void)state;
	assert_int_equal(ckptfs_read(NULL, other, &op, 1, 1), -EBADF);
	assert_contains(ckptfs_error(NULL), path);
	close(other);
	assert_int_equal(ckptfs_read(NULL, other, &op, 1, 1), -EBADF);
	op.addr = (void *)16;
	assert_int_equal(ckptfs_read(NULL, fd, &op, 1, 1), -EFAULT);
}

static void what_cannot_be_is_refused(void **state)
{
	unsigned char to[16] = {0};
	struct ckptfs_read_op right = {.len = 16, .addr = to}, op;

	(void)state;
#define WRONG(err, ...) \
	op = right; \
	__VA_ARGS__; \
	assert_int_equal(ckptfs_read(NULL, fd, &op, 1, 1), err)
	WRONG(-EINVAL, op.memory = 9);
	WRONG(-EINVAL, op.reserved = 1);
	WRONG(-EOPNOTSUPP, op.memory = CKPTFS_CUDA);
	assert_contains(ckptfs_error(NULL), "session");
	WRONG(-EFBIG, op.file_off = UINT64_MAX);
	WRONG(-EFBIG, op.file_off = INT64_MAX - 8);
	WRONG(-EFAULT, op.addr = NULL);
	WRONG(-EINVAL, op.dst_off = UINT64_MAX);
	WRONG(-EINVAL, op.rows = 4, op.row_bytes = 4, op.pitch = 3);
	WRONG(-EINVAL, op.rows = 3, op.row_bytes = 5, op.pitch = 5);
	WRONG(-EINVAL, op.rows = 1ull << 62, op.row_bytes = 1ull << 62, op.pitch = 1ull << 62);
	WRONG(-EINVAL, op.rows = 4, op.row_bytes = 4, op.pitch = UINT64_MAX);
	WRONG(-EINVAL, op.rows = 4, op.row_bytes = 4, op.pitch = 4, op.dst_off = 1);
	WRONG(0, op.len = 0, op.addr = NULL);
	for (size_t i = 0; i < sizeof(to); i++)
		assert_int_equal(to[i], 0);
}

/* --- a device --- */

static pthread_mutex_t put_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t nr_put, put_bytes, put_stream;
static int put_err;
static const char *put_text;
static struct ckptfs_session *put_session;

/* Its addresses are no one's: what is on the device is elsewhere. */
static unsigned char *on_device;
#define DEVICE_ADDRESS ((char *)0x1000)

static int device_put(void *state, const struct ckpt_source *to, uint64_t off, size_t len,
		      const void *from)
{
	struct ckpt_source real = *to;
	int err;

	assert_ptr_equal(state, &on_device);
	assert_ptr_equal(to->addr, DEVICE_ADDRESS);
	pthread_mutex_lock(&put_lock);
	err = nr_put++ ? put_err : 0;
	put_bytes += len;
	put_stream = to->stream;
	pthread_mutex_unlock(&put_lock);
	real.addr = (char *)on_device;
	if (!err)
		ckpt_source_fill(&real, off, len, from);
	if (err && put_text)
		ckpt_error(put_session, err, "%s", put_text);
	return err;
}

static const struct ckpt_device device = {.name = "test", .put = device_put};

static void devices_get_what_is_theirs(void **state)
{
	struct ckptfs_session *s = session_open();
	struct ckpt_bound_device real = s->devices[1];
	struct ckptfs_read_op op = {.file_off = 5,
				    .len = 8 * MB,
				    .addr = DEVICE_ADDRESS,
				    .stream = 42,
				    .rows = 8,
				    .row_bytes = MB,
				    .pitch = MB + 1,
				    .memory = CKPTFS_CUDA};

	(void)state;
	if (!cuda_driver()) {
		assert_int_equal(ckptfs_read(s, fd, &op, 1, 2), -EOPNOTSUPP);
		assert_contains(ckptfs_error(s), "libcuda.so.1");
	}
	assert_int_equal(ckptfs_read(NULL, fd, &op, 1, 2), -EOPNOTSUPP);
	s->devices[1].ops = &device;
	s->devices[1].state = &on_device;
	put_session = s;
	on_device = destination(8 * (MB + 1));
	put_err = 0;
	assert_int_equal(ckptfs_read(s, fd, &op, 1, 3), 0);
	assert_int_equal(put_bytes, 8 * MB);
	assert_int_equal(put_stream, 42);
	for (size_t r = 0; r < 8; r++) {
		assert_memory_equal(on_device + r * (MB + 1), content + 5 + r * MB, MB);
		assert_int_equal(on_device[r * (MB + 1) + MB], 0x5a);
	}
	put_err = -EREMOTEIO;
	assert_int_equal(ckptfs_read(s, fd, &op, 1, 3), -EREMOTEIO);
	assert_contains(ckptfs_error(s), "cannot be copied to the device (test)");
	put_text = "cuMemcpyHtoDAsync_v2 on GPU 0: CUDA_ERROR_LAUNCH_FAILED (719)";
	assert_int_equal(ckptfs_read(s, fd, &op, 1, 3), -EREMOTEIO);
	assert_contains(ckptfs_error(s), path);
	assert_contains(ckptfs_error(s), put_text);
	s->devices[1] = real;
	free(on_device);
	ckptfs_close(s);
}

static void a_session_whose_daemon_is_gone_reads(void **state)
{
	struct ckptfs_session *s = session_open();
	unsigned char to[16];
	struct ckptfs_read_op op = {.len = 16, .addr = to};
	unsigned char *bytes;
	int status;

	(void)state;
	bytes = tensor_create(s, 1, "t", 16);
	DAEMON_SET(daemon_.next_err = -ECONNABORTED);
	assert_int_equal(write_tensor(s, fd, 1, bytes, 16), 0);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, CKPTFS_BARRIER_LANDED, 0), -ECONNABORTED);
	assert_int_equal(ckptfs_barrier(s, NULL, 0, 0, 0), -ECONNABORTED);
	assert_int_equal(ckptfs_read(s, fd, &op, 1, 1), 0);
	assert_memory_equal(to, content, 16);
	assert_string_equal(ckptfs_error(s), "");
	if (fork() == 0)
		_exit(ckptfs_read(s, fd, &op, 1, 1) == -ECHILD ? 0 : 1);
	wait(&status);
	assert_int_equal(status, 0);
	ckptfs_close(s);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FILE_TEST(all_is_read_into_its_place),
		FILE_TEST(rows_are_scattered),
		FILE_TEST(the_end_of_the_file_is_told),
		FILE_TEST(errors_of_the_file_are_told),
		FILE_TEST(what_cannot_be_is_refused),
		FILE_TEST(devices_get_what_is_theirs),
		FILE_TEST(a_session_whose_daemon_is_gone_reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
