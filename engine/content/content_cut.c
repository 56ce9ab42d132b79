/* SPDX-License-Identifier: MIT */
/*
 * The size: truncation in the cache and on the backing. While a thread cuts (content->cutting),
 * others wait to begin a write, and the cut waits for affected flights. A cut happens in full or
 * not at all.
 */
#include <errno.h>

#include "engine/base/clock.h"
#include "engine/content/content_inside.h"

/* The offset in @ck at which a file of @size bytes ends. */
static uint32_t cut_of(const struct content *ct, const struct chunk *ck, uint64_t size)
{
	size_t chunk = ct->all->cache->chunk_size;
	uint64_t base = ck->index * chunk;

	return size <= base ? 0 : size - base < chunk ? (uint32_t)(size - base) : UINT32_MAX;
}

/* Cuts the cached bytes of @ck, which does not fly, at @size. */
static void trim_chunk_locked(struct content *ct, struct chunk *ck, uint64_t size)
{
	struct cache *c = ct->all->cache;
	uint32_t cut = cut_of(ct, ck, size);

	if (ck->hi <= cut)
		return;
	if (ck->lo >= cut) {
		content_empty_chunk_locked(ct, ck);
		return;
	}
	ck->hi = cut;
	if (ck->dirty_hi > cut)
		ck->dirty_hi = cut;
	if (ck->state != CHUNK_CLEAN && !chunk_is_dirty(ck)) {
		ck->dirty_lo = ck->dirty_hi = 0;
		list_del(&ck->mine);
		list_append(&ct->clean, &ck->mine);
		cache_set_state(c, ck, CHUNK_CLEAN);
		if (ck->loan)
			content_empty_chunk_locked(ct, ck);
	}
}

/* True if a flying chunk has bytes to be cut. */
static bool cuts_flying_locked(const struct content *ct, uint64_t size)
{
	struct list *l;

	list_for_each (l, &ct->dirty) {
		const struct chunk *ck = container_of(l, struct chunk, mine);

		if (ck->state == CHUNK_FLYING && ck->hi > cut_of(ct, ck, size))
			return true;
	}
	return false;
}

static void trim_list(struct content *ct, struct list *list, uint64_t size)
{
	struct list *l, *tmp;

	list_for_each_safe (l, tmp, list)
		trim_chunk_locked(ct, container_of(l, struct chunk, mine), size);
}

/* Keeps other writers away, and drops the lock to wait for writers and flights. 0 or -errno. */
static int begin_cut_locked(struct content *ct, uint64_t size)
{
	int err = 0;

	ct->cutting = true;
	while (!err && (ct->nr_writing || cuts_flying_locked(ct, size)))
		err = content_wait_for_landing(ct);
	return err || !ct->staged ? err : ct->error;
}

static void end_cut_locked(struct content *ct)
{
	ct->cutting = false;
	waitq_wake_all(&ct->settled);
}

static int cut_on_backing(struct content *ct, struct backing *b, uint64_t size)
{
	int err = backing_ftruncate(b, ct->fd, (off_t)size);

	if (!err && ct->digest)
		digest_spoil(ct->digest, size, UINT64_MAX - size);
	return err;
}

int content_truncate(struct content *ct, struct backing *b, uint64_t size)
{
	struct cache *c = ct->all->cache;
	int err;
	LOCK_SCOPE(&c->lock);

	/* Promised bytes were written before this truncation, so they come first. */
	while (ct->cutting || (!ct->error && !list_empty(&ct->promises)))
		if (content_wait_for_landing(ct))
			return -EINTR;
	err = begin_cut_locked(ct, size);
	if (!err) {
		trim_list(ct, &ct->clean, size);
		trim_list(ct, &ct->dirty, size);
		waitq_wake_all(&ct->settled); /* threads that wait for bytes cut off look again */
		lock_drop(&c->lock);
		err = cut_on_backing(ct, b, size);
		lock_take(&c->lock);
	}
	if (!err) {
		ct->size = size;
		places_cut(&ct->tensors, size, UINT64_MAX - size);
		if (ct->backing_end > size)
			ct->backing_end = size;
		ct->written_ns = clock_wall_ns();
	}
	end_cut_locked(ct);
	return err;
}

int content_show_size(struct content *ct)
{
	struct backing b = content_backing(ct);
	struct cache *c = ct->all->cache;
	struct statx stx;
	uint64_t size;
	int err = 0;
	LOCK_SCOPE(&c->lock);

	while (ct->cutting)
		if (content_wait_for_landing(ct))
			return -EINTR;
	/* Meanwhile no write can extend the file, so this cuts off no bytes. */
	err = begin_cut_locked(ct, UINT64_MAX);
	size = ct->size;
	if (!err) {
		lock_drop(&c->lock);
		err = backing_stat(&b, ct->fd, &stx);
		if (!err && stx.stx_size < size)
			err = backing_ftruncate(&b, ct->fd, (off_t)size);
		lock_take(&c->lock);
	}
	end_cut_locked(ct);
	return err;
}
