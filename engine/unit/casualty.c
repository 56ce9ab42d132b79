/* SPDX-License-Identifier: MIT */
#include "engine/unit/casualty.h"

#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/liveness/job.h"

static uint64_t ticks_now(void)
{
	long hz = sysconf(_SC_CLK_TCK);
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * (uint64_t)hz +
	       (uint64_t)t.tv_nsec / (NSEC_PER_SEC / (uint64_t)hz);
}

static void clear(struct casualty *c)
{
	unsigned i;

	for (i = 0; i < TOLD_KEPT; i++)
		process_put(c->told[i]);
	process_put(c->job);
	*c = (struct casualty){.job = NULL};
}

void casualty_add(struct casualties *cs, struct process *p)
{
	struct casualty *c = &cs->ring[cs->nr++ % CASUALTIES_KEPT];

	clear(c);
	c->job = process_get(p);
	c->ticks = ticks_now();
}

static bool was_told(const struct casualty *c, const struct process *p)
{
	unsigned i;

	for (i = 0; i < c->nr_told && i < TOLD_KEPT; i++)
		if (c->told[i] == p)
			return true;
	return false;
}

bool casualty_tell(struct casualties *cs, struct process *p)
{
	bool tell = false;
	unsigned i;

	for (i = 0; i < cs->nr && i < CASUALTIES_KEPT; i++) {
		struct casualty *c = &cs->ring[i];
		struct process **slot = &c->told[c->nr_told % TOLD_KEPT];

		/* Who is not known might be any, and a session is more than a job: they are left alone. */
		if (!p->read || !c->job->read || p->weak || !job_same(c->job, p) ||
		    p->start >= c->ticks || was_told(c, p))
			continue;
		process_put(*slot);
		*slot = process_get(p);
		c->nr_told++;
		tell = true;
	}
	return tell;
}

void casualties_finish(struct casualties *cs)
{
	unsigned i;

	for (i = 0; i < CASUALTIES_KEPT; i++)
		clear(&cs->ring[i]);
}
