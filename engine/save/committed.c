/* SPDX-License-Identifier: MIT */
/*
 * The directory checkpoints that this node has committed just now, for a thread that reads them
 * afterwards. Nothing waits for that thread: of more than COMMITTED_MAX that wait for it, the
 * oldest is left out.
 */
#include "engine/save/units.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"

#define COMMITTED_MAX 64

void committed_free(struct committed *c)
{
	if (!c)
		return;
	if (c->fd >= 0)
		close(c->fd);
	free(c->path);
	free(c);
}

static struct committed *make(struct checkpoint *cp, const char *path)
{
	struct committed *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->owner = cp->owner;
	c->path = strdup(path);
	c->fd = backing_dup(cp->units->contents->backing, cp->fd);
	if (c->path && c->fd >= 0)
		return c;
	committed_free(c);
	return NULL;
}

static bool is_taken(struct units *us)
{
	LOCK_SCOPE(&us->lock);

	return us->committed.use == COMMITTED_TAKEN;
}

void committed_add(struct checkpoint *cp, const char *path)
{
	struct units *us = cp->units;
	struct committed *c, *oldest = NULL;

	if (!is_taken(us))
		return;
	c = make(cp, path);
	if (!c)
		return;
	{
		LOCK_SCOPE(&us->lock);
		list_append(&us->committed.list, &c->link);
		if (us->committed.nr++ == COMMITTED_MAX) {
			oldest = container_of(us->committed.list.next, struct committed, link);
			list_del(&oldest->link);
			us->committed.nr--;
		}
		waitq_wake(&us->committed.added);
	}
	committed_free(oldest);
}

int committed_take(struct units *us, struct committed **out)
{
	struct committed *c;
	LOCK_SCOPE(&us->lock);

	if (us->committed.use == COMMITTED_IGNORED)
		us->committed.use = COMMITTED_TAKEN;
	while (us->committed.use == COMMITTED_TAKEN && !us->ending &&
	       list_empty(&us->committed.list))
		wait_out(&us->committed.added, CLOCK_NEVER);
	if (us->committed.use != COMMITTED_TAKEN || us->ending)
		return -ECANCELED;
	c = container_of(us->committed.list.next, struct committed, link);
	list_del(&c->link);
	us->committed.nr--;
	*out = c;
	return 0;
}

void committed_stop(struct units *us)
{
	LOCK_SCOPE(&us->lock);

	us->committed.use = COMMITTED_STOPPED;
	waitq_wake_all(&us->committed.added);
}

void committed_finish(struct units *us)
{
	while (!list_empty(&us->committed.list)) {
		struct committed *c = container_of(us->committed.list.next, struct committed, link);

		list_del(&c->link);
		committed_free(c);
	}
}
