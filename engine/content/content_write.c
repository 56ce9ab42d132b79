/* SPDX-License-Identifier: MIT */
/*
 * Bytes into the cache. A write finds or makes the chunk, closes the gap to the bytes in it, and
 * copies without the lock, as the one writer of that chunk. This file flushes nothing.
 */
#include <errno.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/content/copy.h"
#include "engine/content/content_inside.h"

void content_turn_dirty_locked(struct content *ct, struct chunk *ck)
{
	struct cache *c = ct->all->cache;

	ck->turned = ++c->turns;
	ck->since_ns = clock_mono_ns();
	list_del(&ck->mine);
	list_append(&ct->dirty, &ck->mine);
	if (ck->state == CHUNK_CLEAN)
		cache_set_state(c, ck, CHUNK_PARTIAL);
}

void content_make_ready_locked(struct cache *c, struct chunk *ck)
{
	if (ck->state == CHUNK_PARTIAL)
		cache_set_state(c, ck, CHUNK_READY);
}

/* The chunk of @index, unused by the flush and other writers. Drops the lock while waiting. */
static int chunk_for_writing_locked(struct content *ct, uint64_t index, struct chunk **out)
{
	struct cache *c = ct->all->cache;
	uint64_t limit = c->limits.stall_timeout_s * NSEC_PER_SEC, start = clock_mono_ns();
	struct chunk *spare = NULL;
	int err = 0;

	for (;;) {
		struct chunk *ck = ct->error ? NULL : cache_find(c, ct, index);

		if (ct->error)
			err = ct->error;
		if (!err && !ck && spare) {
			ck = take_ptr(spare);
			cache_bind(c, ck, ct, index);
			content_turn_dirty_locked(ct, ck);
		}
		/* One writer at a time: several pages of a mapping may come at once. */
		if (ck && ck->state != CHUNK_FLYING && !ck->writers) {
			*out = ck;
			break;
		}
		if (err)
			break;
		err = ck ? content_wait_until_landing_locked(ct, start + limit)
			 : cache_claim(c, ct->owner.uid, &spare);
	}
	if (spare)
		cache_give_back(c, spare);
	return err;
}

/* Reads @len bytes at @off of the backing into @to, zeros where it has none. Without locks. */
static int fill(struct content *ct, char *to, size_t len, uint64_t off, uint64_t backing_end)
{
	struct backing b = content_backing(ct);
	ssize_t n = 0;

	if (off < backing_end)
		n = backing_read(&b, ct->fd, to, len, (off_t)off);
	if (n < 0)
		return (int)n;
	memset(to + n, 0, len - (size_t)n);
	return 0;
}

/*
 * Extends the bytes of @ck up to [a, b) with bytes of the backing; drops the lock meanwhile. In an
 * ordinary file the bytes between belong to other writers, so there the chunk is flushed first
 * (-EAGAIN: look the chunk up again).
 */
static int close_gap_locked(struct content *ct, struct chunk *ck, uint32_t a, uint32_t b)
{
	struct cache *c = ct->all->cache;
	uint64_t base = ck->index * c->chunk_size, backing_end = ct->backing_end;
	uint32_t from, to;
	int err;

	if (ck->lo == ck->hi || (a <= ck->hi && b >= ck->lo))
		return 0;
	if (!ct->staged) {
		content_make_ready_locked(c, ck);
		err = content_wait_for_landing(ct);
		return err ? err : -EAGAIN;
	}
	from = a > ck->hi ? ck->hi : b;
	to = a > ck->hi ? a : ck->lo;
	ck->users++;
	ck->writers++;
	lock_drop(&c->lock);
	err = fill(ct, ck->memory + from, to - from, base + from, backing_end);
	lock_take(&c->lock);
	ck->writers--;
	if (!err && ct->error)
		err = ct->error;
	if (err) {
		content_unuse_locked(ct, ck);
		return err;
	}
	if (ck->lo == ck->hi) { /* emptied meanwhile */
		content_unuse_locked(ct, ck);
		return -EAGAIN;
	}
	ck->users--;
	ck->lo = from < ck->lo ? from : ck->lo;
	ck->hi = to > ck->hi ? to : ck->hi;
	return 0;
}

void content_note_written_locked(struct content *ct, struct chunk *ck, uint32_t a, uint32_t b)
{
	struct cache *c = ct->all->cache;
	uint64_t end = ck->index * c->chunk_size + b;

	if (ck->lo == ck->hi) {
		ck->lo = a;
		ck->hi = b;
	}
	ck->lo = a < ck->lo ? a : ck->lo;
	ck->hi = b > ck->hi ? b : ck->hi;
	if (!chunk_is_dirty(ck)) {
		if (ck->state == CHUNK_CLEAN)
			content_turn_dirty_locked(ct, ck);
		ck->dirty_lo = a;
		ck->dirty_hi = b;
	}
	ck->dirty_lo = a < ck->dirty_lo ? a : ck->dirty_lo;
	ck->dirty_hi = b > ck->dirty_hi ? b : ck->dirty_hi;
	if (end > ct->size)
		ct->size = end;
	/* Written to its end: more bytes are unlikely to come. */
	if (ck->dirty_hi == c->chunk_size || cache_pressed(c))
		content_make_ready_locked(c, ck);
}

static int write_part(struct content *ct, const char *buf, uint64_t index, uint32_t a, uint32_t b)
{
	struct cache *c = ct->all->cache;
	struct chunk *ck = NULL;
	int err;
	LOCK_SCOPE(&c->lock);

	do {
		err = chunk_for_writing_locked(ct, index, &ck);
		if (!err)
			err = close_gap_locked(ct, ck, a, b);
	} while (err == -EAGAIN);
	if (err)
		return err;
	ck->users++;
	ck->writers++;
	lock_drop(&c->lock);
	copy_into_cache(ck->memory + a, buf, b - a);
	lock_take(&c->lock);
	ck->writers--;
	if (!ct->error)
		content_note_written_locked(ct, ck, a, b);
	content_unuse_locked(ct, ck);
	return ct->error;
}

int content_begin_write(struct content *ct)
{
	int err = 0;
	LOCK_SCOPE(&ct->all->cache->lock);

	while (ct->cutting && !err)
		err = content_wait_for_landing(ct);
	ct->nr_writing += !err;
	return err;
}

void content_end_write(struct content *ct)
{
	LOCK_SCOPE(&ct->all->cache->lock);

	if (--ct->nr_writing == 0)
		waitq_wake_all(&ct->settled);
}

ssize_t content_keep(struct content *ct, const void *buf, size_t len, uint64_t off)
{
	size_t chunk = ct->all->cache->chunk_size, done = 0;
	int err = content_begin_write(ct);

	if (err)
		return err;
	while (done < len && !err) {
		uint64_t at = off + done;
		uint32_t a = (uint32_t)(at % chunk);
		size_t n = chunk - a < len - done ? chunk - a : len - done;

		err = write_part(ct, (const char *)buf + done, at / chunk, a, a + (uint32_t)n);
		if (!err)
			done += n;
	}
	{
		LOCK_SCOPE(&ct->all->cache->lock);
		ct->all->cache->absorbed += done;
	}
	content_end_write(ct);
	if (err == -ETIMEDOUT && ct->staged)
		content_fail(ct, err); /* the cache is better used for other files */
	return done ? (ssize_t)done : err;
}

ssize_t content_write(struct content *ct, const void *buf, size_t len, uint64_t off)
{
	ssize_t n;
	{
		LOCK_SCOPE(&ct->all->cache->lock);
		n = list_empty(&ct->promises) ? 0 : content_await_promised_locked(ct, off, len);
	}
	if (!n)
		n = content_keep(ct, buf, len, off);
	if (n > 0) {
		LOCK_SCOPE(&ct->all->cache->lock);
		ct->written_ns = clock_wall_ns();
		places_cut(&ct->tensors, off, (uint64_t)n);
	}
	return n;
}
