/* SPDX-License-Identifier: MIT */
/* Processes that call this mount, and the parts that they have in a checkpoint. */
#include "engine/save/units.h"

#include <stdlib.h>

#include "engine/base/clock.h"
#include "engine/base/wait.h"

#define READ_NS (2 * NSEC_PER_SEC) /* to read /proc; too short: other nodes' saves are hidden */

struct process *units_process(struct units *us, const struct caller *c)
{
	uint64_t until = clock_mono_ns() + READ_NS;
	struct process *p;

	p = jobs_process(us->jobs, c->pid, c->uid);
	/*
	 * On one node a process that was not read in time may be of any job; but what other nodes
	 * save is hidden from it.
	 */
	while (p && p->visible && !p->read && accord_has_others(us) && !process_has_ended(p) &&
	       clock_mono_ns() < until && !wait_interrupted()) {
		process_put(p);
		p = jobs_process(us->jobs, c->pid, c->uid);
	}
	return p;
}

struct participant *checkpoint_participant_of_locked(struct checkpoint *cp, const struct process *p)
{
	struct list *l;

	list_for_each (l, &cp->participants) {
		struct participant *part = container_of(l, struct participant, link);

		if (part->process == p)
			return part;
	}
	return NULL;
}

void checkpoint_free_participants(struct list *participants)
{
	while (!list_empty(participants)) {
		struct participant *p = container_of(participants->next, struct participant, link);

		list_del(&p->link);
		if (p->watched)
			jobs_unwatch(p->process);
		process_put(p->process);
		free(p);
	}
}
