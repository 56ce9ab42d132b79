/* SPDX-License-Identifier: MIT */
#include "engine/unit/pointer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/unit/internal.h"

/* Longer ones name nothing. */
#define POINTER_MAX 4096

static bool is_pending(const struct checkpoint *cp)
{
	return cp->visible && (cp->rule || cp->follows);
}

/* That which the name in the pointer's directory shows; NULL: nothing that is still to be committed. */
static struct checkpoint *named_by(struct generation *g)
{
	char content[POINTER_MAX], name[NAME_MAX + 1], path[NAME_MAX + 4];
	ssize_t len = content_size(g->content) <= sizeof(content)
			      ? content_source_read(g->content, content, sizeof(content), 0)
			      : -EFBIG;
	struct list *l;

	if (len < 0 ||
	    !rules_pointer_names(g->units->rules, g->target.name, content, (size_t)len, name))
		return NULL;
	snprintf(path, sizeof(path), "../%s", g->target.name);
	list_for_each (l, &g->units->checkpoints) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (is_pending(cp) && same_inode(&cp->target.dir_id, &g->target.dir_id) &&
		    !strcmp(cp->target.name, name)) {
			checkpoint_event(cp, EVIDENCE_CLOSE, path, g->rank);
			return cp;
		}
	}
	return NULL;
}

void pointer_closed(struct generation *g)
{
	const struct checkpoint *cp = named_by(g);

	snprintf(g->waits_for, sizeof(g->waits_for), "%s", cp ? cp->staging : "");
	snprintf(g->names, sizeof(g->names), "%s", cp ? cp->target.name : "");
	if (!cp)
		generation_show(g); /* it is applied as soon as it is durable: all may see it */
}

/* What became of the checkpoint that it waits for. */
static enum generation_state state_of(const struct generation *g)
{
	const struct ended *e;
	struct list *l;

	list_for_each (l, &g->units->checkpoints) {
		const struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (!strcmp(cp->staging, g->waits_for))
			return cp->state;
	}
	e = history_find(&g->units->history, g->waits_for);
	return e ? e->state : GENERATION_DROPPED;
}

enum pointer_fate pointer_judge(struct generation *g)
{
	enum generation_state state = *g->waits_for ? state_of(g) : GENERATION_COMMITTED;

	if (g->overtaken || state == GENERATION_FAILED || state == GENERATION_DROPPED)
		return POINTER_DROP;
	if (state == GENERATION_COMMITTED)
		return POINTER_GO;
	return clock_mono_ns() - g->closed_ns > g->units->order_ns ? POINTER_DROP : POINTER_WAIT;
}

void pointer_dropped(struct generation *g)
{
	struct units *us = g->units;
	char text[MESSAGE_MAX], path[PATH_MAX], names[NAME_MAX + 1];
	enum generation_state state;
	bool overtaken;

	generation_path(g, path, sizeof(path));
	{
		LOCK_SCOPE(&us->lock);
		overtaken = g->overtaken;
		memcpy(names, g->names, sizeof(names));
		state = state_of(g);
	}
	if (overtaken)
		return; /* a later write was applied: nothing is missed */
	MESSAGE(text, POINTER_DROPPED, path, names,
		state == GENERATION_FAILED    ? "was not committed"
		: state == GENERATION_DROPPED ? "was removed before it was committed"
					      : "was not committed within order_timeout_s",
		path);
	failures_add(us->failures, g->owner.uid, "pointer", path, ECANCELED, text);
}
