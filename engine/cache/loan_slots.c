/* SPDX-License-Identifier: MIT */
/* The slots of a loan that the session may fill: chunks without a content, in `idle`. */
#include "engine/base/cleanup.h"
#include "engine/cache/cache_inside.h"
#include "engine/cache/loan.h"

bool loan_is_awaited_locked(const struct loan *l)
{
	return l->awaited;
}

bool loan_is_tight_locked(const struct loan *l)
{
	return 4 * (l->nr_bound + 1) > 3 * l->nr_slots;
}

struct chunk *loan_take(struct loan *l)
{
	struct chunk *ck;
	LOCK_SCOPE(&l->cache->lock);

	if (list_empty(&l->idle))
		return NULL;
	ck = container_of(l->idle.next, struct chunk, queue);
	list_del(&ck->queue);
	l->nr_idle--;
	return ck;
}

void loan_idle_locked(struct loan *l, struct chunk *ck)
{
	list_push(&l->idle, &ck->queue);
	l->nr_idle++;
	if (!l->closed)
		return;
	l->cache->nr_returning++;
	waitq_wake_all(&l->cache->chilled);
}

void loan_give(struct loan *l, struct chunk *ck)
{
	LOCK_SCOPE(&l->cache->lock);
	loan_idle_locked(l, ck);
}

void loan_returned_locked(struct chunk *ck)
{
	struct loan *l = ck->loan;

	l->nr_bound--;
	loan_idle_locked(l, ck);
	if (l->awaited && l->room)
		l->room(l->arg);
	l->awaited = false;
}

unsigned loan_room(struct loan *l)
{
	LOCK_SCOPE(&l->cache->lock);
	return l->nr_idle;
}
