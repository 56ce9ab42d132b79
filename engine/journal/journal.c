/* SPDX-License-Identifier: MIT */
#include "engine/journal/journal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/journal/held.h"
#include "engine/journal/journal_pending.h"
#include "engine/journal/journal_written.h"
#include "engine/save/units.h"

void held_put(struct held *h)
{
	if (!h)
		return;
	{
		LOCK_SCOPE(&h->units->lock);
		if (--h->refs)
			return;
	}
	if (h->target.dir >= 0)
		close(h->target.dir);
	if (h->pin >= 0)
		close(h->pin);
	process_put(h->writer);
	free(h);
}

bool pending_next_locked(struct units *us, struct pending *p)
{
	struct list *l = p->written ? &p->written->link : &us->live.all;

	while (!p->held && (l = l->next) != &us->live.all) {
		struct generation *g = container_of(l, struct generation, link);

		if (!g->pointer || g->overtaken)
			continue;
		*p = (struct pending){.written = g,
				      .target = &g->target,
				      .staging = g->staging,
				      .waits_for = g->waits_for,
				      .names = g->said.names,
				      .since_ns = g->opened_ns};
		return true;
	}
	for (l = p->held ? p->held->link.next : us->held.next; l != &us->held; l = l->next) {
		struct held *h = container_of(l, struct held, link);

		if (h->overtaken)
			continue;
		*p = (struct pending){.held = h,
				      .target = &h->target,
				      .staging = h->staging,
				      .waits_for = h->waits_for,
				      .names = h->names,
				      .since_ns = h->since_ns};
		return true;
	}
	return false;
}

void pending_get_locked(struct pending *p)
{
	if (p->written)
		p->written->refs++;
	else
		p->held->refs++;
}

void pending_put(struct pending *p)
{
	generation_put(p->written);
	held_put(p->held);
}

bool pointers_wait_for_locked(struct units *us, const char *unit)
{
	struct pending p = {0};

	while (pending_next_locked(us, &p))
		if (!strcmp(p.waits_for, unit))
			return true;
	return false;
}

/* True if @p, once closed, waits for nothing. While it is open, what it waited for is of old. */
static bool goes_on_locked(const struct pending *p)
{
	enum fate fate = p->written ? pointer_fate(p->written) : held_fate_locked(p->held);

	return fate == FATE_APPLY || fate == FATE_LOOK ||
	       (p->written && p->written->state == GENERATION_OPEN &&
		strcmp(p->written->said.unit, p->waits_for) != 0);
}

bool pointers_will_name_locked(struct units *us, const struct inode_id *dir, const char *name)
{
	struct pending p = {0};

	while (pending_next_locked(us, &p))
		if (goes_on_locked(&p) && !strcmp(p.names, name) &&
		    same_inode(&p.target->dir_id, dir))
			return true;
	return false;
}

void units_list(struct units *us, const struct inode_id *dir,
		void (*add)(void *arg, const char *name, const struct inode_id *id, mode_t type),
		void *arg)
{
	struct list *l;
	LOCK_SCOPE(&us->lock);

	list_for_each (l, &us->live.all) {
		struct generation *g = container_of(l, struct generation, link);

		if (g->visible && same_inode(&g->target.dir_id, dir))
			add(arg, g->target.name, &g->id, S_IFREG);
	}
	list_for_each (l, &us->checkpoints) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (cp->visible && same_inode(&cp->target.dir_id, dir))
			add(arg, cp->target.name, &cp->id, S_IFDIR);
	}
	list_for_each (l, &us->held) {
		struct held *h = container_of(l, struct held, link);

		if (!h->overtaken && same_inode(&h->target.dir_id, dir))
			add(arg, h->target.name, &h->id, h->type);
	}
}
