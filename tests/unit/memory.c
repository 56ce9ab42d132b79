/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/*
 * The filesystem in memory: a power cut takes from it what crash.h says, and an engine runs on it.
 */
#include "tests/unit/mnt.h"

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "tests/backing/memory.h"
#include "tests/backing/record.h"

/* --- times, numbers, room --- */

static void assert_contains_file(struct backing *b, const char *name, const char *text)
{
	bool created;
	__cleanup_fd int fd = backing_create(b, b->root_fd, name, O_RDONLY, 0, &created);
	char buf[64] = "";

	assert_false(created);
	assert_int_equal(backing_read(b, fd, buf, sizeof(buf) - 1, 0), strlen(text));
	assert_string_equal(buf, text);
}

/* Open, to be closed. */
static int write_file(struct backing *b, const char *name, const char *text)
{
	bool created;
	int fd = backing_create(b, b->root_fd, name, O_RDWR, 0644, &created);

	assert_true(fd >= 0);
	assert_int_equal(backing_write(b, fd, text, strlen(text), 0, 0), strlen(text));
	return fd;
}

static void inodes_count_from_one(void **state)
{
	struct memory *m = memory_create();
	uint64_t before = clock_wall_ns();
	struct backing b, other;
	struct statx stx;
	int round;

	(void)state;
	for (round = 0; round < 2; round++) {
		memory_open(m, &b);
		memory_open(m, &other);
		close(write_file(&b, "f", "x"));
		assert_int_equal(backing_stat_at(&b, b.root_fd, ".", &stx), 0);
		assert_int_equal(stx.stx_ino, 1);
		assert_int_equal(backing_stat_at(&other, other.root_fd, "f", &stx), 0);
		assert_int_equal(stx.stx_ino, 2);
		assert_true(stx.stx_btime.tv_sec * NSEC_PER_SEC + stx.stx_btime.tv_nsec >= before);
		backing_close(&b);
		backing_close(&other);
		memory_reset(m);
	}
	memory_destroy(m);
}

static void a_disk_can_be_full(void **state)
{
	struct memory *m = memory_create();
	char bytes[3 * 4096] = "";
	struct backing b;
	struct statvfs sv;
	int fd;

	(void)state;
	memory_open(m, &b);
	memory_set_room(m, 2 * 4096);
	fd = write_file(&b, "f", "");
	assert_int_equal(backing_write(&b, fd, bytes, sizeof(bytes), 0, 0), 2 * 4096);
	assert_int_equal(backing_write(&b, fd, bytes, 1, 2 * 4096, 0), -ENOSPC);
	assert_int_equal(backing_statfs(&b, b.root_fd, &sv), 0);
	assert_int_equal(sv.f_bavail, 0);
	close(fd);
	assert_int_equal(backing_truncate(&b, b.root_fd, 0), -EISDIR);
	backing_close(&b);
	memory_destroy(m);
}

/* --- power cuts --- */

enum { CUTS = 64 };

/* One that is synced as @syncs says ('f': the file, 'd': the directory), and then cut. */
static bool remains(struct memory *m, const char *syncs, uint64_t seed)
{
	struct backing b;
	struct statx stx;
	bool there;
	int fd, i;

	memory_track(m);
	memory_open(m, &b);
	fd = write_file(&b, "f", "new");
	for (i = 0; syncs[i]; i++)
		assert_int_equal(backing_sync(&b, syncs[i] == 'f' ? fd : b.root_fd, false), 0);
	assert_int_equal(memory_is_durable(m, "f"), strlen(syncs) == 2);
	memory_power_loss(m, seed);
	there = !backing_stat_at(&b, b.root_fd, "f", &stx);
	if (there && !strcmp(syncs, "fd"))
		assert_contains_file(&b, "f", "new");
	there = there && stx.stx_size == 3;
	assert_int_equal(backing_stat(&b, fd, &stx),
			 memory_is_durable(m, "f") ? 0 : -ESTALE); /* what is left is durable */
	if (!there)
		close(write_file(&b, "g", "another")); /* it goes on */
	close(fd);
	backing_close(&b);
	memory_reset(m);
	return there;
}

static void a_cut_takes_what_is_not_synced(void **state)
{
	static const char *const some[] = {"", "f", "d"};
	struct memory *m = memory_create();
	unsigned kept, i, seed;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(some); i++) {
		for (kept = seed = 0; seed < CUTS; seed++) {
			bool there = remains(m, some[i], seed);

			assert_int_equal(there, remains(m, some[i], seed)); /* by the seed alone */
			kept += there;
		}
		assert_true(kept > 0 && kept < CUTS);
	}
	for (seed = 0; seed < CUTS; seed++)
		assert_true(remains(m, "fd", seed) && remains(m, "df", seed));
	memory_destroy(m);
}

static void numbers_and_births_outlive_a_cut(void **state)
{
	struct memory *m = memory_create();
	struct backing b;
	struct statx before, after;

	(void)state;
	memory_track(m);
	memory_open(m, &b);
	close(write_file(&b, "gone", "x"));
	assert_int_equal(backing_unlink(&b, b.root_fd, "gone", false), 0);
	close(write_file(&b, "f", "kept"));
	assert_int_equal(backing_sync_fs(&b, b.root_fd), 0);
	assert_int_equal(backing_stat_at(&b, b.root_fd, "f", &before), 0);
	memory_power_loss(m, 1);
	assert_int_equal(backing_stat_at(&b, b.root_fd, "f", &after), 0);
	assert_int_equal(before.stx_ino, after.stx_ino);
	assert_memory_equal(&before.stx_btime, &after.stx_btime, sizeof(before.stx_btime));
	assert_contains_file(&b, "f", "kept");
	backing_close(&b);
	memory_destroy(m);
}

/* --- an engine --- */

static void an_engine_saves_on_it(void **state)
{
	struct memory *m = memory_create();
	struct statx stx;
	struct mnt mnt;
	uint64_t seed;

	(void)state;
	memory_track(m);
	for (seed = 1; seed <= 3; seed++) {
		mnt_open_memory(&mnt, m, SMALL_CACHE);
		mnt_start(&mnt);
		assert_int_equal(version_in(&mnt, "x.pt"), (int)seed - 1);
		assert_int_equal(save(&mnt, "x.pt", (int)seed, SIZE + seed, true), 0);
		assert_int_equal(name_wait(&mnt, "x.pt"), 0);
		assert_true(memory_is_durable(m, "x.pt"));
		assert_int_equal(backing_stat_at(&mnt.en.backing, mnt.top, "x.pt", &stx), 0);
		assert_int_equal(stx.stx_size, SIZE + seed);
		mnt_close(&mnt);
		assert_int_equal(memory_descriptors(m), 1); /* the log's */
		memory_power_loss(m, seed);
	}
	memory_destroy(m);
}

/* A checkpoint of two files, and a pointer to it. */
static void save_checkpoint(struct mnt *mnt, const char *name, int version)
{
	char path[64], to[64];
	struct file f;

	assert_int_equal(dir_make(mnt, name), 0);
	snprintf(path, sizeof(path), "%s/__0_0.distcp", name);
	assert_int_equal(save(mnt, path, version, SIZE, false), 0);
	assert_int_equal(file_open(mnt, &f, "latest", O_WRONLY | O_TRUNC), 0);
	assert_int_equal(file_write(&f, name, strlen(name), 0), strlen(name));
	assert_int_equal(file_close(&f), 0);
	snprintf(path, sizeof(path), "%s/.metadata.tmp", name);
	snprintf(to, sizeof(to), "%s/.metadata", name);
	assert_int_equal(save(mnt, path, version, 100, false), 0);
	assert_int_equal(file_rename(mnt, path, to), 0);
	assert_int_equal(checkpoint_wait(mnt, name), 0);
}

static void an_engine_saves_a_checkpoint_on_it(void **state)
{
	struct memory *m = memory_create();
	char name[32], path[64];
	struct mnt mnt;
	int step;

	(void)state;
	memory_track(m);
	for (step = 2; step <= 5; step++) {
		mnt_open_memory(&mnt, m, SMALL_CACHE);
		mnt_start(&mnt);
		snprintf(name, sizeof(name), "step-%d", step);
		save_checkpoint(&mnt, name, step);
		snprintf(path, sizeof(path), "%s/__0_0.distcp", name);
		assert_true(memory_is_durable(m, path));
		assert_true(memory_is_durable(m, name));
		assert_int_equal(mnt_drain(&mnt, 60), 0);
		assert_contains_file(&mnt.en.backing, "latest", name);
		mnt_close(&mnt);
		assert_int_equal(memory_descriptors(m), 1); /* the log's */
		memory_power_loss(m, (uint64_t)step);
		mnt_open_memory(&mnt, m, SMALL_CACHE);
		mnt_start(&mnt);
		assert_int_equal(version_in(&mnt, path), step);
		mnt_close(&mnt);
	}
	memory_destroy(m);
}

/* How long it takes, to be printed: thousands are made. */
static void making_one_is_cheap(void **state)
{
	uint64_t begin = clock_mono_ns();
	struct memory *m = memory_create();
	char name[16];
	struct backing b;
	int round, i;

	(void)state;
	for (round = 0; round < 100; round++) {
		memory_open(m, &b);
		for (i = 0; i < 300; i++) {
			snprintf(name, sizeof(name), "%d", i);
			close(write_file(&b, name, "something"));
		}
		backing_close(&b);
		memory_reset(m);
	}
	memory_destroy(m);
	print_message("%.2f ms each, of 300 files\n", (double)(clock_mono_ns() - begin) / 1e8);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(inodes_count_from_one),
		cmocka_unit_test(a_disk_can_be_full),
		cmocka_unit_test(a_cut_takes_what_is_not_synced),
		cmocka_unit_test(numbers_and_births_outlive_a_cut),
		cmocka_unit_test(an_engine_saves_on_it),
		cmocka_unit_test(an_engine_saves_a_checkpoint_on_it),
		cmocka_unit_test(making_one_is_cheap),
	};

	umask(0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
