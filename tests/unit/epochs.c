/* SPDX-License-Identifier: MIT */
/* Two nodes share the chains of their jobs: as records, each made by whoever is first. */
#include "tests/unit/unit.h"

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/epoch/epochs.h"
#include "engine/liveness/job_inside.h"

/* --- records in memory, that fail or are not seen when a test says so --- */

#define RECORDS_MAX 64

static struct {
	char gen[COORD_GEN_MAX], kind[COORD_KIND_MAX], text[2048];
	uid_t owner;
} records[RECORDS_MAX];
static unsigned nr_records, nr_reads, nr_makes, nr_failing, nr_unseen;
static bool answers_get_lost;

static int find(uid_t owner, const char *gen, const char *kind)
{
	unsigned i;

	for (i = 0; i < nr_records; i++)
		if (records[i].owner == owner && !strcmp(records[i].gen, gen) &&
		    !strcmp(records[i].kind, kind))
			return (int)i;
	return -1;
}

static int memory_record(void *arg, const struct caller *owner, const char *gen, const char *kind,
			 const char *text, size_t len, char *first, size_t *first_len)
{
	int i = find(owner->uid, gen, kind);

	(void)arg;
	nr_makes++;
	assert_true(coord_gen_ok(gen) && coord_kind_ok(kind) && !text[len]);
	if (nr_failing && nr_failing--)
		return -EIO;
	if (i < 0) {
		assert_true(nr_records < RECORDS_MAX && len < sizeof(records[0].text));
		i = (int)nr_records++;
		records[i].owner = owner->uid;
		snprintf(records[i].gen, COORD_GEN_MAX, "%s", gen);
		snprintf(records[i].kind, COORD_KIND_MAX, "%s", kind);
		snprintf(records[i].text, sizeof(records[i].text), "%s", text);
	}
	if (answers_get_lost)
		return -EIO;
	if (!strcmp(records[i].text, text))
		return 1;
	*first_len = strlen(records[i].text);
	memcpy(first, records[i].text, *first_len);
	return 0;
}

static ssize_t memory_read(void *arg, uid_t owner, const char *gen, const char *kind, char *buf,
			   size_t size)
{
	int i = find(owner, gen, kind);

	(void)arg;
	(void)size;
	nr_reads++;
	if (nr_unseen && nr_unseen--)
		return -ENOENT;
	if (i < 0)
		return -ENOENT;
	memcpy(buf, records[i].text, strlen(records[i].text));
	return (ssize_t)strlen(records[i].text);
}

static const struct coord_ops memory_ops = {.record = memory_record, .read = memory_read};

/* --- two nodes and their processes --- */

static struct jobs *jobs;
static struct epochs *here, *there, *alone;
static const struct caller me = {.uid = 1000, .gid = 1000};
static struct process *all[4096];
static unsigned nr_all;

static void ended(void *arg, const struct process *p, struct writer_end end)
{
	(void)arg;
	(void)p;
	(void)end;
}

static struct process *a_process(const char *key, uint64_t start)
{
	LOCK_SCOPE(&jobs->lock);
	struct process *p = process_create_locked(jobs, me.uid);

	assert_non_null(p);
	p->tgid = (pid_t)nr_all + 1;
	p->start = start;
	p->read = p->visible = true;
	p->weak = strstr(key, "/session/");
	snprintf(p->key, sizeof(p->key), "%s", key);
	list_append(&jobs->processes, &p->link);
	all[nr_all++] = p;
	return p;
}

static void ends(struct process *p)
{
	LOCK_SCOPE(&jobs->lock);
	p->gone = true;
}

static struct epochs *a_node(const struct coord_ops *ops, const char *node, const char *host)
{
	struct epochs *es;

	assert_int_equal(epochs_create(&es, &(struct epochs_options){ops, NULL, node, host}), 0);
	return es;
}

static int setup(void **state)
{
	struct error e;

	(void)state;
	memset(records, 0, sizeof(records));
	nr_records = nr_reads = nr_makes = nr_failing = nr_unseen = nr_all = 0;
	answers_get_lost = false;
	assert_int_equal(jobs_create(&jobs, ended, NULL, &e), 0);
	here = a_node(&memory_ops, "0123456789abcdef0123456789abcdef", "boot-here");
	there = a_node(&memory_ops, "ffffffffffffffffffffffffffffffff", "boot-there");
	alone = a_node(NULL, "00000000000000000000000000000000", "boot-here");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	epochs_destroy(here);
	epochs_destroy(there);
	epochs_destroy(alone);
	epochs_destroy(NULL);
	while (nr_all)
		process_put(all[--nr_all]);
	jobs_destroy(jobs);
	return 0;
}

static struct epoch of;

static uint64_t bound(struct epochs *es, struct process *p)
{
	assert_int_equal(epoch_bind(es, p, &me, &of), 0);
	return of.nr;
}

static int fails(struct epochs *es, struct process *p, uint64_t at, int err, const char *why)
{
	assert_int_equal(epoch_bind(es, p, &me, &of), 0);
	return epoch_fails(es, &of, p, &me, at, err, why);
}

static char why[EPOCH_WHY_MAX];

static int told(struct epochs *es, struct process *p)
{
	return epoch_tell(es, p, why, sizeof(why));
}

static int heard(struct epochs *es, uint64_t nr)
{
	of.nr = nr;
	return epoch_heard(es, &of, &me);
}

#define RUN "1000/slurm/run"

static void nodes_share_the_incarnations_of_a_job(void **state)
{
	struct process *a = a_process(RUN "/r0", 10), *b = a_process(RUN "/r0", 10);
	struct process *c = a_process(RUN "/r1", 50), *other = a_process("1000/slurm/x/r0", 10);

	(void)state;
	assert_int_equal(bound(here, a), 1);
	assert_string_equal(of.job, RUN);
	assert_int_equal(nr_records, 1);
	assert_int_equal(bound(there, b), 1);
	assert_int_equal(nr_records, 1);
	nr_reads = nr_makes = 0;
	assert_int_equal(bound(here, a), 1); /* once bound it costs nothing */
	assert_int_equal(nr_reads + nr_makes, 0);
	assert_int_equal(bound(here, other), 1);
	assert_int_equal(nr_records, 2);
	assert_int_equal(bound(there, c), 2);
	assert_int_equal(told(there, c), 0);
	/* A process of the former start is refused, on each node that has heard of the new one. */
	assert_int_equal(told(here, a), 0);
	assert_int_equal(told(there, b), -ESTALE);
	assert_int_equal(bound(there, b), 1);
	assert_int_equal(bound(here, a), 1);
	assert_int_equal(heard(here, 2), 0);
	assert_int_equal(told(here, a), -ESTALE);
	assert_int_equal(told(here, a), -ESTALE);
}

/* A process of a former start that comes late begins nothing, and its death ends nothing. */
static void a_straggler_is_of_no_epoch(void **state)
{
	struct process *old = a_process(RUN "/r0", 10), *new = a_process(RUN "/r1", 50);

	(void)state;
	assert_int_equal(bound(here, new), 1);
	assert_int_equal(bound(here, old), 0);
	assert_int_equal(told(here, old), -ESTALE);
	assert_int_equal(fails(here, old, 60, EIO, "killed"), 0);
	assert_int_equal(told(here, new), 0);
	assert_int_equal(nr_records, 1);
	of.nr = 0;
	snprintf(of.job, sizeof(of.job), "1000/slurm/never-seen");
	assert_int_equal(epoch_fails(there, &of, old, &me, 60, EIO, "killed"), 0);
	assert_int_equal(nr_records, 1);
}

static void each_process_of_a_failed_epoch_is_told_once(void **state)
{
	struct process *a = a_process(RUN "/r0", 10), *b = a_process(RUN "/r0", 10);
	struct process *dead = a_process(RUN "/r0", 10), *late = a_process(RUN "/r0", 11);

	(void)state;
	bound(here, a);
	bound(there, b);
	bound(there, dead);
	ends(dead);
	assert_int_equal(fails(there, dead, 40, EIO, "step-1: rank 2 was killed"), 0);
	assert_int_equal(nr_records, 2);
	assert_int_equal(told(there, b), -EIO);
	assert_string_equal(why, "step-1: rank 2 was killed");
	assert_int_equal(told(there, b), 0);
	assert_string_equal(why, "");
	assert_int_equal(bound(there, b), 2);
	/* The other node reads of what failed, or binds another process. */
	assert_int_equal(told(here, a), 0);
	assert_int_equal(bound(here, late), 1); /* its first call, and it was there before (E4g) */
	assert_int_equal(told(here, late), -EIO);
	assert_string_equal(why, "step-1: rank 2 was killed");
	assert_int_equal(told(here, a), -EIO);
	assert_int_equal(told(here, a) + told(here, late), 0);
	assert_int_equal(bound(here, a), 2);
	assert_int_equal(bound(here, late), 2);
}

/* Both nodes lose a process of one epoch: that is one failure. */
static void the_first_failure_makes_the_link(void **state)
{
	struct process *a = a_process(RUN "/r0", 10), *b = a_process(RUN "/r0", 10);
	struct process *left = a_process(RUN "/r0", 10), *next = a_process(RUN "/r0", 60);

	(void)state;
	bound(here, a);
	bound(here, left);
	bound(there, b);
	ends(a);
	ends(b);
	assert_int_equal(fails(here, a, 40, EIO, "first"), 0);
	assert_int_equal(fails(there, b, 50, EIO, "second"), 0);
	assert_int_equal(nr_records, 2);
	assert_int_equal(told(here, left), -EIO);
	assert_string_equal(why, "first");
	/* The second node noticed a failure, too: what was started there after it is new (E4e). */
	assert_int_equal(bound(there, next), 2);
	assert_int_equal(told(there, next), 0);
	assert_int_equal(told(here, left), 0);
}

static void a_record_of_unknown_outcome_is_settled_by_the_next_call(void **state)
{
	struct process *a = a_process(RUN "/r0", 10), *b = a_process(RUN "/r0", 10);

	(void)state;
	nr_failing = 1;
	assert_int_equal(epoch_bind(here, a, &me, &of), -EIO);
	assert_int_equal(bound(here, a), 1);
	bound(there, b);
	answers_get_lost = true;
	assert_int_equal(fails(here, a, 40, EIO, "full"), -EIO);
	assert_int_equal(nr_records, 2);
	answers_get_lost = false;
	assert_int_equal(fails(here, a, 40, EIO, "full"), 0);
	assert_int_equal(nr_records, 2);
	assert_int_equal(told(here, a), -EIO);
	/* What another node has made is not seen yet (L5). */
	assert_int_equal(bound(there, b), 1);
	nr_unseen = 1;
	assert_int_equal(heard(there, 2), -EAGAIN);
	assert_int_equal(heard(there, 2), 0);
	assert_int_equal(told(there, b), -EIO);
}

/* Its end is found without reading all of it. */
static void a_long_chain_is_found_quickly(void **state)
{
	struct process *a = a_process(RUN "/r0", 10), *b = a_process(RUN "/r0", 10);
	unsigned i;

	(void)state;
	for (i = 0; i < 40; i++) {
		bound(here, a);
		assert_int_equal(fails(here, a, 20 + i, EIO, "full"), 0);
		assert_int_equal(told(here, a), -EIO);
	}
	assert_int_equal(nr_records, 41);
	nr_reads = 0;
	assert_int_equal(bound(there, b), 40);
	assert_in_range(nr_reads, 1, 13);
	assert_int_equal(told(there, b), -EIO);
	assert_int_equal(bound(there, b), 41);
}

static void a_session_is_of_its_host_alone(void **state)
{
	struct process *a = a_process("1000/session/9@boot", 10);
	struct process *b = a_process("1000/session/9@boot", 10);

	(void)state;
	assert_int_equal(bound(here, a), 1);
	assert_int_equal(bound(here, b), 1);
	assert_true(of.local);
	assert_int_equal(fails(here, a, 40, ENOSPC, "x.pt: full"), 0);
	assert_int_equal(told(here, b), 0);
	assert_int_equal(told(here, a), -ENOSPC);
	assert_string_equal(why, "x.pt: full");
	assert_int_equal(told(here, a), 0);
	assert_int_equal(bound(here, a), 1);
	assert_int_equal(heard(here, 1), 0);
	assert_int_equal(nr_records + nr_reads, 0);
}

static void a_node_that_is_alone_needs_no_records(void **state)
{
	struct process *a = a_process(RUN "/r0", 10), *b = a_process(RUN "/r1", 50);

	(void)state;
	assert_int_equal(bound(alone, a), 1);
	assert_int_equal(fails(alone, a, 40, EIO, "full"), 0);
	assert_int_equal(told(alone, a), -EIO);
	assert_int_equal(bound(alone, a), 2);
	assert_int_equal(bound(alone, b), 3);
	assert_int_equal(told(alone, a), -ESTALE);
	assert_int_equal(nr_records + nr_reads, 0);
}

/* A process that cannot be told from others is not bound; one that is not bound has nothing to hear. */
static void an_unknown_process_is_not_bound(void **state)
{
	struct process *p = a_process(RUN "/r0", 10);

	(void)state;
	p->visible = false;
	assert_int_equal(epoch_bind(here, p, &me, &of), -ENODATA);
	p->visible = true;
	p->read = false;
	assert_int_equal(epoch_bind(here, p, &me, &of), -ENODATA);
	assert_int_equal(told(here, p), 0);
	assert_int_equal(nr_records, 0);
}

/* More jobs and processes than are kept; those that live are. */
static void only_what_lives_is_kept(void **state)
{
	struct process *a = a_process(RUN "/r0", 10), *p;
	char key[64];
	unsigned i;

	(void)state;
	bound(alone, a);
	for (i = 0; i < 3 * EPOCH_JOBS_KEPT; i++) {
		snprintf(key, sizeof(key), "1000/elastic/j%u/r0", i);
		p = a_process(key, 10);
		bound(alone, p);
		ends(p);
	}
	assert_int_equal(fails(alone, a, 40, EIO, "full"), 0);
	assert_int_equal(told(alone, a), -EIO);
	/* The last ones are kept for a while though nothing is left of them, the first ones are not. */
	assert_int_equal(fails(alone, p, 40, EIO, "full"), 0);
	snprintf(key, sizeof(key), "1000/elastic/j%u/r0", 3 * EPOCH_JOBS_KEPT - 1);
	p = a_process(key, 50);
	assert_int_equal(bound(alone, p), 2);
	assert_int_equal(told(alone, p), 0);
}

static void what_is_no_link_is_not_believed(void **state)
{
	static const char *const bad[] = {
		"",
		"{}",
		"[]",
		"{\"nr\":2}",
		"{\"nr\":3,\"first\":1,\"count\":\"\",\"host\":\"h\",\"at\":1,\"err\":5,\"why\":"
		"\"\"}",
		"{\"nr\":2,\"first\":0,\"count\":\"\",\"host\":\"h\",\"at\":1,\"err\":5,\"why\":"
		"\"\"}",
		"{\"nr\":2,\"first\":3,\"count\":\"\",\"host\":\"h\",\"at\":1,\"err\":5,\"why\":"
		"\"\"}",
		"{\"nr\":2,\"first\":1,\"count\":\"x\",\"host\":\"h\",\"at\":1,\"err\":5,\"why\":"
		"\"\"}",
		"{\"nr\":2,\"first\":1,\"count\":\"\",\"host\":7,\"at\":1,\"err\":5,\"why\":\"\"}",
		"{\"nr\":2,\"first\":1,\"count\":\"\",\"host\":\"h\",\"at\":-1,\"err\":5,\"why\":"
		"\"\"}",
		"{\"nr\":2,\"first\":1,\"count\":\"\",\"host\":\"h\",\"at\":1,\"err\":0,\"why\":"
		"\"\"}",
		"{\"nr\":2,\"first\":2,\"count\":\"\",\"host\":\"h\",\"at\":1,\"err\":5,\"why\":"
		"\"\"}",
		"{\"nr\":2,\"first\":1,\"count\":\"\",\"host\":\"h\",\"at\":1,\"err\":9999,\"why\":"
		"\"\"}",
		"{\"nr\":2,\"first\":1,\"count\":\"1111111111111111111111111\",\"host\":\"h\","
		"\"at\":1,"
		"\"err\":5,\"why\":\"\"}",
	};
	struct process *p = a_process(RUN "/r0", 10);
	struct epoch_link link = {
		.nr = 2, .first = 1, .count = "0.3", .host = "h", .at = 7, .err = EIO, .why = "x"};
	struct epoch_link back;
	char *text;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		if (epoch_link_read(bad[i], strlen(bad[i]), 2, &back) != -EPERM)
			fail_msg("taken: %s", bad[i]);
	assert_int_equal(epoch_link_write(&link, "n", &text), 0);
	assert_int_equal(epoch_link_read(text, strlen(text), 2, &back), 0);
	assert_memory_equal(&link, &back, sizeof(link));
	assert_int_equal(epoch_link_read(text, strlen(text), 3, &back), -EPERM);
	free(text);
	/* One that is there as a record makes nothing worse: the process is not bound. */
	bound(here, p);
	snprintf(records[0].text, sizeof(records[0].text), "{}");
	p = a_process(RUN "/r0", 10);
	assert_int_equal(epoch_bind(there, p, &me, &of), -EPERM);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(nodes_share_the_incarnations_of_a_job),
		T(a_straggler_is_of_no_epoch),
		T(each_process_of_a_failed_epoch_is_told_once),
		T(the_first_failure_makes_the_link),
		T(a_record_of_unknown_outcome_is_settled_by_the_next_call),
		T(a_long_chain_is_found_quickly),
		T(a_session_is_of_its_host_alone),
		T(a_node_that_is_alone_needs_no_records),
		T(an_unknown_process_is_not_bound),
		T(only_what_lives_is_kept),
		T(what_is_no_link_is_not_believed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
