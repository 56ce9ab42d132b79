/* SPDX-License-Identifier: MIT */
/* What a generation is known by, and its references: it is freed with the last one. */
#include "engine/save/units.h"

#include <stdlib.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/lock.h"

const struct inode_id *generation_id(const struct generation *g)
{
	return &g->id;
}

const struct caller *generation_owner(const struct generation *g)
{
	return &g->owner;
}

const char *generation_staging(const struct generation *g)
{
	return g->staging;
}

struct content *generation_content(const struct generation *g)
{
	return g->content;
}

struct checkpoint *generation_checkpoint(const struct generation *g)
{
	return g->checkpoint;
}

struct opener *generation_opener_of_locked(struct generation *g, pid_t pid)
{
	struct list *l;

	list_for_each (l, &g->expected) {
		struct opener *o = container_of(l, struct opener, link);

		if (o->pid == pid)
			return o;
	}
	return NULL;
}

uint64_t generation_written_ns(struct generation *g)
{
	LOCK_SCOPE(&g->units->contents->cache->lock);
	return g->content->written_ns ? g->content->written_ns : clock_wall_ns();
}

void generation_get(struct generation *g)
{
	LOCK_SCOPE(&g->units->lock);
	g->refs++;
}

void generation_put(struct generation *g)
{
	struct list *l, *tmp;

	if (!g)
		return;
	{
		LOCK_SCOPE(&g->units->lock);
		if (--g->refs)
			return;
	}
	list_for_each_safe (l, tmp, &g->writers)
		free(container_of(l, struct writer, link));
	list_for_each_safe (l, tmp, &g->expected)
		free(container_of(l, struct opener, link));
	if (g->target.dir >= 0)
		close(g->target.dir);
	content_put(g->content);
	checkpoint_put(g->checkpoint);
	process_put(g->maker);
	process_put(g->writer);
	free(g->path);
	free(g->rel);
	free(g);
}
