/* SPDX-License-Identifier: MIT */
/*
 * Write back and sync, and changes made on the backing past the cache. This file only makes chunks
 * due and waits for them: the flush engine writes.
 */
#include <errno.h>

#include "engine/base/clock.h"
#include "engine/content/content_inside.h"

/* True if a chunk that became dirty up to @turn remains. The list is in that order. */
static bool dirty_since_locked(const struct content *ct, uint64_t turn)
{
	return !list_empty(&ct->dirty) &&
	       container_of(ct->dirty.next, struct chunk, mine)->turned <= turn;
}

/* Makes what became dirty up to @turn due for the flush. */
static void hurry_locked(struct content *ct, uint64_t turn)
{
	struct list *l;

	list_for_each (l, &ct->dirty) {
		struct chunk *ck = container_of(l, struct chunk, mine);

		if (ck->turned > turn)
			break;
		content_make_ready_locked(ct->all->cache, ck);
	}
}

/* Makes the whole file dirty again. -EIO: not all of it is cached. */
static int redo_locked(struct content *ct)
{
	struct list *l, *tmp;

	if (content_cached_bytes(&ct->clean) + content_cached_bytes(&ct->dirty) < ct->size)
		return -EIO;
	list_for_each_safe (l, tmp, &ct->clean) {
		struct chunk *ck = container_of(l, struct chunk, mine);

		if (ck->lo == ck->hi)
			continue;
		content_turn_dirty_locked(ct, ck);
		ck->dirty_lo = ck->lo;
		ck->dirty_hi = ck->hi;
	}
	ct->unsynced = false;
	return 0;
}

int content_write_back(struct content *ct)
{
	int err = 0;
	{
		LOCK_SCOPE(&ct->all->cache->lock);
		uint64_t turn;

		err = content_await_promised_locked(ct, 0, UINT64_MAX);
		if (!err && ct->unsynced && !ct->error)
			err = redo_locked(ct);
		turn = ct->all->cache->turns;
		if (!err && !ct->error)
			hurry_locked(ct, turn);
		while (!err && !ct->error && dirty_since_locked(ct, turn))
			err = content_wait_for_landing(ct);
		if (ct->error)
			return ct->error;
	}
	if (err && err != -EINTR)
		content_fail(ct, err);
	return err;
}

void content_hurry(struct content *ct)
{
	LOCK_SCOPE(&ct->all->cache->lock);
	hurry_locked(ct, ct->all->cache->turns);
}

bool content_rests(struct content *ct)
{
	LOCK_SCOPE(&ct->all->cache->lock);
	return list_empty(&ct->dirty) && list_empty(&ct->promises) && !ct->nr_writing;
}

int content_sync(struct content *ct)
{
	struct backing b = content_backing(ct);
	int err = content_write_back(ct);

	if (err)
		return err;
	err = backing_sync(&b, ct->fd, false);
	if (err) {
		LOCK_SCOPE(&ct->all->cache->lock);
		ct->unsynced = true;
	}
	return err;
}

int content_settle(struct content *ct)
{
	int err = content_write_back(ct);
	LOCK_SCOPE(&ct->all->cache->lock);

	content_empty_list_locked(ct, &ct->clean);
	return err;
}

void content_wrote_past(struct content *ct, uint64_t off, uint64_t len)
{
	if (ct->digest)
		digest_spoil(ct->digest, off, len);
	LOCK_SCOPE(&ct->all->cache->lock);
	places_cut(&ct->tensors, off, len);
	ct->written_ns = clock_wall_ns();
	if (off + len > ct->size)
		ct->size = off + len;
	if (off + len > ct->backing_end)
		ct->backing_end = off + len;
}

void content_reload(struct content *ct, uint64_t off, uint64_t len)
{
	struct backing b = content_backing(ct);
	struct statx stx;
	int err = backing_stat(&b, ct->fd, &stx);

	if (ct->digest)
		digest_spoil(ct->digest, off, len);
	LOCK_SCOPE(&ct->all->cache->lock);
	places_cut(&ct->tensors, off, len);
	ct->written_ns = clock_wall_ns();
	if (!err)
		ct->size = ct->backing_end = stx.stx_size;
}
