/* SPDX-License-Identifier: MIT */
/*
 * Renames that are done on the backing, and answered with an error: the reply was lost, and the
 * call was sent again, as NFS does. Whoever made them looks, and goes on; a commit does, what
 * follows it does, and recovery does.
 */
#include "tests/unit/mnt.h"

#include "engine/save/units.h"
#include "tests/backing/faults.h"

#define ONE  "step-1"
#define TWO  "step-2"
#define PART "__0_0.distcp"

#define OPTIONS SMALL_CACHE ",quiet_s=3600,io_retry_s="

static const int errs[] = {EIO, ENOENT, EEXIST, ESTALE, ETIMEDOUT};

static struct mnt m;
static struct faults *f;

static void mount_again(const char *path, const char *options, bool flags)
{
	mnt_open(&m, path, options);
	if (!flags)
		m.en.backing.features->state[FEATURE_RENAME_FLAGS] = FEATURE_TURNED_OFF;
	f = faults_attach(&m.en.backing);
}

/* Of @left hidden names in the backing, trash included. */
static void end(unsigned left)
{
	DIR *d = opendir(m.path);
	const struct dirent *entry;

	faults_clear(f);
	engine_stop(&m.en);
	assert_non_null(d);
	while ((entry = readdir(d)))
		left -= name_is_reserved(entry->d_name);
	closedir(d);
	assert_int_equal(left, 0);
	faults_detach(f);
	mnt_close(&m);
}

static void begin(const char *unit, int version)
{
	char path[PATH_MAX];

	assert_int_equal(dir_make(&m, unit), 0);
	snprintf(path, sizeof(path), "%s/%s", unit, PART);
	assert_int_equal(save(&m, path, version, 5000, false), 0);
	snprintf(path, sizeof(path), "%s/.metadata.tmp", unit);
	assert_int_equal(save(&m, path, version, 100, false), 0);
}

/* Its end. */
static void commit(const char *unit)
{
	char from[PATH_MAX], to[PATH_MAX];

	snprintf(from, sizeof(from), "%s/.metadata.tmp", unit);
	snprintf(to, sizeof(to), "%s/.metadata", unit);
	assert_int_equal(file_rename(&m, from, to), 0);
}

static void remove_all(const char *unit)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", unit, PART);
	assert_int_equal(file_unlink(&m, path), 0);
	snprintf(path, sizeof(path), "%s/.metadata", unit);
	assert_int_equal(file_unlink(&m, path), 0);
	assert_int_equal(dir_remove(&m, unit), 0);
}

static void point(const char *unit)
{
	struct file file;

	assert_int_equal(file_open(&m, &file, "latest.tmp", O_WRONLY | O_TRUNC), 0);
	assert_int_equal(file_write(&file, unit, strlen(unit), 0), strlen(unit));
	assert_int_equal(file_close(&file), 0);
	assert_int_equal(file_rename(&m, "latest.tmp", "latest"), 0);
}

static bool points_to(const char *unit)
{
	char text[NAME_MAX + 1] = "";
	__cleanup_fd int fd = openat(m.top, "latest", O_RDONLY | O_CLOEXEC);

	return fd >= 0 && read(fd, text, NAME_MAX) > 0 && !strcmp(text, unit);
}

static int landed(const char *unit)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", unit, PART);
	return version_at(m.top, path);
}

/* The next checkpoint, after which the job points to it, and the first one goes. */
static void save_next(void)
{
	begin(ONE, 3);
	commit(ONE);
	assert_int_equal(checkpoint_wait(&m, ONE), 0);
	point(ONE);
	assert_int_equal(mnt_drain(&m, 60), 0);
	begin(TWO, 4);
	point(TWO);
	remove_all(ONE);
	assert_int_equal(landed(ONE), 3);
}

static void check_next(void)
{
	assert_int_equal(landed(TWO), 4);
	assert_true(points_to(TWO));
	while (landed(ONE) != ABSENT)
		assert_int_equal(mnt_drain(&m, 60), 0);
}

/* Of a commit, and of what follows it. @name: whose rename it is. */
static void lose_one(const char *name, int err, bool flags)
{
	char path[PATH_MAX];
	int fault;

	mount_again(scratch_dir(path), OPTIONS "1", flags);
	mnt_start(&m);
	save_next();
	fault = faults_add(
		f,
		&(struct fault){
			.calls = CALL_RENAME, .name = name, .times = 1, .err = err, .done = true});
	commit(TWO);
	assert_int_equal(checkpoint_wait(&m, TWO), 0);
	check_next();
	assert_int_equal(faults_hits(f, fault), 1);
	assert_int_equal(failures_total(m.en.failures), 0);
	end(0);
}

static void a_commit_and_what_follows_it(void **state)
{
	static const char *const names[] = {TWO, "latest", ONE};
	size_t i, k;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(names); i++)
		for (k = 0; k < ARRAY_SIZE(errs); k++) {
			lose_one(names[i], errs[k], true);
			lose_one(names[i], errs[k], false);
		}
}

/* In place of another: by one exchange, or by two renames. */
static void a_commit_that_replaces(void **state)
{
	char path[PATH_MAX];
	unsigned i, k;

	(void)state;
	for (i = 0; i < 3; i++)
		for (k = 0; k < ARRAY_SIZE(errs); k++) {
			bool exchanges = !i;
			int fault;

			mount_again(scratch_dir(path), OPTIONS "1", exchanges);
			mnt_start(&m);
			begin(ONE, 3);
			commit(ONE);
			assert_int_equal(checkpoint_wait(&m, ONE), 0);
			assert_int_equal(save(&m, ONE "/" PART, 4, 5000, false), 0);
			assert_int_equal(save(&m, ONE "/.metadata.tmp", 4, 100, false), 0);
			fault = faults_add(f, &(struct fault){.calls = CALL_RENAME,
							      .name = ONE,
							      .skip = i ? i - 1 : 0,
							      .times = 1,
							      .err = errs[k],
							      .done = true});
			commit(ONE);
			assert_int_equal(checkpoint_wait(&m, ONE), 0);
			assert_int_equal(landed(ONE), 4);
			assert_int_equal(faults_hits(f, fault), 1);
			assert_int_equal(failures_total(m.en.failures), 0);
			end(0);
		}
}

/* What was decided when the daemon ended is done by the next one. */
static void recovery(void **state)
{
	static const char *const names[] = {TWO, "latest", ONE};
	char path[PATH_MAX];
	size_t i, k;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(names); i++)
		for (k = 0; k < ARRAY_SIZE(errs); k++) {
			uint64_t renames;
			int fault;

			mount_again(scratch_dir(path), OPTIONS "60", true);
			mnt_start(&m);
			save_next();
			faults_add(f,
				   &(struct fault){.calls = CALL_RENAME, .name = TWO, .err = EIO});
			renames = faults_count(f, CALL_RENAME);
			commit(TWO);
			faults_wait_count(f, CALL_RENAME, renames + 2); /* and that of the daemon */
			engine_stop(&m.en);
			assert_int_equal(landed(TWO), ABSENT);
			assert_int_equal(landed(ONE), 3);
			assert_true(points_to(ONE));
			end(2); /* it, and the pointer */

			mount_again(path, OPTIONS "60", k % 2);
			fault = faults_add(f, &(struct fault){.calls = CALL_RENAME,
							      .name = names[i],
							      .times = 1,
							      .err = errs[k],
							      .done = true});
			mnt_start(&m);
			check_next();
			assert_int_equal(faults_hits(f, fault), 1);
			end(0);
		}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_commit_and_what_follows_it),
		cmocka_unit_test(a_commit_that_replaces),
		cmocka_unit_test(recovery),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
