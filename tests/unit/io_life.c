/* SPDX-License-Identifier: MIT */
/*
 * An engine: it ends when all that was submitted has, at any depth; no signal reaches its threads.
 */
#include "tests/unit/io.h"

#include <signal.h>

static void destroy_waits_for_what_is_submitted(void **state)
{
	enum { NR = 60 };
	static struct req reqs[NR];
	int fds, fd, round, i;
	unsigned threads;

	NEEDS_ENGINE();
	io_destroy(take_ptr(io));
	fd = new_file("a", 0);
	fds = count_fds();
	threads = nr_threads();
	for (round = 0; round < 60; round++) {
		create_io(*state, (unsigned)round / 4); /* 0 is put in range */
		for (i = 0; i < round; i++)
			start(&reqs[i], fd, "data", 4, (uint64_t)i * 4);
		io_destroy(take_ptr(io));
		for (i = 0; i < round; i++)
			assert_int_equal(reqs[i].calls, 1);
	}
	/* Nothing is left, but for a thread that the kernel has not yet forgotten. */
	assert_int_equal(count_fds(), fds);
	while (nr_threads() > threads)
		sched_yield();
	io_destroy(NULL);
	close(fd);
}

static void any_depth_works(void **state)
{
	static const unsigned depths[] = {1, 2, 3, 7, 100, 1023, 1024, IO_MAX_DEPTH, UINT_MAX};
	static struct req reqs[3000];
	size_t i, j;
	int fd;

	NEEDS_ENGINE();
	fd = new_file("a", 0);
	for (i = 0; i < ARRAY_SIZE(depths); i++) {
		io_destroy(take_ptr(io));
		create_io(*state, depths[i]);
		for (j = 0; j < ARRAY_SIZE(reqs); j++)
			start(&reqs[j], fd, "x", 1, j);
		for (j = 0; j < ARRAY_SIZE(reqs); j++)
			assert_int_equal(result_of(&reqs[j]), 1);
	}
	close(fd);
}

/* Is task @tid a thread of the engine? Then its blocked signals. */
static bool engine_thread(const char *tid, unsigned long long *blocked)
{
	char path[300], line[200];
	bool ours = false;
	__cleanup_file FILE *f = NULL;

	snprintf(path, sizeof(path), "/proc/self/task/%s/status", tid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		ours = ours || !strcmp(line, "Name:\tckptfs-write\n");
		sscanf(line, "SigBlk: %llx", blocked);
	}
	return ours;
}

static void no_signal_reaches_the_threads(void **state)
{
	unsigned long long blocked = 0;
	struct dirent *entry;
	unsigned nr = 0;
	int fd;
	DIR *d;

	(void)state;
	NEEDS_ENGINE();
	fd = new_file("a", 0);
	assert_int_equal(write_now(fd, "x", 1, 0), 1);
	close(fd);
	d = opendir("/proc/self/task");
	while ((entry = readdir(d)))
		if (engine_thread(entry->d_name, &blocked)) {
			nr++;
			assert_true(blocked & (1ull << (SIGTERM - 1)));
			assert_true(blocked & (1ull << (SIGXFSZ - 1)));
		}
	closedir(d);
	assert_true(nr >= 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(destroy_waits_for_what_is_submitted),
		BOTH(any_depth_works),
		BOTH(no_signal_reaches_the_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
