/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/* A write, a death or a move while a file is being published. */
#include "tests/unit/flush_faults.h"

#include "engine/metrics/failures.h"

/* A frozen publish of NEW over x.pt. */
static void begin_frozen_publish(struct file *file, unsigned calls)
{
	begin(PATIENT);
	open_for(file, "x.pt");
	assert_int_equal(file_fill(file, NEW, NEW_SIZE), 0);
	faults_freeze(f, calls);
	generation_ask_durable(file->h->generation, false);
	generation_closed(file->h->generation, file->key,
			  (struct writer_end){.fate = WRITER_ALIVE});
	faults_wait_frozen(f, 1);
}

struct late_write {
	pthread_t thread;
	struct file *file;
	struct interruptible call;
	atomic_bool done;
	ssize_t result;
};

static void *late_write_main(void *arg)
{
	struct late_write *w = arg;

	wait_serve(&w->call);
	w->result = file_write(w->file, "late", 4, 100);
	atomic_store(&w->done, true);
	return NULL;
}

/*
 * Who writes on then waits for the end of it, and changes a plain file, which has no digest more.
 */
static void a_write_waits_for_the_publish(void **state)
{
	struct late_write w = {0};
	struct file file;

	(void)state;
	begin_frozen_publish(&file, CALL_RENAME);
	w.file = &file;
	interruptible_init(&w.call);
	assert_int_equal(pthread_create(&w.thread, NULL, late_write_main, &w), 0);
	usleep(20000);
	assert_false(atomic_load(&w.done));
	wait_interrupt(&w.call);
	pthread_join(w.thread, NULL);
	assert_int_equal(w.result, -EINTR);
	interruptible_init(&w.call);
	w.done = false;
	assert_int_equal(pthread_create(&w.thread, NULL, late_write_main, &w), 0);
	faults_thaw(f);
	pthread_join(w.thread, NULL);
	assert_int_equal(w.result, 4);
	assert_int_equal(version_at(m.top, "x.pt"), TORN);
	assert_false(has_digest(m.top, "x.pt"));
	assert_int_equal(file_close(&file), 0);
	end();
}

/* A process that dies then had closed it before: what was complete is published. */
static void a_death_during_the_publish_comes_too_late(void **state)
{
	static const unsigned calls[] = {CALL_SETXATTR, CALL_SYNC, CALL_RENAME, CALL_SYNC_DIR};
	struct file file;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		begin_frozen_publish(&file, calls[i]);
		generation_closed(file.h->generation, file.key,
				  (struct writer_end){.fate = WRITER_DIED, .code = -9});
		faults_thaw(f);
		assert_int_equal(generation_wait(file.h->generation), 0);
		assert_on_backing(NEW);
		assert_int_equal(failures_total(m.en.failures), 0);
		assert_int_equal(file_close(&file), 0);
		end();
	}
}

static void a_death_during_a_failing_publish_is_one_failure(void **state)
{
	struct file file;

	(void)state;
	begin_frozen_publish(&file, CALL_RENAME);
	generation_closed(file.h->generation, file.key,
			  (struct writer_end){.fate = WRITER_DIED, .code = -9});
	faults_add(f, &(struct fault){.calls = CALL_RENAME, .err = EROFS});
	faults_thaw(f);
	assert_true(generation_wait(file.h->generation) < 0);
	assert_on_backing(OLD);
	WAIT_FOR(failures_total(m.en.failures) == 1);
	assert_true(file_close(&file) < 0);
	end();
}

struct mover {
	pthread_t thread;
	int result;
};

static void *mover_main(void *arg)
{
	struct mover *mover = arg;

	mover->result = file_rename(&m, "x.pt", "d/x.pt");
	return NULL;
}

/* One that dies while its file moves to another directory fails it. */
static void a_death_during_a_move_fails_it(void **state)
{
	struct mover mover;
	struct file file;

	(void)state;
	begin(PATIENT);
	assert_int_equal(mkdirat(m.top, "d", 0777), 0);
	open_for(&file, "x.pt");
	assert_int_equal(file_fill(&file, NEW, NEW_SIZE), 0);
	faults_freeze(f, CALL_RENAME);
	assert_int_equal(pthread_create(&mover.thread, NULL, mover_main, &mover), 0);
	faults_wait_frozen(f, 1);
	generation_closed(file.h->generation, file.key,
			  (struct writer_end){.fate = WRITER_DIED, .code = -9});
	faults_thaw(f);
	pthread_join(mover.thread, NULL);
	assert_int_equal(mover.result, 0); /* of what the name shows then */
	assert_true(generation_wait(file.h->generation) < 0);
	assert_true(file_close(&file) < 0);
	assert_int_equal(version_at(m.top, "d/x.pt"), OLD);
	assert_int_equal(version_at(m.top, "x.pt"), ABSENT);
	WAIT_FOR(no_save_is_left());
	end();
}

/* What a thread of the process still writes while another closes is in it, or comes after it. */
static void a_write_beside_the_close_is_in_it(void **state)
{
	struct late_write w = {0};
	struct generation *g;
	struct file file;
	int version;

	(void)state;
	begin(PATIENT);
	assert_int_equal(file_open(&m, &file, "x.pt", O_RDWR), 0); /* a copy */
	g = file.h->generation;
	generation_ask_durable(g, false);
	assert_int_equal(file_write(&file, "early", 5, 0), 5);
	assert_int_equal(content_write_back(file.h->content), 0);
	/* Between what is cached of the chunk and what is written there is the backing's. */
	faults_freeze(f, CALL_READ);
	w.file = &file;
	interruptible_init(&w.call);
	assert_int_equal(pthread_create(&w.thread, NULL, late_write_main, &w), 0);
	faults_wait_frozen(f, 1);
	generation_closed(g, file.key, (struct writer_end){.fate = WRITER_ALIVE});
	faults_freeze(f, 0);
	usleep(100000);
	faults_thaw(f);
	pthread_join(w.thread, NULL);
	assert_int_equal(w.result, 4);
	assert_int_equal(generation_wait(g), 0);
	assert_int_equal(file_close(&file), 0);
	WAIT_FOR(cache_is_idle());
	version = version_in(&m, "x.pt");
	assert_int_equal(version, TORN); /* neither of the two that are known */
	assert_true(has_digest(m.top, "x.pt"));
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_write_waits_for_the_publish),
		cmocka_unit_test(a_death_during_the_publish_comes_too_late),
		cmocka_unit_test(a_death_during_a_failing_publish_is_one_failure),
		cmocka_unit_test(a_death_during_a_move_fails_it),
		cmocka_unit_test(a_write_beside_the_close_is_in_it),
	};
	const char *only = getenv("CKPTFS_TEST_ONLY");

	umask(0);
	writer_judge(getpid()); /* keeps /proc open from now on */
	if (only)
		cmocka_set_test_filter(only);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
