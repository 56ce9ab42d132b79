/* SPDX-License-Identifier: MIT */
#include "engine/save/commit_describe.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/lock.h"
#include "engine/save/units.h"

/* Its path below the backing, by which recovery finds it; else @path, which is not exact. */
static void unit_path(struct checkpoint *cp, const char *path, char *buf, size_t size)
{
	size_t len;

	if (backing_path_below(cp->units->contents->backing, cp->target.dir, buf, size)) {
		snprintf(buf, size, "%s", path);
		return;
	}
	len = strlen(buf);
	if (len + strlen(cp->target.name) + 2 > size)
		snprintf(buf, size, "%s", path);
	else
		snprintf(buf + len, size - len, "%s%s", len ? "/" : "", cp->target.name);
}

void commit_describe(struct checkpoint *cp, const char *path, struct commit_header *h)
{
	struct list *l;
	int world = 0;

	memset(h, 0, sizeof(*h));
	unit_path(cp, path, h->unit, sizeof(h->unit));
	snprintf(h->generation, sizeof(h->generation), "%s", staging_id(cp->staging));
	snprintf(h->job, sizeof(h->job), "%s", cp->maker->key);
	LOCK_SCOPE(&cp->units->lock);
	list_for_each (l, &cp->participants) {
		struct process *p = container_of(l, struct participant, link)->process;

		world = p->world > world ? p->world : world;
	}
	h->ranks = world ? (unsigned)world : 1;
	if (cp->done >= 0)
		rule_evidence(cp->rule, cp->done, h->done, sizeof(h->done));
	else
		snprintf(h->done, sizeof(h->done), "%s", cp->asked ? "asked" : "last close");
}

void decision_propose(struct checkpoint *cp, const char *path, const struct order *order,
		      struct decision *d)
{
	memset(d, 0, sizeof(*d));
	d->commit = true;
	snprintf(d->unit, sizeof(d->unit), "%s", path);
	if (order)
		d->order = *order;
	LOCK_SCOPE(&cp->units->lock);
	d->replaces = cp->replaces;
	memcpy(d->generation, cp->replaced_generation, sizeof(d->generation));
	d->ino = cp->replaced.ino;
	d->btime_ns = cp->replaced.btime_ns;
}
