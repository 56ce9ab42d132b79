/* SPDX-License-Identifier: MIT */
/*
 * A directory that was found to be no checkpoint is not asked again for each file that is made in
 * it; but it is after the next publish, and by who comes later.
 */
#include "tests/backing/faults.h"
#include "tests/unit/mnt.h"

#include "engine/format/commit.h"
#include "engine/save/units.h"

#define CACHE "chunk_size=64K,host_cache_size=4M," LEAST_TIMEOUT
#define FILES 200

static struct mnt m;
static struct faults *f;
static struct at held; /* keeps the directory known, as a program in it does */
static int asked;      /* the fault that counts who asks for a commit file; there is none */

static void begin(void)
{
	char path[PATH_MAX];

	mnt_open(&m, scratch_dir(path), CACHE);
	f = faults_attach(&m.en.backing);
	mnt_start(&m);
	assert_int_equal(dir_make(&m, "logs"), 0);
	held = at_begin(&m, "logs/0");
	asked = faults_add(f,
			   &(struct fault){.calls = CALL_STAT, .name = COMMIT_FILE, .err = ENOENT});
}

static void finish(void)
{
	at_end(&m, &held);
	mnt_close(&m);
	faults_detach(f);
}

static void make(const char *path)
{
	struct file file;

	assert_int_equal(file_open(&m, &file, path, O_WRONLY | O_CREAT | O_EXCL), 0);
	assert_int_equal(file_close(&file), 0);
}

static void many_files_are_few_questions(void **state)
{
	uint64_t since = clock_mono_ns();
	unsigned i, hits;

	(void)state;
	begin();
	for (i = 0; i < FILES; i++) {
		char path[32];

		snprintf(path, sizeof(path), "logs/%u", i);
		make(path);
	}
	hits = faults_hits(f, asked);
	assert_true(hits >= 1);
	assert_true(hits <= 2 + (clock_mono_ns() - since) / NSEC_PER_SEC);
	finish();
}

/* That of whatever checkpoint; here it is told so. */
static void a_publish_makes_it_ask_again(void **state)
{
	unsigned before;

	(void)state;
	begin();
	make("logs/a");
	before = faults_hits(f, asked);
	atomic_fetch_add(&m.en.units->nr_published, 1);
	make("logs/b");
	assert_int_equal(faults_hits(f, asked), before + 1);
	finish();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_files_are_few_questions),
		cmocka_unit_test(a_publish_makes_it_ask_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
