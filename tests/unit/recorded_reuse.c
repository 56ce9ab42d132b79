/* SPDX-License-Identifier: MIT */
/*
 * On a backing without extended attributes, a save gets the inode number of a file that another
 * save has replaced just now, and makes its record before the other save removes that of the old
 * file.
 */
#include "tests/unit/mnt.h"

#include <sched.h>

#include "engine/content/recorded.h"
#include "tests/backing/faults.h"

#define ONE "step-1.pt"
#define TWO "step-2.pt"

static bool has_record(struct mnt *m, const char *name)
{
	int fd = openat(m->top, name, O_RDONLY | O_CLOEXEC);
	char hex[DIGEST_HEX];
	struct statx stx;
	bool has;

	assert_true(fd >= 0);
	assert_int_equal(backing_stat(&m->en.backing, fd, &stx), 0);
	has = recorded_valid(&m->en.backing, fd, &stx, hex);
	close(fd);
	return has;
}

static void a_save_keeps_its_record(void **state)
{
	char path[PATH_MAX];
	struct faults *f;
	struct mnt m;

	(void)state;
	setenv("CKPTFS_FEATURES_OFF", "xattr", 1);
	mnt_open(&m, scratch_dir(path), SMALL_CACHE);
	mnt_start(&m);
	assert_int_equal(save(&m, ONE, 3, 5000, false), 0);
	assert_int_equal(mnt_drain(&m, 60), 0);
	assert_true(has_record(&m, ONE));
	mnt_close(&m);

	/* A mount anew, which has nothing of the old file open. */
	mnt_open(&m, path, SMALL_CACHE);
	f = faults_attach(&m.en.backing);
	mnt_start(&m);
	faults_freeze_first(f, CALL_SYNC_DIR, 1);
	assert_int_equal(save(&m, ONE, 4, 5000, false), 0);
	faults_wait_frozen(f, 1);
	assert_int_equal(version_at(m.top, ONE), 4); /* it has the name, and waits */
	assert_int_equal(save(&m, TWO, 5, 5000, false), 0);
	while (version_at(m.top, TWO) != 5)
		sched_yield();
	faults_thaw(f);
	assert_int_equal(mnt_drain(&m, 60), 0);
	assert_true(has_record(&m, ONE));
	assert_true(has_record(&m, TWO));
	engine_stop(&m.en);
	faults_detach(f);
	mnt_close(&m);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_save_keeps_its_record),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
