/* SPDX-License-Identifier: MIT */
#include "engine/journal/journal_written.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/journal/held.h"
#include "engine/save/units.h"

/* The checkpoint that a name shows, if it is still to be committed. */
static struct checkpoint *pending_checkpoint_locked(struct units *us, const struct inode_id *dir,
						    const char *name)
{
	struct list *l;

	list_for_each (l, &us->checkpoints) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (cp->visible && (cp->rule || cp->follows) &&
		    same_inode(&cp->target.dir_id, dir) && !strcmp(cp->target.name, name))
			return cp;
	}
	return NULL;
}

const char *pointer_unit_locked(struct units *us, const struct inode_id *dir, const char *name)
{
	const struct checkpoint *cp = pending_checkpoint_locked(us, dir, name);
	const struct generation *g;

	if (cp)
		return cp->staging;
	live_for_each_of (g, &us->live, dir, name)
		if (g->visible && !g->pointer)
			return g->staging;
	return NULL;
}

void pointer_closed(struct generation *g)
{
	const char *name = g->said.names, *unit = NULL;
	bool asked = g->asks; /* then it keeps its turn among those of its name */
	struct checkpoint *cp = NULL;
	char path[NAME_MAX + 4];

	if (*name) {
		unit = pointer_unit_locked(g->units, &g->target.dir_id, name);
		cp = unit ? pending_checkpoint_locked(g->units, &g->target.dir_id, name) : NULL;
	}
	if (!unit && *g->said.unit)
		unit = g->said.unit; /* that unit has failed or ended since */
	g->asks = g->said.unknown && !unit;
	snprintf(g->waits_for, sizeof(g->waits_for), "%s", unit ? unit : "");
	snprintf(g->names, sizeof(g->names), "%s", unit || g->asks ? name : "");
	snprintf(path, sizeof(path), "../%s", g->target.name);
	if (cp)
		checkpoint_event_locked(cp, EVIDENCE_CLOSE, path, g->rank);
	/* All may see it: it is applied as soon as it is durable. */
	if (!unit && !g->asks && !asked)
		generation_show_locked(g);
}

void pointer_say_waits(const char *names, bool asks, char *buf, size_t size)
{
	snprintf(buf, size,
		 asks ? "an answer whether '%s', which it names, is being saved on another node"
		      : "the commit of '%s', which it names",
		 names);
}

/* The state of the unit with that staging name, also after its end. */
static enum generation_state state_of(struct units *us, const char *unit)
{
	const struct generation *g;
	const struct ended *e;
	struct list *l;

	list_for_each (l, &us->checkpoints) {
		const struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (!strcmp(cp->staging, unit))
			return cp->state;
	}
	list_for_each (l, &us->wrecks.all)
		if (!strcmp(container_of(l, struct checkpoint, link)->staging, unit))
			return GENERATION_FAILED;
	g = live_find_staging(&us->live, unit);
	if (g)
		return g->state;
	e = history_find(&us->history, unit);
	return e ? e->state : GENERATION_DROPPED;
}

/*
 * As pointer_fate, for a pointer that has waited for @unit, a staging name, since @since_ns.
 * @unit "": it need not wait. FATE_LOOK: its target is to be resolved again.
 */
static enum fate fate_of_pointer(struct units *us, const char *unit, bool asks, bool overtaken,
				 uint64_t since_ns)
{
	const struct fate_facts f = {
		.pointer = true,
		.awaited = *unit ? state_of(us, unit) : GENERATION_COMMITTED,
		.late = clock_mono_ns() - since_ns > us->order_ns,
		.overtaken = overtaken,
		.unknown = asks,
	};

	return fate_of(&f);
}

enum fate pointer_fate(const struct generation *g)
{
	return fate_of_pointer(g->units, g->waits_for, g->asks, g->overtaken, g->closed_ns);
}

enum fate held_fate_locked(const struct held *h)
{
	return fate_of_pointer(h->units, h->waits_for, h->asks, h->overtaken, h->since_ns);
}

void pointer_tell_dropped(struct units *us, uid_t uid, const char *path, const char *names,
			  const char *waits_for)
{
	char text[MESSAGE_MAX], name[NAME_MAX + 1];
	enum generation_state state;
	{
		LOCK_SCOPE(&us->lock);
		state = state_of(us, waits_for);
		snprintf(name, sizeof(name), "%s", names);
	}
	MESSAGE(text, POINTER_DROPPED, path, name,
		state == GENERATION_FAILED    ? "was not committed"
		: state == GENERATION_DROPPED ? "was removed before it was committed"
					      : "was not committed within order_timeout_s",
		path);
	failures_add(us->failures, uid, "pointer", path, ECANCELED, text);
}
