/* SPDX-License-Identifier: MIT */
/* Of which start of its job a process is, rule by rule (engine/liveness/epoch.h, E1 and E2). */
#include "tests/unit/unit.h"

#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/liveness/epoch.h"
#include "engine/liveness/job.h"

#define NEWER EPOCH_NEWER
#define OLDER EPOCH_OLDER
#define SAME  EPOCH_SAME
#define OTHER EPOCH_OTHER

/* The key of a process, another key, and how the process stands to that: nothing has failed. */
static const struct {
	const char *key, *other;
	enum epoch_order order;
} keys[] = {
	{"1/slurm/7.0/r10", "1/slurm/7.0/r9", NEWER}, /* as numbers */
	{"1/slurm/7.0/r10", "1/slurm/7.0/r0", NEWER},
	{"1/slurm/7.0/r10", "1/slurm/7.0/r10", SAME},
	{"1/slurm/7.0/r10", "1/slurm/7.0/r11", OLDER},
	{"1/slurm/7.0/r10", "1/slurm/8.0/r9", OTHER},
	{"1/slurm/7.0/r10", "1/slurm/70.0/r9", OTHER},
	{"1/slurm/7.0/r10", "2/slurm/7.0/r9", OTHER},
	{"1/slurm/7.0/r10", "", OTHER},
	{"1/slurm/7.0/r1+", "1/slurm/7.0/r0+", NEWER}, /* by torchrun, too */
	{"1/slurm/7.0/r1+", "1/slurm/7.0/r1+", SAME},
	{"1/slurm/7.0/r1+", "1/slurm/7.0/r", OTHER},
	{"1/elastic/r2", "1/elastic/r1", OTHER}, /* so a run may be called */
	{"1/elastic/r2", "1/elastic/r2", SAME},
	{"1/master/rack2-n1:5", "1/master/rack1-n1:5", OTHER}, /* the name of a host */
	{"1/master/rack2-n1:5", "1/master/r1:5", OTHER},
};

static struct process a_process(const char *key)
{
	struct process p = {.uid = 1, .read = true};

	strcpy(p.key, key);
	return p;
}

static void a_launcher_counts(void **state)
{
	unsigned i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(keys); i++) {
		struct process p = a_process(keys[i].key), o = a_process(keys[i].other);

		if (epoch_order(&p, keys[i].other, EPOCH_LASTS) != keys[i].order)
			fail_msg("%s as seen from %s", keys[i].key, keys[i].other);
		assert_int_equal(epoch_same(&p, &o), keys[i].order == SAME);
	}
}

static void not_every_start_is_counted(void **state)
{
	struct process slurm = a_process("1/slurm/7.0/r10"), both = a_process("1/slurm/7.0/r1+");
	struct process run = a_process("1/elastic/r2"), named = a_process("1/slurm/7.0/r");

	(void)state;
	assert_true(epoch_is_counted(&slurm));
	assert_false(epoch_is_counted(&both));
	assert_false(epoch_is_counted(&run));
	assert_false(epoch_is_counted(&named));
	slurm.read = false;
	assert_false(epoch_is_counted(&slurm));
}

/* Who is not read may be of any job of its user, and of no other's. */
static void who_is_not_read_may_be_of_any(void **state)
{
	struct process p = a_process("1/unknown"), o = a_process("1/slurm/7.0/r9");

	(void)state;
	p.read = false;
	assert_int_equal(epoch_order(&p, o.key, EPOCH_LASTS), EPOCH_UNKNOWN);
	assert_true(epoch_same(&p, &o));
	assert_true(epoch_same(&o, &p));
	p.uid = 2;
	assert_false(epoch_same(&o, &p));
}

/* @ago in ticks. */
static uint64_t at(uint64_t ago)
{
	return clock_mono_ns() - ago * (NSEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK));
}

static void a_failure_ends_an_epoch(void **state)
{
	uint64_t tick = NSEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK);
	struct process p = a_process("1/elastic/run"), counted = a_process("1/slurm/7.0/r1");

	(void)state;
	p.start = counted.start = clock_boot_ns() / tick - 100;
	assert_true(epoch_started_before(&p, at(50)));
	assert_false(epoch_started_before(&p, at(150)));
	assert_int_equal(epoch_order(&p, p.key, at(50)), SAME);
	assert_int_equal(epoch_order(&p, p.key, at(150)), NEWER);
	assert_int_equal(epoch_order(&p, "1/elastic/other", at(150)), OTHER);
	/* A loop around the program, in one start of the job: the count says nothing of that. */
	assert_int_equal(epoch_order(&counted, counted.key, at(150)), NEWER);
	assert_int_equal(epoch_order(&counted, "1/slurm/7.0/r2", at(150)), OLDER);
	p.start = 0; /* it is not known: of what failed */
	assert_int_equal(epoch_order(&p, p.key, at(150)), SAME);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_launcher_counts),
		cmocka_unit_test(not_every_start_is_counted),
		cmocka_unit_test(who_is_not_read_may_be_of_any),
		cmocka_unit_test(a_failure_ends_an_epoch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
