/* SPDX-License-Identifier: MIT */
#include "engine/save/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/liveness/job.h"
#include "engine/save/generation_inside.h"

static void clear(struct ended *e)
{
	free(e->path);
	free(e->reason);
	free(e->job);
	memset(e, 0, sizeof(*e));
}

struct ended *history_add(struct history *h)
{
	struct ended *e = &h->ring[h->nr++ % HISTORY_KEPT];

	clear(e);
	return e;
}

void history_note(struct history *h, const struct generation *g)
{
	struct ended *e = history_add(h);

	memcpy(e->staging, g->staging, sizeof(e->staging));
	memcpy(e->name, g->target.name, sizeof(e->name));
	e->id = g->id;
	e->dir_id = g->target.dir_id;
	e->path = g->path ? strdup(g->path) : NULL;
	e->reason = *g->reason ? strdup(g->reason) : NULL;
	e->job = g->maker ? strdup(g->maker->key) : NULL;
	e->tgid = g->maker ? g->maker->tgid : 0;
	e->rank = g->maker ? g->maker->rank : -1;
	e->state = g->state;
	e->uid = g->owner.uid;
	e->err = g->err;
	e->size = g->size;
	e->opened_ns = g->opened_ns;
	e->closed_ns = g->closed_ns;
	e->flushed_ns = g->flushed_ns;
	e->ended_ns = g->ended_ns;
}

void history_finish(struct history *h)
{
	size_t i;

	for (i = 0; i < HISTORY_KEPT; i++)
		clear(&h->ring[i]);
}

/* Finds the newest entry for which @matches returns true. */
static const struct ended *find(const struct history *h,
				bool (*matches)(const struct ended *e, const struct ended *like),
				const struct ended *like)
{
	uint64_t n;

	for (n = h->nr; n > 0 && n + HISTORY_KEPT > h->nr; n--) {
		const struct ended *e = &h->ring[(n - 1) % HISTORY_KEPT];

		if (*e->staging && matches(e, like))
			return e;
	}
	return NULL;
}

static bool same_staging(const struct ended *e, const struct ended *like)
{
	return !strcmp(e->staging, like->staging);
}

static bool same_name(const struct ended *e, const struct ended *like)
{
	return same_inode(&e->dir_id, &like->dir_id) && !strcmp(e->name, like->name);
}

static bool same_id(const struct ended *e, const struct ended *like)
{
	return same_inode(&e->id, &like->id);
}

const struct ended *history_find(const struct history *h, const char *staging)
{
	struct ended like = {0};

	snprintf(like.staging, sizeof(like.staging), "%s", staging);
	return find(h, same_staging, &like);
}

const struct ended *history_find_name(const struct history *h, const struct inode_id *dir,
				      const char *name)
{
	struct ended like = {.dir_id = *dir};

	snprintf(like.name, sizeof(like.name), "%s", name);
	return find(h, same_name, &like);
}

const struct ended *history_find_inode(const struct history *h, const struct inode_id *id)
{
	return find(h, same_id, &(struct ended){.id = *id});
}
