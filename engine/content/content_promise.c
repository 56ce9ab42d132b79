/* SPDX-License-Identifier: MIT */
/*
 * Bytes that will come (struct promise), and waits for landings. Every wait drops the lock of the
 * cache, and ends at the latest with the call or the mount. This file does not know how a promise
 * is kept.
 */
#include <errno.h>

#include "engine/base/clock.h"
#include "engine/base/wait.h"
#include "engine/content/content_inside.h"

int content_wait_until_landing_locked(struct content *ct, uint64_t deadline_ns)
{
	return ct->all->ending ? -EINTR : wait_on(&ct->settled, deadline_ns);
}

int content_wait_for_landing(struct content *ct)
{
	return content_wait_until_landing_locked(ct, CLOCK_NEVER);
}

bool content_is_promised_locked(const struct content *ct, uint64_t off, uint64_t len)
{
	const struct list *l = ct->promises.prev;

	for (; l != &ct->promises; l = l->prev) {
		const struct promise *p = container_of(l, const struct promise, link);

		if (p->off + p->len <= off)
			break; /* so do all before it */
		if (p->off < off || p->off - off < len)
			return true;
	}
	return false;
}

/* Promises are in file order, in which they mostly arrive, and no two overlap. */
static void add_promise_locked(struct content *ct, struct promise *p)
{
	struct list *at = ct->promises.prev;

	while (at != &ct->promises && container_of(at, struct promise, link)->off > p->off)
		at = at->prev;
	list_push(at, &p->link);
}

int content_await_promised_locked(struct content *ct, uint64_t off, uint64_t len)
{
	int err = 0;

	while (!err && !ct->error && content_is_promised_locked(ct, off, len))
		err = content_wait_for_landing(ct);
	return err ? err : ct->staged ? ct->error : 0;
}

int content_promise(struct content *ct, struct promise *p)
{
	int err = 0;
	LOCK_SCOPE(&ct->all->cache->lock);

	while (!err && ct->cutting)
		err = content_wait_for_landing(ct);
	if (!err)
		err = content_await_promised_locked(ct, p->off, p->len);
	if (err)
		return err;
	add_promise_locked(ct, p);
	ct->by_handle = true;
	return 0;
}

bool content_by_handle(struct content *ct)
{
	LOCK_SCOPE(&ct->all->cache->lock);

	return ct->by_handle;
}

void content_promised(struct content *ct, const struct promise *p, const struct tensor_place *at)
{
	LOCK_SCOPE(&ct->all->cache->lock);

	if (at) {
		places_add(&ct->tensors, at);
		if (ct->digest)
			digest_expect(ct->digest, at->at, at->bytes);
	} else
		places_cut(&ct->tensors, p->off, p->len);
	if (p->off + p->len > ct->size)
		ct->size = p->off + p->len;
	ct->written_ns = clock_wall_ns();
}

struct tensor_map *content_tensors(struct content *ct)
{
	struct tensor_map *m;
	LOCK_SCOPE(&ct->all->cache->lock);

	m = places_map(&ct->tensors);
	for (size_t i = 0; m && ct->digest && i < m->nr; i++)
		digest_of_expected(ct->digest, m->list[i].at, m->list[i].bytes, m->list[i].xxh3);
	return m;
}

void content_set_tensors(struct content *ct, const struct tensor_map *m)
{
	LOCK_SCOPE(&ct->all->cache->lock);

	if (!ct->by_handle && m) /* else the content has its own tensors */
		places_set(&ct->tensors, m);
	ct->by_handle = true;
}

void content_kept(struct content *ct, struct promise *p)
{
	LOCK_SCOPE(&ct->all->cache->lock);
	list_del(&p->link);
	waitq_wake_all(&ct->settled);
	waitq_wake(&ct->all->cache->work); /* what waited for these bytes is due */
}

uint64_t content_promised_bytes(struct content *ct)
{
	uint64_t sum = 0;
	struct list *l;
	LOCK_SCOPE(&ct->all->cache->lock);

	list_for_each (l, &ct->promises)
		sum += container_of(l, struct promise, link)->len;
	return sum;
}

int content_await(struct content *ct)
{
	LOCK_SCOPE(&ct->all->cache->lock);
	int err = content_await_promised_locked(ct, 0, UINT64_MAX);

	return err ? err : ct->error;
}
