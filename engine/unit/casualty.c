/* SPDX-License-Identifier: MIT */
#include "engine/unit/casualty.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/liveness/job.h"

/* @at_ns, which is past, as process->start. */
static uint64_t ticks_at(uint64_t at_ns)
{
	uint64_t tick = NSEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK);
	uint64_t now = clock_boot_ns(), ago = clock_mono_ns() - at_ns;

	return (now > ago ? now - ago : 0) / tick;
}

bool casualty_concerns(uint64_t at_ns, const struct process *p)
{
	return p->start < ticks_at(at_ns);
}

static void clear(struct casualty *c)
{
	unsigned i;

	for (i = 0; i < TOLD_KEPT; i++)
		process_put(c->told[i]);
	process_put(c->job);
	free(c->path);
	*c = (struct casualty){.job = NULL};
}

void casualty_add(struct casualties *cs, struct process *p, const char *path, int err,
		  uint64_t at_ns)
{
	struct casualty *c = &cs->ring[cs->nr++ % CASUALTIES_KEPT];

	clear(c);
	c->job = process_get(p);
	c->path = strdup(path);
	c->err = err;
	c->ticks = ticks_at(at_ns);
}

static bool was_told(const struct casualty *c, const struct process *p)
{
	unsigned i;

	for (i = 0; i < c->nr_told && i < TOLD_KEPT; i++)
		if (c->told[i] == p)
			return true;
	return false;
}

/* Who is not known might be of any job, and a session is more than one. */
static bool has_job(const struct process *p)
{
	return p->read && !p->weak;
}

static bool concerns(const struct casualty *c, const struct process *p)
{
	if (!c->job || c->job == p)
		return c->job;
	return has_job(p) && has_job(c->job) && job_same(c->job, p) && p->start < c->ticks;
}

int casualty_tell(struct casualties *cs, struct process *p, const struct casualty **of)
{
	unsigned i;
	int err = 0;

	*of = NULL;
	for (i = 0; i < cs->nr && i < CASUALTIES_KEPT; i++) {
		struct casualty *c = &cs->ring[i];
		struct process **slot = &c->told[c->nr_told % TOLD_KEPT];

		if (!concerns(c, p) || was_told(c, p))
			continue;
		process_put(*slot);
		*slot = process_get(p);
		c->nr_told++;
		if (!err)
			*of = c;
		err = err ? err : c->err;
	}
	return err;
}

void casualties_finish(struct casualties *cs)
{
	unsigned i;

	for (i = 0; i < CASUALTIES_KEPT; i++)
		clear(&cs->ring[i]);
}
