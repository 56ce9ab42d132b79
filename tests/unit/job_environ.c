/* SPDX-License-Identifier: MIT */
/* What the environment of a process says: its rank, its job, the name that people have for this. */
#include "tests/unit/unit.h"

#include "engine/base/cleanup.h"
#include "engine/liveness/job.h"

#define BOOT_ID "01234567-89ab-4def-8123-456789abcdef"

struct expected {
	const char *env; /* with ; for NUL */
	int rank, world;
	const char *key; /* NULL: weak */
};

static const struct expected environments[] = {
	{"", -1, 0, NULL},
	{"PATH=/bin;HOME=/;", -1, 0, NULL},
	{"RANK=3;WORLD_SIZE=8;", 3, 8, NULL},
	{"RANK=0;WORLD_SIZE=1;", 0, 1, NULL},
	{"RANK=3;RANK=4;WORLD_SIZE=8;", 3, 8, NULL},
	{"XRANK=1;RANK=3;WORLD_SIZE=8;RANKX=4;", 3, 8, NULL},
	/* what no launcher writes */
	{"RANK=8;WORLD_SIZE=8;", -1, 0, NULL},
	{"RANK=-1;WORLD_SIZE=8;", -1, 0, NULL},
	{"RANK=+1;WORLD_SIZE=8;", -1, 0, NULL},
	{"RANK= 1;WORLD_SIZE=8;", -1, 0, NULL},
	{"RANK=1x;WORLD_SIZE=8;", -1, 0, NULL},
	{"RANK=;WORLD_SIZE=8;", -1, 0, NULL},
	{"RANK=0;WORLD_SIZE=0;", -1, 0, NULL},
	{"RANK=0;WORLD_SIZE=;", -1, 0, NULL},
	{"RANK=0;WORLD_SIZE=16777217;", -1, 0, NULL},
	{"RANK=0;WORLD_SIZE=18446744073709551617;", -1, 0, NULL},
	{"RANK=4294967297;WORLD_SIZE=8;", -1, 0, NULL},
	{"RANK=1;", -1, 0, NULL},
	{"WORLD_SIZE=8;", -1, 0, NULL},
	{"RANK;WORLD_SIZE;=;", -1, 0, NULL},
	{"RANK=1;WORLD_SIZE=8", -1, 0, NULL}, /* cut off */
	/* the others, and which comes first */
	{"OMPI_COMM_WORLD_RANK=1;OMPI_COMM_WORLD_SIZE=2;", 1, 2, NULL},
	{"PMI_RANK=1;PMI_SIZE=3;", 1, 3, NULL},
	{"PMIX_RANK=1;PMIX_SIZE=4;", 1, 4, NULL},
	{"PMIX_RANK=5;", 5, 0, NULL},
	{"PMIX_RANK=5;PMIX_SIZE=4;", -1, 0, NULL},
	{"RANK=x;WORLD_SIZE=8;PMI_RANK=1;PMI_SIZE=3;", 1, 3, NULL},
	{"RANK=3;WORLD_SIZE=8;OMPI_COMM_WORLD_RANK=0;OMPI_COMM_WORLD_SIZE=2;", 3, 8, NULL},
	/* SLURM */
	{"SLURM_JOB_ID=12;SLURM_STEP_ID=0;SLURM_PROCID=5;SLURM_NTASKS=16;", 5, 16,
	 "7/slurm/12.0/r0"},
	{"SLURM_JOB_ID=12;SLURM_STEP_ID=3;SLURM_PROCID=5;SLURM_NTASKS=16;PMIX_RANK=5;", 5, 16,
	 "7/slurm/12.3/r0"},
	{"SLURM_JOB_ID=12;SLURM_STEP_ID=0;SLURM_PROCID=0;SLURM_NTASKS=1;", -1, 0,
	 "7/slurm/12.0/r0"},
	{"SLURM_JOB_ID=12;SLURM_PROCID=0;SLURM_NTASKS=16;", -1, 0, "7/slurm/12.batch/r0"},
	{"SLURM_JOB_ID=12;SLURM_STEP_ID=4294967291;SLURM_PROCID=0;SLURM_NTASKS=16;", -1, 0,
	 "7/slurm/12.batch/r0"},
	{"SLURM_JOB_ID=12;SLURM_STEP_ID=0;SLURM_PROCID=0;SLURM_NTASKS=2;RANK=9;WORLD_SIZE=16;"
	 "TORCHELASTIC_RUN_ID=run;TORCHELASTIC_RESTART_COUNT=2;SLURM_RESTART_COUNT=1;",
	 9, 16, "7/slurm/12.0/r1+"},
	{"SLURM_JOB_ID=0;", -1, 0, NULL},
	{"SLURM_JOB_ID=x;", -1, 0, NULL},
	{"SLURM_JOB_ID=12;SLURM_STEP_ID=x;", -1, 0, NULL},
	{"SLURM_JOB_ID=12;SLURM_RESTART_COUNT=99999999999;", -1, 0, NULL},
	{"SLURM_JOB_ID=12;SLURM_RESTART_COUNT=x;TORCHELASTIC_RUN_ID=run;", -1, 0, "7/elastic/run"},
	/* torchrun */
	{"TORCHELASTIC_RUN_ID=run-1;TORCHELASTIC_RESTART_COUNT=2;", -1, 0, "7/elastic/run-1"},
	{"TORCHELASTIC_RUN_ID=a/b c%;", -1, 0, "7/elastic/a%2Fb%20c%25"},
	{"TORCHELASTIC_RUN_ID=;", -1, 0, NULL},
	{"TORCHELASTIC_RUN_ID=none;", -1, 0, NULL},
	{"TORCHELASTIC_RUN_ID=none;MASTER_ADDR=n1;MASTER_PORT=29500;", -1, 0, "7/master/n1:29500"},
	{"TORCHELASTIC_RUN_ID=run;TORCHELASTIC_RESTART_COUNT=x;MASTER_ADDR=n1;MASTER_PORT=1;", -1,
	 0, "7/elastic/run"},
	/* the rendezvous; on this host many have the same */
	{"MASTER_ADDR=10.0.0.1;MASTER_PORT=29500;", -1, 0, "7/master/10.0.0.1:29500"},
	{"MASTER_ADDR=fe80::1;MASTER_PORT=29500;", -1, 0, "7/master/fe80::1:29500"},
	{"MASTER_ADDR=127.0.0.1;MASTER_PORT=29500;", -1, 0, "7/master/127.0.0.1:29500@" BOOT_ID},
	{"MASTER_ADDR=LocalHost;MASTER_PORT=29500;", -1, 0, "7/master/LocalHost:29500@" BOOT_ID},
	{"MASTER_ADDR=::1;MASTER_PORT=29500;", -1, 0, "7/master/::1:29500@" BOOT_ID},
	{"MASTER_ADDR=10.0.0.1;", -1, 0, NULL},
	{"MASTER_PORT=29500;", -1, 0, NULL},
	{"MASTER_ADDR=10.0.0.1;MASTER_PORT=0;", -1, 0, NULL},
	{"MASTER_ADDR=10.0.0.1;MASTER_PORT=65536;", -1, 0, NULL},
	{"MASTER_ADDR=;MASTER_PORT=29500;", -1, 0, NULL},
};

static void parse(const char *text, struct process *p)
{
	size_t len = strlen(text), i;
	char *env = malloc(len ? len : 1); /* no terminator behind it */

	assert_non_null(env);
	for (i = 0; i < len; i++)
		env[i] = text[i] == ';' ? '\0' : text[i];
	memset(p, 0x55, sizeof(*p));
	job_parse(env, len, 7, 42, BOOT_ID, p);
	free(env);
}

static void environments_are_understood(void **state)
{
	struct process p;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(environments); i++) {
		const struct expected *x = &environments[i];

		parse(x->env, &p);
		if (p.rank != x->rank || p.world != x->world || p.weak != !x->key ||
		    strcmp(p.key, x->key ? x->key : "7/session/42@" BOOT_ID))
			fail_msg("%s: rank %d of %d, %s", x->env, p.rank, p.world, p.key);
	}
}

/* Cut, two long names could become one. */
static void jobs_are_named_by_people(void **state)
{
	static const struct {
		const char *key, *name;
		bool is;
	} cases[] = {
		{"1000/slurm/8123.0/r0", "1000/slurm/8123.0/r0", true},
		{"1000/slurm/8123.0/r0", "1000/slurm/8123.0/r0", true},
		{"1000/slurm/8123.0/r0", "1000/slurm/8123.0", true},
		{"1000/slurm/8123.0/r0", "1000/slurm/8123", true},
		{"1000/slurm/8123.0/r0", "slurm/8123.0", true},
		{"1000/slurm/8123.0/r0", "8123", true},
		{"1000/slurm/8123.0/r0", "8123.0", true},
		{"1000/slurm/8123.batch/r1", "8123.batch", true},
		{"1000/slurm/8123.0/r0", "812", false},
		{"1000/slurm/8123.0/r0", "81230", false},
		{"1000/slurm/8123.0/r0", "1000", false}, /* of a user is no job */
		{"1000/slurm/8123.0/r0", "1000/slurm/812", false},
		{"1000/slurm/8123.0/r0", "1/slurm/8123", false},
		{"1000/slurm/8123.10/r0", "8123.1", false},
		{"1000/slurm/8123.0/r0", "", false},
		{"1000/elastic/8123/r0", "8123", false},
		{"1000/elastic/run.1/r0", "elastic/run.1", true},
		{"1000/elastic/run.1/r0", "1000/elastic/run", false},
		{"1000/master/host:29500", "1000/master/host:29500", true},
		{"1000/master/host:29500", "1000/master/host", false},
		{"1000/unknown", "1000/unknown", true},
	};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++)
		if (job_is(cases[i].key, cases[i].name) != cases[i].is)
			fail_msg("%s as %s", cases[i].key, cases[i].name);
	assert_true(job_name_ok("8123") && job_name_ok("8123.0") && job_name_ok("1000/unknown"));
	assert_false(job_name_ok("") || job_name_ok("8123_4") || job_name_ok("8123.") ||
		     job_name_ok("/8123") || job_name_ok("run"));
}

static void names_too_long_for_a_key_are_none(void **state)
{
	char env[4096], name[1024];
	struct process p;

	(void)state;
	memset(name, 'x', sizeof(name));
	name[198] = '\0';
	snprintf(env, sizeof(env), "TORCHELASTIC_RUN_ID=%s;", name);
	parse(env, &p);
	assert_false(p.weak);
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	snprintf(env, sizeof(env), "TORCHELASTIC_RUN_ID=%s;", name);
	parse(env, &p);
	assert_true(p.weak);
	memset(name, '/', 100);
	name[100] = '\0';
	snprintf(env, sizeof(env), "TORCHELASTIC_RUN_ID=%s;", name);
	parse(env, &p);
	assert_true(p.weak);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(environments_are_understood),
		cmocka_unit_test(jobs_are_named_by_people),
		cmocka_unit_test(names_too_long_for_a_key_are_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
