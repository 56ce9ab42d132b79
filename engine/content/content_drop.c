/* SPDX-License-Identifier: MIT */
/*
 * Bytes of a content leave the cache: since they are not needed, or because the content fails. And
 * the error by which it has failed.
 */
#include "engine/base/cleanup.h"
#include "engine/content/content_inside.h"

/* Returns @ck to the cache if it is empty and unused. */
static void drop_if_unused_locked(struct content *ct, struct chunk *ck)
{
	if (!ck->users && ck->state != CHUNK_FLYING && ck->lo == ck->hi)
		cache_give_back(ct->all->cache, ck);
}

void content_empty_chunk_locked(struct content *ct, struct chunk *ck)
{
	ck->lo = ck->hi = ck->dirty_lo = ck->dirty_hi = 0;
	drop_if_unused_locked(ct, ck);
}

void content_empty_list_locked(struct content *ct, struct list *list)
{
	struct list *l, *tmp;

	list_for_each_safe (l, tmp, list)
		content_empty_chunk_locked(ct, container_of(l, struct chunk, mine));
}

void content_unuse_locked(struct content *ct, struct chunk *ck)
{
	ck->users--;
	drop_if_unused_locked(ct, ck);
	if (!ck->writers)
		waitq_wake_all(&ct->settled);
	if (ck->users)
		return;
	if (ck->state == CHUNK_READY)
		waitq_wake(&ct->all->cache->work);
	if (cache_pressed(ct->all->cache))
		cache_serve_waiting(ct->all->cache);
}

void content_discard(struct content *ct)
{
	LOCK_SCOPE(&ct->all->cache->lock);
	content_empty_list_locked(ct, &ct->dirty);
	content_empty_list_locked(ct, &ct->clean);
	waitq_wake_all(&ct->settled);
}

void content_forget(struct content *ct)
{
	LOCK_SCOPE(&ct->all->cache->lock);
	content_empty_list_locked(ct, &ct->clean);
}

int content_error(struct content *ct)
{
	LOCK_SCOPE(&ct->all->cache->lock);
	return ct->error;
}

void content_error_told(struct content *ct)
{
	LOCK_SCOPE(&ct->all->cache->lock);
	if (!ct->staged && list_empty(&ct->dirty))
		ct->error = 0;
}

void content_fail(struct content *ct, int err)
{
	bool first;
	{
		LOCK_SCOPE(&ct->all->cache->lock);
		first = !ct->error;
		if (first)
			ct->error = err;
		content_empty_list_locked(ct, &ct->dirty);
		if (ct->staged)
			content_empty_list_locked(ct, &ct->clean);
		waitq_wake_all(&ct->settled);
	}
	if (first)
		ct->all->events.failed(ct->all->events.arg, &ct->id, err);
}
