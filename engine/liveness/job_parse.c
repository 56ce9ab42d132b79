/* SPDX-License-Identifier: MIT */
/*
 * Rank, world and job from the environment that launchers set (ckptfs-rules(5), RANKS AND JOBS;
 * ckptfs-coordination(7), ONE JOB ON SEVERAL NODES). Any program may put anything there. A value
 * counts if the launcher could have written it; otherwise the variable is absent. If a part of a
 * job's key is malformed, the next kind of key is tried.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "engine/base/cleanup.h"
#include "engine/liveness/job.h"

#define COUNT_MAX	UINT32_MAX
#define SLURM_STEPS_MAX 0xfffffff0u /* larger ones: the batch script, an interactive shell, ... */

enum variable {
	RANK,
	WORLD_SIZE,
	OMPI_COMM_WORLD_RANK,
	OMPI_COMM_WORLD_SIZE,
	PMI_RANK,
	PMI_SIZE,
	PMIX_RANK,
	PMIX_SIZE,
	SLURM_PROCID,
	SLURM_NTASKS,
	SLURM_JOB_ID,
	SLURM_STEP_ID,
	SLURM_RESTART_COUNT,
	TORCHELASTIC_RUN_ID,
	TORCHELASTIC_RESTART_COUNT,
	MASTER_ADDR,
	MASTER_PORT,
	LOCAL_WORLD_SIZE,
	OMPI_COMM_WORLD_LOCAL_SIZE,
	SLURM_STEP_NUM_NODES,
	NR_VARIABLES
};

#define NAME(v) [v] = #v
static const char *const names[] = {
	NAME(RANK),
	NAME(WORLD_SIZE),
	NAME(OMPI_COMM_WORLD_RANK),
	NAME(OMPI_COMM_WORLD_SIZE),
	NAME(PMI_RANK),
	NAME(PMI_SIZE),
	NAME(PMIX_RANK),
	NAME(PMIX_SIZE),
	NAME(SLURM_PROCID),
	NAME(SLURM_NTASKS),
	NAME(SLURM_JOB_ID),
	NAME(SLURM_STEP_ID),
	NAME(SLURM_RESTART_COUNT),
	NAME(TORCHELASTIC_RUN_ID),
	NAME(TORCHELASTIC_RESTART_COUNT),
	NAME(MASTER_ADDR),
	NAME(MASTER_PORT),
	NAME(LOCAL_WORLD_SIZE),
	NAME(OMPI_COMM_WORLD_LOCAL_SIZE),
	NAME(SLURM_STEP_NUM_NODES),
};
_Static_assert(ARRAY_SIZE(names) == NR_VARIABLES, "each has its name");

struct value {
	const char *text; /* NULL: absent. No NUL behind it */
	size_t len;
};

/* The first of two variables of one name counts, as for getenv. */
static void find_values(const char *env, size_t len, struct value values[NR_VARIABLES])
{
	const char *end = env + len, *next;

	for (; env < end; env = next + 1) {
		const char *equals;
		size_t i, n;

		next = memchr(env, '\0', (size_t)(end - env));
		if (!next) /* cut off */
			return;
		equals = memchr(env, '=', (size_t)(next - env));
		n = equals ? (size_t)(equals - env) : 0;
		for (i = 0; n && i < NR_VARIABLES; i++)
			if (strlen(names[i]) == n && !memcmp(names[i], env, n) && !values[i].text)
				values[i] = (struct value){equals + 1, (size_t)(next - equals - 1)};
	}
}

static bool is(const struct value *v, const char *text)
{
	return v->text && v->len == strlen(text) && !strncasecmp(v->text, text, v->len);
}

static bool begins(const struct value *v, const char *text)
{
	return v->text && v->len >= strlen(text) && !strncasecmp(v->text, text, strlen(text));
}

/* True if @v is a number in [@min, @max]. */
static bool number(const struct value *v, uint64_t min, uint64_t max, uint64_t *out)
{
	uint64_t n = 0;
	size_t i;

	if (!v->text || !v->len || v->len > 10)
		return false;
	for (i = 0; i < v->len; i++) {
		if (v->text[i] < '0' || v->text[i] > '9')
			return false;
		n = n * 10 + (uint64_t)(v->text[i] - '0');
	}
	*out = n;
	return n >= min && n <= max;
}

/* The same for a variable that may be absent: then the number is 0. */
static bool count(const struct value *v, uint64_t *out)
{
	*out = 0;
	return !v->text || number(v, 0, COUNT_MAX, out);
}

/* --- rank and world --- */

static bool in_slurm_step(const struct value *values)
{
	uint64_t step;

	return number(&values[SLURM_STEP_ID], 0, SLURM_STEPS_MAX - 1, &step);
}

/* Rank and size, from two variables that belong together. */
static bool take_ranks(struct process *p, const struct value *rank, const struct value *size)
{
	uint64_t r, w;

	if (!number(size, 1, RANKS_MAX, &w) || !number(rank, 0, w - 1, &r))
		return false;
	p->rank = (int)r;
	p->world = (int)w;
	return true;
}

static void find_rank(struct process *p, const struct value *values)
{
	static const enum variable pairs[][2] = {
		{RANK, WORLD_SIZE},
		{OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE},
		{PMI_RANK, PMI_SIZE},
		{PMIX_RANK, PMIX_SIZE},
	};
	uint64_t n;
	size_t i;

	p->rank = -1;
	p->world = 0;
	for (i = 0; i < ARRAY_SIZE(pairs); i++)
		if (take_ranks(p, &values[pairs[i][0]], &values[pairs[i][1]]))
			return;
	/* Every program of a batch script has SLURM_PROCID, and so has a one-launcher step. */
	if (in_slurm_step(values) && number(&values[SLURM_NTASKS], 2, RANKS_MAX, &n) &&
	    take_ranks(p, &values[SLURM_PROCID], &values[SLURM_NTASKS]))
		return;
	/* PMIx gives no size. A bare RANK may be any program's variable. */
	if (!values[PMIX_SIZE].text && number(&values[PMIX_RANK], 0, RANKS_MAX - 1, &n))
		p->rank = (int)n;
}

/* --- the job --- */

/*
 * The restart count of torchrun is left out. torchrun counts on each node separately, and does not
 * count restarts caused by another node: of one start some ranks have 1 and others 0 ("membership
 * changes do not count as retries", torch/distributed/elastic/agent/server/api.py).
 */
static bool slurm_key(char *key, uid_t uid, const struct value *values)
{
	const struct value *step = &values[SLURM_STEP_ID];
	uint64_t job, nr, restarts;
	char name[16] = "batch";

	if (!number(&values[SLURM_JOB_ID], 1, COUNT_MAX, &job) || !count(step, &nr) ||
	    !count(&values[SLURM_RESTART_COUNT], &restarts))
		return false;
	if (in_slurm_step(values))
		snprintf(name, sizeof(name), "%u", (unsigned)nr);
	job_key_slurm(key, uid, (uint32_t)job, name, (uint32_t)restarts,
		      values[TORCHELASTIC_RESTART_COUNT].text);
	return true;
}

static bool elastic_key(char *key, uid_t uid, const struct value *values)
{
	const struct value *run = &values[TORCHELASTIC_RUN_ID];

	return run->text && !is(run, "none") && job_key_elastic(key, uid, run->text, run->len);
}

static bool is_loopback(const struct value *host)
{
	return is(host, "localhost") || begins(host, "localhost.") || begins(host, "127.") ||
	       is(host, "::1") || is(host, "[::1]") || begins(host, "::ffff:127.") ||
	       is(host, "0.0.0.0") || is(host, "ip6-localhost") || is(host, "ip6-loopback");
}

static bool master_key(char *key, uid_t uid, const struct value *values, const char *boot_id)
{
	const struct value *addr = &values[MASTER_ADDR];
	uint64_t port;

	return addr->text && number(&values[MASTER_PORT], 1, 65535, &port) &&
	       job_key_master(key, uid, addr->text, addr->len, (uint16_t)port,
			      is_loopback(addr) ? boot_id : NULL);
}

/* The lesser of @nodes and the number of nodes for p->world ranks with @on_one ranks each. */
static int at_most(int nodes, const struct process *p, const struct value *on_one)
{
	uint64_t n;
	int needed;

	if (!number(on_one, 1, RANKS_MAX, &n))
		return nodes;
	needed = (p->world + (int)n - 1) / (int)n;
	return needed < nodes ? needed : nodes;
}

/* The most nodes on which the ranks may be. Where no variable tells, each has its own node. */
static int find_nodes(const struct process *p, const struct value *values)
{
	int nodes = p->world;
	uint64_t n;

	nodes = at_most(nodes, p, &values[LOCAL_WORLD_SIZE]);
	nodes = at_most(nodes, p, &values[OMPI_COMM_WORLD_LOCAL_SIZE]);
	if (in_slurm_step(values) && number(&values[SLURM_STEP_NUM_NODES], 1, RANKS_MAX, &n) &&
	    (int)n < nodes)
		nodes = (int)n;
	return nodes;
}

void job_parse(const char *env, size_t len, uid_t uid, pid_t session, const char *boot_id,
	       struct process *p)
{
	struct value values[NR_VARIABLES] = {0};

	find_values(env, len, values);
	find_rank(p, values);
	p->weak = !slurm_key(p->key, uid, values) && !elastic_key(p->key, uid, values) &&
		  !master_key(p->key, uid, values, boot_id);
	p->spans = p->rank < 0 || p->weak || job_key_is_of_host(p->key) ? 0 : find_nodes(p, values);
	if (p->spans <= 1)
		p->spans = 0;
	if (p->weak)
		job_key_session(p->key, uid, session, boot_id);
}
