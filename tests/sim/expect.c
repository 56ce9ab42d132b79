/* SPDX-License-Identifier: MIT */
#include "tests/sim/expect.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/commit/report.h"
#include "engine/save/units.h"
#include "tests/sim/check.h"
#include "tests/sim/eye.h"
#include "tests/sim/ranks.h"
#include "tests/sim/sched.h"
#include "tests/sim/service.h"
#include "tests/sim/story.h"
#include "tests/sim/versions.h"
#include "tests/sim/world.h"

#define WHEN_NS (150 * NSEC_PER_SEC)
#define CALM_NS (2 * NSEC_PER_SEC)
#define POLL_NS (50 * NSEC_PER_MSEC)
#define LOOKS	8

static bool unmounted[NODES_MAX + 1];

void note_unmounted(unsigned n)
{
	unmounted[n] = true;
}

/* --- to wait --- */

struct condition {
	bool (*holds)(const struct condition *c);
	unsigned node, nr;
	int rank; /* -1: all */
	char unit[64], text[80];
};

/* Looks at some moments of each instant; the instants are close at first, and then 50 ms apart. */
static bool await(const struct condition *c, uint64_t ns)
{
	uint64_t until = sched_now() + ns, pause = NSEC_PER_MSEC;

	while (!c->holds(c)) {
		uint64_t looks = sched_draw(LOOKS);

		while (looks--) {
			sched_yield_now();
			if (c->holds(c))
				return true;
		}
		if (sched_now() >= until)
			return false;
		sched_sleep(pause);
		pause = 2 * pause < POLL_NS ? 2 * pause : POLL_NS;
	}
	return true;
}

/* --- what a node knows --- */

/* As `ckptfs status` tells it on node @n; NULL: nothing, or the node does not answer. */
static json_t *describe(unsigned n, const char *unit)
{
	struct proc who = {.m = world_at(n)};
	json_t *o;

	if (!who.m || sched_paused(n) || call_describe(&who, unit, &o))
		return NULL;
	return o;
}

static bool is_in_state(unsigned n, const char *unit, const char *state)
{
	json_t *o = describe(n, unit);
	bool is = !strcmp(json_get_text(o, "state", ""), state);

	json_decref(o);
	return is;
}

static bool has_failed(const struct condition *c)
{
	return is_in_state(c->node, c->unit, "failed");
}

static bool has_voted(const struct condition *c)
{
	json_t *o = describe(c->node, c->unit);
	bool has = !strcmp(json_get_text(json_object_get(o, "shared"), "state", ""), "voted");

	json_decref(o);
	return has || check_committed(c->unit);
}

static bool knows_the_end(const struct condition *c)
{
	json_t *o = describe(c->node, c->unit);
	const char *state = json_get_text(json_object_get(o, "shared"), "state", "open");
	bool knows = strcmp(state, "open") != 0 && strcmp(state, "joining") != 0;

	json_decref(o);
	return knows || check_committed(c->unit);
}

/* True if it knows of @nr others, and that each has closed what it had open. */
static bool knows_closed(const struct condition *c)
{
	json_t *o = describe(c->node, c->unit), *other;
	json_t *others = json_object_get(json_object_get(o, "shared"), "others");
	bool closed = json_array_size(others) >= c->nr;
	size_t i;

	json_array_foreach (others, i, other)
		closed &= !strcmp(json_get_text(other, "state", ""), "closed");
	json_decref(o);
	return closed;
}

static bool waits_for(const struct condition *c)
{
	json_t *o = describe(c->node, c->unit);
	bool waits = strstr(json_get_text(o, "waits_for", ""), c->text);

	json_decref(o);
	return waits;
}

static bool waits_or_failed(const struct condition *c)
{
	return waits_for(c) || has_failed(c);
}

/* --- what is there --- */

static bool is_committed(const struct condition *c)
{
	return check_committed(c->unit);
}

static void find_decision(void *found, const char *gen, const char *kind, const char *text)
{
	(void)text;
	if (!strcmp(kind, "decision") && !strcmp(gen, ((char **)found)[0]))
		((char **)found)[1] = ((char **)found)[0];
}

/* True if there is a decision on the checkpoint that node @c->node has at @c->unit. */
static bool is_decided(const struct condition *c)
{
	json_t *o = describe(c->node, c->unit);
	char gen[64], path[128], *found[2] = {gen, NULL};

	snprintf(gen, sizeof(gen), "%s", json_get_text(o, "generation", "-"));
	json_decref(o);
	snprintf(path, sizeof(path), ".ckptfs/txn/%u/%s.decision", (unsigned)getuid(), gen);
	service_each(find_decision, found);
	return found[1] || eye_ino(path) || check_committed(c->unit);
}

static bool is_mounted(const struct condition *c)
{
	return world_at(c->node);
}

static bool is_refused(const struct condition *c)
{
	return version_is_refused(c->node);
}

static bool is_unmounted(const struct condition *c)
{
	return unmounted[c->node];
}

static bool is_done(const struct condition *c)
{
	if (!*c->text)
		return ranks_all_idle();
	return rank_is_idle(*c->text, c->rank);
}

bool await_idle(uint64_t ns)
{
	return await(&(struct condition){.holds = is_done}, ns);
}

static bool nothing_pends(void)
{
	json_t *pending;
	struct engine_pending p;
	unsigned n;
	bool any;

	for (n = 1; n <= world_nodes(); n++) {
		if (!world_at(n))
			continue;
		if (sched_paused(n))
			return false;
		engine_pending(&world_at(n)->en, &p);
		if (p.units.open || p.units.closed || p.dirty_bytes || !world_at(n))
			return false;
		pending = units_to_json(world_at(n)->en.units, 0, true);
		any = json_array_size(pending);
		json_decref(pending);
		if (any)
			return false;
	}
	return true;
}

/* ... for a while: between two steps of a commit nothing may look pending. */
static bool is_settled(const struct condition *unused)
{
	static uint64_t since;

	(void)unused;
	if (!ranks_all_idle() || !nothing_pends())
		since = 0;
	else if (!since)
		since = sched_now();
	return since && sched_now() - since >= CALM_NS;
}

bool await_settled(uint64_t ns)
{
	return await(&(struct condition){.holds = is_settled}, ns);
}

/* --- lines --- */

/* A line is like @form if all of it was read. */
#define IS(line, form, nr, ...) \
	(end = 0, sscanf(line, form "%n", __VA_ARGS__, &end) == (nr) && end && !(line)[end])

static bool no_node(unsigned n)
{
	return !n || n > world_nodes();
}

/* What it waits for must come. NULL: no such line. */
static bool (*node_condition(const char *line, struct condition *c))(const struct condition *)
{
	int end;

	if (IS(line, "when %63s has failed on node %u", 2, c->unit, &c->node))
		return has_failed;
	if (IS(line, "when node %u has voted on %63s", 2, &c->node, c->unit))
		return has_voted;
	if (IS(line, "when node %u knows of the end of %63s", 2, &c->node, c->unit))
		return knows_the_end;
	if (IS(line, "when node %u knows that %63s is decided", 2, &c->node, c->unit))
		return is_decided;
	if (IS(line, "when node %u knows that %u others have closed %63s", 3, &c->node, &c->nr,
	       c->unit))
		return knows_closed;
	if (IS(line, "when node %u waits for \"%79[^\"]\" with %63s", 3, &c->node, c->text,
	       c->unit))
		return waits_or_failed;
	if (IS(line, "when node %u is mounted", 1, &c->node))
		return is_mounted;
	if (IS(line, "when node %u is refused", 1, &c->node))
		return is_refused;
	if (IS(line, "when node %u is unmounted", 1, &c->node))
		return is_unmounted;
	return NULL;
}

bool when_line(const char *line)
{
	struct condition c = {.rank = -1};
	int end;

	if (!strcmp(line, "when all is settled")) {
		await_settled(WHEN_NS);
	} else if (!strcmp(line, "when all is done")) {
		await_idle(WHEN_NS);
	} else if (IS(line, "when %1[A-Z]%d is done", 2, c.text, &c.rank) ||
		   IS(line, "when %1[A-Z] is done", 1, c.text)) {
		if (!job_is_there(*c.text) || c.rank >= (int)job_world(*c.text))
			return false;
		c.holds = is_done;
		await(&c, WHEN_NS);
	} else {
		c.holds = IS(line, "when %63s is committed", 1, c.unit) ? is_committed
									: node_condition(line, &c);
		if (!c.holds || (c.holds != is_committed && no_node(c.node)))
			return false;
		if (!await(&c, WHEN_NS))
			wrong("expected: %s", line + strlen("when "));
	}
	return true;
}

static const struct {
	const char *name;
	int err;
} errors[] = {{"EIO", EIO},	  {"EBUSY", EBUSY},	    {"EEXIST", EEXIST},
	      {"ESTALE", ESTALE}, {"ETIMEDOUT", ETIMEDOUT}, {"ENOENT", ENOENT},
	      {"no error", 0}};

static bool expect_error(char job, unsigned rank, const char *name)
{
	size_t i;
	int got = -rank_error(job, (int)rank);

	for (i = 0; i < ARRAY_SIZE(errors); i++)
		if (!strcmp(errors[i].name, name)) {
			if (got != errors[i].err)
				wrong("expected: %c%u got %s, not '%s'", job, rank, name,
				      got ? strerror(got) : "no error");
			return true;
		}
	return false;
}

/* What is expected of the rank @rank of @job (-1: of all). False: nothing that is known. */
static bool rank_expected(char job, int rank, const char *what)
{
	unsigned i;

	if (!job_is_there(job) || rank >= (int)job_world(job))
		return false;
	for (i = rank < 0 ? 0 : (unsigned)rank; i < job_world(job); i++) {
		if (!strcmp(what, "was told")) {
			if (!rank_was_told(job, (int)i))
				wrong("expected: %c%u was told of the failure", job, i);
		} else if (!strcmp(what, "was not told")) {
			if (rank_was_told(job, (int)i))
				wrong("expected: %c%u was not told of a failure", job, i);
		} else if (!strcmp(what, "lives")) {
			if (rank_is_gone(job, (int)i))
				wrong("expected: %c%u lives", job, i);
		} else if (strncmp(what, "got ", 4) != 0 || !expect_error(job, i, what + 4)) {
			return false;
		}
		if (rank >= 0)
			break;
	}
	return true;
}

static bool rank_line(const char *line)
{
	int rank = -1, at = 0;
	char job = *line;

	if (job < 'A' || job > 'Z')
		return false;
	if (sscanf(line + 1, "%d%n", &rank, &at) != 1)
		at = 0;
	return line[1 + at] == ' ' && rank_expected(job, rank, line + 2 + at);
}

static void expect_text(const char *path, const char *text, const char *verb)
{
	char have[256];
	ssize_t n = eye_read(path, have, sizeof(have));

	if (strcmp(have, text) != 0)
		wrong("expected: %s %s %s, not '%s'%s%s", path, verb, text, have, n < 0 ? ": " : "",
		      n < 0 ? strerror((int)-n) : "");
}

/* Of the backing. */
static bool backing_line(const char *line)
{
	char path[64], text[80];
	int end;

	if (IS(line, "%63s is committed", 1, path)) {
		if (!check_committed(path))
			wrong("expected: %s", line);
	} else if (IS(line, "%63s is not there", 1, path)) {
		if (check_committed(path) || eye_ino(path))
			wrong("expected: %s", line);
	} else if (IS(line, "%63s is there", 1, path)) {
		if (!eye_ino(path))
			wrong("expected: %s", line);
	} else if (IS(line, "%63s names %63s", 2, path, text)) {
		expect_text(path, text, "names");
	} else if (IS(line, "%63s holds %79[^\n]", 2, path, text)) {
		expect_text(path, text, "holds");
	} else if (!strcmp(line, "nothing is staged")) {
		if (eye_any_staged())
			wrong("expected: %s", line);
	} else {
		return false;
	}
	return true;
}

/* Of a node. */
static bool node_line(const char *line)
{
	struct condition c = {0};
	bool fine;
	int end;

	if (IS(line, "node %u says \"%79[^\"]\"", 2, &c.node, c.text))
		fine = daemon_has_told(c.node, c.text);
	else if (IS(line, "node %u does not say \"%79[^\"]\"", 2, &c.node, c.text))
		fine = !daemon_has_told(c.node, c.text);
	else if (IS(line, "node %u waits for \"%79[^\"]\" with %63s", 3, &c.node, c.text, c.unit))
		fine = waits_for(&c);
	else if (IS(line, "%63s has failed on node %u", 2, c.unit, &c.node))
		fine = has_failed(&c);
	else
		return false;
	if (no_node(c.node))
		return false;
	if (!fine)
		wrong("expected: %s", line);
	return true;
}

bool expect_line(const char *line)
{
	if (strncmp(line, "expect ", 7) != 0)
		return false;
	line += 7;
	return node_line(line) || backing_line(line) || rank_line(line);
}
