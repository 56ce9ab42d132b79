/* SPDX-License-Identifier: MIT */
#include "tests/sim/gen.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "tests/sim/save.h"

#define EVENTS_MAX  24
#define PERSONS_MAX 6

static struct {
	struct plan *plan;
	uint64_t random;
	unsigned nodes, world[2], jobs, persons;
	unsigned faults; /* of ten events; often none */
	bool service;
	bool next; /* job B is the next start of A, whose ranks are still there */
	const struct shape *shape[2];
	unsigned step[2];    /* the last that was begun */
	unsigned pointed[2]; /* the last that a pointer was written to; 0: none */
} g;

static uint64_t below(uint64_t n)
{
	g.random ^= g.random >> 12;
	g.random ^= g.random << 25;
	g.random ^= g.random >> 27;
	return (g.random * 0x2545F4914F6CDD1Dull >> 16) % n;
}

static void add(const char *fmt, ...)
{
	va_list ap;

	if (g.plan->nr == PLAN_LINES)
		return;
	va_start(ap, fmt);
	vsnprintf(g.plan->lines[g.plan->nr++], LINE_LEN, fmt, ap);
	va_end(ap);
}

static void pass(void)
{
	static const unsigned most[] = {1, 10, 100, 1000, 3000, 8000};

	if (below(3))
		add("after %u ms", 1 + (unsigned)below(most[below(ARRAY_SIZE(most))]));
}

static const char *unit(unsigned job, unsigned step)
{
	static char text[2][32];
	static unsigned at;

	at = !at;
	snprintf(text[at], sizeof(text[at]), g.shape[job]->unit, step);
	return text[at];
}

static char name_of(unsigned job)
{
	return (char)('A' + job);
}

/* On @nodes, as job A. */
static void begin_next(unsigned world, const char *shape, const char *nodes)
{
	g.shape[1] = g.shape[0];
	g.world[1] = world;
	add("job B of %u ranks, %s, on nodes%s, the next start of A", world, shape, nodes);
}

static void begin_job(unsigned job)
{
	static const char *const shapes[] = {"dcp", "dcp", "accelerate", "deepspeed", "trainer"};
	char nodes[64] = "";
	unsigned i, world = 1 + (unsigned)below(4);
	const char *shape = shapes[below(ARRAY_SIZE(shapes))];

	/*
	 * Two jobs in one directory, but not of one framework: each would resume from the other's.
	 */
	if (job && shape_of(shape) == g.shape[0])
		shape = g.shape[0] == shape_of("dcp") ? "accelerate" : "dcp";
	g.shape[job] = shape_of(shape);
	g.world[job] = world;
	for (i = 0; i < world; i++)
		snprintf(nodes + strlen(nodes), sizeof(nodes) - strlen(nodes), " %u",
			 below(4) ? i % g.nodes + 1 : 1 + (unsigned)below(g.nodes));
	add("job %c of %u ranks, %s, on nodes%s%s", name_of(job), world, shape, nodes,
	    !g.next && below(2) ? ", without a restart count" : "");
	if (g.next)
		begin_next(world, shape, nodes);
}

/* --- what a job does --- */

static void next_save(unsigned job)
{
	g.step[job] += 1 + (unsigned)below(2);
	add("%c saves %s", name_of(job), unit(job, g.step[job]));
	if (!below(3))
		add("%c%u waits for %s", name_of(job), (unsigned)below(g.world[job]),
		    unit(job, g.step[job]));
	if (!below(3) && !g.shape[job]->latest) {
		add("%c0 points to %s", name_of(job), unit(job, g.step[job]));
		g.pointed[job] = g.step[job];
	}
	/* What is removed while a pointer gets its name may be named by that: tests/README.md. */
	if (!below(3) && g.step[job] > 2 && g.pointed[job] != g.step[job] - 2) {
		if (below(2))
			add("%c0 waits for %s", name_of(job), unit(job, g.step[job] - 2));
		add("%c0 removes %s", name_of(job), unit(job, g.step[job] - 2));
	}
}

/* The end of a save is seen behind the parts of all ranks, or all of them are asked for. */
static bool waits_for_all(unsigned job)
{
	return g.shape[job]->barrier || !strcmp(g.shape[job]->name, "accelerate");
}

/* A save in single steps, with a death somewhere in it. */
static void torn_save(unsigned job)
{
	static const char *const ways[] = {"writes half of its part of", "begins its part of",
					   "writes its part of"};
	unsigned victim = (unsigned)below(g.world[job]), i;
	const char *u = unit(job, ++g.step[job]);
	/* What is closed early by an exception looks whole to a rule that waits for nobody. */
	const bool waits = waits_for_all(job);

	for (i = 0; i < g.world[job]; i++)
		add("%c%u %s %s", name_of(job), i,
		    i == victim ? ways[waits ? below(3) : 1 + below(2)] : ways[2], u);
	pass();
	add("%c%u is killed", name_of(job), victim);
	pass();
	if (victim && below(2))
		add("%c0 ends %s", name_of(job), u);
	pass();
}

static void restart(unsigned job)
{
	if (below(2))
		add("%c%u is killed", name_of(job), (unsigned)below(g.world[job]));
	/* What a former start that lives is saving is shown to the next. */
	if (g.next)
		add("A is killed");
	pass();
	if (!below(4) && !g.next) {
		add("%c is started again at once", name_of(job));
	} else {
		add("%c is started again", name_of(job));
		add("%c resumes", name_of(job));
	}
	/* It repeats what may not have been committed. */
	if (g.step[job] && below(2))
		g.step[job]--;
}

/* All stops, or a node does, somewhere between the end of a save and its commit. */
static void cut_save(unsigned job)
{
	unsigned n = 1 + (unsigned)below(g.nodes);

	add("%c saves %s", name_of(job), unit(job, ++g.step[job]));
	if (below(2))
		add("when %c is done", name_of(job));
	else
		add("after %u ms", 1 + (unsigned)below(60));
	switch (below(4)) {
	case 0:
		add("the power fails");
		add("all nodes mount");
		break;
	case 1:
		add("node %u stops for %u s", n, 1 + (unsigned)below(12));
		return;
	case 2:
		add("node %u is slow for %u s", n, 1 + (unsigned)below(12));
		return;
	default:
		add("node %u is lost", n);
		add("node %u mounts", n);
	}
	restart(job);
}

/*
 * A rank of the former start, which nobody has ended, writes to what the next start saves or is
 * about to save. What it writes to what is committed makes it anew, whoever committed that:
 * tests/sim/known.
 */
static void leftover_save(void)
{
	const char *u = unit(1, ++g.step[1]);
	unsigned rank = (unsigned)below(g.world[0]), i;
	bool first = below(2);

	if (g.plan->nr + 16 > PLAN_LINES)
		return; /* a save without its end */

	if (first) {
		add("A%u writes its part of %s, if it can", rank, u);
		add("when A is done");
	}
	pass();
	if (!waits_for_all(1)) {
		add("B saves %s", u);
		return;
	}
	for (i = 0; i < g.world[1]; i++)
		add("B%u writes its part of %s", i, u);
	add("when B is done");
	if (!first) {
		add("A%u writes its part of %s, if it can", rank, u);
		add("when A is done");
	}
	add("B0 ends %s", u);
}

static void job_event(unsigned job)
{
	if (g.next && !job) {
		leftover_save();
		return;
	}
	switch (below(g.faults ? 9 : 8)) {
	case 8:
		cut_save(job);
		break;
	case 0:
		torn_save(job);
		restart(job);
		break;
	case 1:
		restart(job);
		break;
	case 2:
		add("%c%u is killed", name_of(job), (unsigned)below(g.world[job]));
		break;
	default:
		next_save(job);
		if (!below(3))
			add("when %c is done", name_of(job));
	}
}

/* --- who asks --- */

/* A rank, between two things that it does; or a person, meanwhile. */
static void ask(void)
{
	unsigned job = (unsigned)below(g.jobs);
	char who = name_of(job);
	unsigned rank = (unsigned)below(g.world[job]);

	if (below(3)) {
		if (!g.persons || (!below(3) && g.persons < PERSONS_MAX))
			add("person %c on node %u", 'P' + (int)g.persons++,
			    1 + (unsigned)below(g.nodes));
		who = (char)('P' + below(g.persons));
		rank = 0;
	}
	add("%c%u asks for %s%s", who, rank, below(3) ? "latest" : "ls",
	    below(4) ? "" : " on the backing");
}

/* --- what happens to nodes --- */

static void node_event(void)
{
	unsigned n = 1 + (unsigned)below(g.nodes), s = 1 + (unsigned)below(12);

	switch (below(13)) {
	case 0:
		add("node %u is lost", n);
		pass();
		add("node %u mounts", n);
		break;
	case 12:
		add("the power fails");
		pass();
		add("all nodes mount");
		for (n = g.next; n < g.jobs; n++)
			restart(n);
		break;
	case 1:
		add("node %u unmounts", n);
		pass();
		add("node %u mounts", n);
		break;
	case 2:
	case 3:
		add("node %u stops for %u s", n, s);
		break;
	case 4:
		add("node %u's clock jumps by %d s", n, below(2) ? 3600 : -3600);
		break;
	case 5:
		add("node %u is cut off for %u s", n, s);
		break;
	case 6:
		add("node %u is slow for %u s", n, s);
		break;
	case 7:
		add("node %u gets ESTALE %u times", n, 1 + (unsigned)below(3));
		break;
	case 8:
		add("node %u gets EIO from a %s", n, below(2) ? "sync" : "rename that was made");
		break;
	case 9:
		add("node %u finds no room for %u s", n, s);
		break;
	case 10:
		if (g.service)
			add("the service is away for %u s", s);
		break;
	default:
		if (g.service)
			add(below(2) ? "the service loses %u answers"
				     : "the service has no room for %u s",
			    1 + (unsigned)below(4));
	}
}

/*
 * Its ranks go, and are back when it has mounted: with the new version, or not at all as long as
 * others have the old one.
 */
static void upgrade_node(unsigned n)
{
	if (below(3)) {
		add("node %u unmounts", n);
		pass();
	} else {
		add("node %u is lost", n);
	}
	add("node %u is upgraded", n);
	pass();
	add("node %u mounts", n);
}

/* A rolling upgrade: one node after the other, while the jobs go on as far as they can. */
static void upgrade_all(void)
{
	unsigned n, i;

	for (n = 1; n <= g.nodes; n++) {
		for (i = 0; i < g.jobs; i++)
			if (!below(3))
				add("%c exits", name_of(i)); /* as at a maintenance window */
		upgrade_node(n);
		pass();
		if (below(2))
			job_event((unsigned)below(g.jobs));
	}
	add("all nodes mount");
	for (i = g.next; i < g.jobs; i++) {
		restart(i);
		next_save(i);
	}
}

void generate(struct plan *p, unsigned long long seed)
{
	unsigned i, events, upgrade;

	memset(p, 0, sizeof(*p));
	memset(&g, 0, sizeof(g));
	g.plan = p;
	g.random = seed * 0x9E3779B97F4A7C15ull + 0x1234567;
	for (i = 0; i < 4; i++)
		below(2);
	g.nodes = 1 + (unsigned)below(4);
	g.service = below(2);
	g.jobs = below(4) ? 1 : 2;
	g.next = g.jobs == 2 && below(2);
	events = 2 + (unsigned)below(EVENTS_MAX / 2);
	g.faults = (unsigned)below(4) * (unsigned)below(3);
	upgrade = below(4) ? EVENTS_MAX : (unsigned)below(events);
	add("%u nodes", g.nodes);
	add("coordination by %s", g.service ? "a service" : "the backing");
	for (i = 0; i < (g.next ? 1 : g.jobs); i++)
		begin_job(i);
	for (i = 0; i < events; i++) {
		pass();
		if (i == upgrade)
			upgrade_all();
		else if (below(10) < g.faults)
			node_event();
		else
			job_event((unsigned)below(g.jobs));
		while (!below(3))
			ask();
	}
	if (below(2))
		add("when all is done");
}
