/* SPDX-License-Identifier: MIT */
/*
 * After a failure each process of a job gets the error once, however many there are, of however
 * many jobs.
 */
#include "tests/unit/unit.h"

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/liveness/casualty.h"
#include "engine/liveness/job_inside.h"

#define MANY 200 /* more than any fixed number that was kept once */

static struct jobs *jobs;
static struct casualties cs;
static pid_t last_tgid;

static void ended(void *arg, const struct process *p, struct writer_end end)
{
	(void)arg;
	(void)p;
	(void)end;
}

/* One that lives, as far as the daemon knows. */
static struct process *a_rank(const char *job)
{
	LOCK_SCOPE(&jobs->lock);
	struct process *p = process_create_locked(jobs, 1000);

	assert_non_null(p);
	p->tgid = ++last_tgid;
	p->start = 1;
	p->read = p->visible = true;
	p->weak = false;
	snprintf(p->key, sizeof(p->key), "1000/slurm/%s/r0", job);
	list_append(&jobs->processes, &p->link);
	return p;
}

static void ends(struct process *p)
{
	LOCK_SCOPE(&jobs->lock);
	p->gone = true;
}

static int setup(void **state)
{
	struct error e;

	(void)state;
	assert_int_equal(jobs_create(&jobs, ended, NULL, &e), 0);
	memset(&cs, 0, sizeof(cs));
	return casualties_init(&cs);
}

static int teardown(void **state)
{
	(void)state;
	casualties_finish(&cs);
	jobs_destroy(jobs);
	return 0;
}

static int tell(struct process *p)
{
	char path[PATH_MAX];
	int err = casualty_tell(&cs, p, path, sizeof(path));

	assert_int_equal(*path != '\0', err != 0);
	return err;
}

static void fails(struct process *p, int err)
{
	casualty_add(&cs, p, "step-1", err, clock_mono_ns());
}

static void each_of_many_ranks_is_told_once(void **state)
{
	struct process *ranks[MANY];
	size_t i, round;

	(void)state;
	for (i = 0; i < MANY; i++)
		ranks[i] = a_rank("many");
	for (round = 0; round < 2; round++) {
		fails(ranks[round], -EIO);
		for (i = 0; i < MANY; i++)
			assert_int_equal(tell(ranks[i]), -EIO);
		for (i = 0; i < MANY; i++)
			assert_int_equal(tell(ranks[i]), 0);
	}
	for (i = 0; i < MANY; i++)
		process_put(ranks[i]);
}

static void a_job_that_lives_is_told_however_many_others_fail(void **state)
{
	struct process *first = a_rank("first"), *late = a_rank("first"), *others[MANY];
	char job[16];
	size_t i;

	(void)state;
	fails(first, -EDQUOT);
	ends(first);
	for (i = 0; i < MANY; i++) {
		snprintf(job, sizeof(job), "other%zu", i);
		others[i] = a_rank(job);
		fails(others[i], -EIO);
	}
	assert_int_equal(tell(late), -EDQUOT);
	assert_int_equal(tell(late), 0);
	for (i = 0; i < MANY; i++)
		assert_int_equal(tell(others[i]), -EIO);
	for (i = 0; i < MANY; i++)
		process_put(others[i]);
	process_put(first);
	process_put(late);
}

static void little_is_kept_of_what_has_ended(void **state)
{
	char job[16];
	size_t i;

	(void)state;
	for (i = 0; i < 10 * MANY; i++) {
		struct process *p;

		snprintf(job, sizeof(job), "job%zu", i);
		p = a_rank(job);
		fails(p, -EIO);
		assert_int_equal(tell(p), -EIO);
		ends(p);
		process_put(p);
	}
	assert_in_range(cs.nr_kept, 1, CASUALTIES_KEPT);
	assert_in_range(cs.heard.entries.nr, 1, MANY);
}

static void of_two_failures_a_process_hears_once(void **state)
{
	struct process *p = a_rank("twice"), *restarted = a_rank("twice");

	(void)state;
	fails(p, -EIO);
	fails(p, -ENOSPC);
	assert_true(tell(p));
	assert_int_equal(tell(p), 0);
	restarted->start = UINT64_MAX;
	assert_int_equal(tell(restarted), 0);
	/*
	 * What had begun after the cause, and wrote to it all the same, is told, but no others
	 * like it.
	 */
	fails(restarted, -EIO);
	assert_int_equal(tell(p), 0);
	assert_int_equal(tell(restarted), -EIO);
	assert_int_equal(tell(restarted), 0);
	process_put(p);
	process_put(restarted);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_of_many_ranks_is_told_once, setup, teardown),
		cmocka_unit_test_setup_teardown(a_job_that_lives_is_told_however_many_others_fail,
						setup, teardown),
		cmocka_unit_test_setup_teardown(little_is_kept_of_what_has_ended, setup, teardown),
		cmocka_unit_test_setup_teardown(of_two_failures_a_process_hears_once, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
