/* SPDX-License-Identifier: MIT */
/*
 * Asynchronous writes, however many, to one file or to many, by one thread or by many: all is
 * there.
 */
#include "tests/unit/io.h"

static void many_writes_to_one_file(void **state)
{
	enum { NR = 1000, SIZE = 3000 };
	static struct req reqs[NR];
	__cleanup_free char *data = pattern(NR * SIZE, 1);
	unsigned order[NR], i;
	uint64_t seed = 5;
	int fd;

	(void)state;
	NEEDS_ENGINE();
	fd = new_file("a", 0);
	for (i = 0; i < NR; i++) {
		unsigned j = (unsigned)(next_random(&seed) % (i + 1));

		order[i] = order[j];
		order[j] = i;
	}
	for (i = 0; i < NR; i++) /* far more than DEPTH */
		start(&reqs[i], fd, data + order[i] * SIZE, SIZE, order[i] * SIZE);
	for (i = 0; i < NR; i++)
		assert_int_equal(result_of(&reqs[i]), SIZE);
	assert_holds(fd, data, NR * SIZE);
	close(fd);
	io_destroy(take_ptr(io));
	for (i = 0; i < NR; i++)
		assert_int_equal(reqs[i].calls, 1);
}

static void many_files(void **state)
{
	enum { NR = 50, SIZE = 1 << 17, PIECE = 1 << 13, PIECES = SIZE / PIECE };
	static struct req reqs[NR][PIECES];
	char *data[NR], name[16];
	int fds[NR], i, j;

	(void)state;
	NEEDS_ENGINE();
	for (i = 0; i < NR; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		data[i] = pattern(SIZE, (uint64_t)i);
		fds[i] = new_file(name, i % 2 ? O_DIRECT : 0);
	}
	for (j = 0; j < PIECES; j++)
		for (i = 0; i < NR; i++)
			start(&reqs[i][j], fds[i], data[i] + j * PIECE, PIECE,
			      (uint64_t)(j * PIECE));
	for (i = 0; i < NR; i++) {
		for (j = 0; j < PIECES; j++)
			assert_int_equal(result_of(&reqs[i][j]), PIECE);
		assert_holds(fds[i], data[i], SIZE);
		close(fds[i]);
		free(data[i]);
	}
}

static void beyond_4_gib(void **state)
{
	const uint64_t far = (5ull << 30) + 77;
	char got[4];
	int fd;

	(void)state;
	NEEDS_ENGINE();
	fd = new_file("a", 0);
	assert_int_equal(write_now(fd, "data", 4, far), 4);
	assert_int_equal(pread(fd, got, 4, (off_t)far), 4);
	assert_memory_equal(got, "data", 4);
	close(fd);
}

struct writer {
	pthread_t thread;
	int fd;
	char *data;
	uint64_t first;
};

enum { WRITES = 300, WRITE_SIZE = 512 };

static void *writer_main(void *arg)
{
	struct writer *me = arg;
	struct req *reqs = calloc(WRITES, sizeof(*reqs));
	uint64_t i, off;

	for (i = 0; i < WRITES; i++) {
		off = (me->first + i) * WRITE_SIZE;
		start(&reqs[i], me->fd, me->data + off, WRITE_SIZE, off);
		if (i % 16 == 15) /* else it is all one queue */
			result_of(&reqs[i]);
	}
	for (i = 0; i < WRITES; i++)
		if (result_of(&reqs[i]) != WRITE_SIZE)
			abort();
	free(reqs);
	return NULL;
}

static void many_threads_submit(void **state)
{
	enum { NR = 6, SIZE = NR * WRITES * WRITE_SIZE };
	struct writer writers[NR];
	__cleanup_free char *data = pattern(SIZE, 3);
	int fd, i;

	(void)state;
	NEEDS_ENGINE();
	fd = new_file("a", 0);
	for (i = 0; i < NR; i++) {
		writers[i] = (struct writer){.fd = fd, .data = data, .first = (uint64_t)i * WRITES};
		pthread_create(&writers[i].thread, NULL, writer_main, &writers[i]);
	}
	for (i = 0; i < NR; i++)
		pthread_join(writers[i].thread, NULL);
	assert_holds(fd, data, SIZE);
	close(fd);
}

static void *submit_and_end(void *arg)
{
	struct writer *me = arg;
	struct req *reqs = (struct req *)me->data;
	int i;

	for (i = 0; i < 20; i++)
		start(&reqs[i], me->fd, "data", 4, (uint64_t)i * 4);
	return NULL;
}

/* The kernel cancels what a thread has in its ring when the thread ends. */
static void writes_outlive_the_thread_that_submitted_them(void **state)
{
	static struct req reqs[20];
	struct writer writer = {.data = (char *)reqs};
	int round, i;

	(void)state;
	NEEDS_ENGINE();
	writer.fd = new_file("a", 0);
	for (round = 0; round < 50; round++) {
		memset(reqs, 0, sizeof(reqs));
		pthread_create(&writer.thread, NULL, submit_and_end, &writer);
		pthread_join(writer.thread, NULL);
		for (i = 0; i < 20; i++)
			assert_int_equal(result_of(&reqs[i]), 4);
	}
	close(writer.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(many_writes_to_one_file),
		BOTH(many_files),
		BOTH(beyond_4_gib),
		BOTH(many_threads_submit),
		BOTH(writes_outlive_the_thread_that_submitted_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
