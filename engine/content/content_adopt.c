/* SPDX-License-Identifier: MIT */
/*
 * Chunks that were filled elsewhere (cache/loan.h) and become a part of a file without a copy. The
 * file may have a chunk there already, with the bytes between the tensors. Then these few bytes are
 * copied, and the other chunk goes.
 */
#include <errno.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/content/content_inside.h"

static uint32_t min(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static uint32_t max(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* The chunk that the file has at @index, unused by all others; *@old is NULL if there is none. */
static int await_other_locked(struct content *ct, uint64_t index, struct chunk **old)
{
	struct cache *c = ct->all->cache;
	uint64_t limit = c->limits.stall_timeout_s * NSEC_PER_SEC, start = clock_mono_ns();
	int err = 0;

	for (;;) {
		*old = ct->error ? NULL : cache_find(c, ct, index);
		if (ct->error)
			return ct->error;
		if (!*old || ((*old)->state != CHUNK_FLYING && !(*old)->users))
			return 0;
		if (err)
			return err;
		err = content_wait_until_landing_locked(ct, start + limit);
	}
}

/* True if [a, b) is empty, or bytes of @old, which may be NULL. */
static bool has(const struct chunk *old, uint32_t a, uint32_t b)
{
	return a >= b || (old && a >= old->lo && b <= old->hi);
}

/*
 * The number of bytes to copy from @old for all from the first to the last byte to be there, or
 * SIZE_MAX: neither has some of them.
 */
static size_t to_copy(const struct chunk *old, const struct content_piece *p, unsigned nr)
{
	size_t sum = 0;

	for (unsigned i = 1; i < nr; i++) {
		if (!has(old, p[i - 1].hi, p[i].lo))
			return SIZE_MAX;
		sum += p[i].lo - p[i - 1].hi;
	}
	if (!old)
		return sum;
	if (old->hi < p[0].lo || old->lo > p[nr - 1].hi)
		return SIZE_MAX;
	sum += old->lo < p[0].lo ? p[0].lo - old->lo : 0;
	return sum + (old->hi > p[nr - 1].hi ? old->hi - p[nr - 1].hi : 0);
}

static void copy_rest(struct chunk *ck, const struct chunk *old, uint32_t lo, uint32_t hi,
		      const struct content_piece *p, unsigned nr)
{
	uint32_t at = lo;

	for (unsigned i = 0; i < nr; i++) {
		if (at < p[i].lo)
			memcpy(ck->memory + at, old->memory + at, p[i].lo - at);
		at = p[i].hi;
	}
	if (at < hi)
		memcpy(ck->memory + at, old->memory + at, hi - at);
}

/* Puts @ck in the place of @old. */
static void replace_locked(struct content *ct, struct chunk *ck, struct chunk *old, uint64_t index,
			   const struct content_piece *p, unsigned nr)
{
	struct cache *c = ct->all->cache;
	uint32_t lo = p[0].lo, hi = p[nr - 1].hi, dirty_lo = lo, dirty_hi = hi;

	cache_bind(c, ck, ct, index);
	if (old) {
		lo = min(lo, old->lo);
		hi = max(hi, old->hi);
	}
	if (old && chunk_is_dirty(old)) {
		/* It is as old as the oldest bytes in it: a sync may be waiting for these. */
		dirty_lo = min(dirty_lo, old->dirty_lo);
		dirty_hi = max(dirty_hi, old->dirty_hi);
		ck->turned = old->turned;
		ck->since_ns = old->since_ns;
		list_push(&old->mine, &ck->mine);
		if (old->state == CHUNK_READY)
			content_make_ready_locked(c, ck);
	} else {
		content_turn_dirty_locked(ct, ck);
	}
	if (old)
		content_empty_chunk_locked(ct, old);
	ck->lo = lo;
	ck->hi = hi;
	content_note_written_locked(ct, ck, dirty_lo, dirty_hi);
	waitq_wake_all(&ct->settled);
}

static int adopt_locked(struct content *ct, struct chunk *ck, uint64_t index,
			const struct content_piece *p, unsigned nr)
{
	struct cache *c = ct->all->cache;
	struct chunk *old;
	size_t rest, given = 0;
	int err = await_other_locked(ct, index, &old);

	if (err)
		return err;
	for (unsigned i = 0; i < nr; i++)
		given += p[i].hi - p[i].lo;
	rest = to_copy(old, p, nr);
	if (rest > given)
		return 0;
	if (rest) {
		uint32_t lo = old->lo, hi = old->hi;

		old->users++;
		old->writers++;
		lock_drop(&c->lock);
		copy_rest(ck, old, min(lo, p[0].lo), max(hi, p[nr - 1].hi), p, nr);
		lock_take(&c->lock);
		old->writers--;
		if (ct->error || old->lo != lo || old->hi != hi) { /* it was emptied meanwhile */
			content_unuse_locked(ct, old);
			return ct->error;
		}
		old->users--;
	}
	replace_locked(ct, ck, old, index, p, nr);
	c->absorbed += given;
	return 1;
}

int content_adopt(struct content *ct, struct chunk *ck, uint64_t index,
		  const struct content_piece *pieces, unsigned nr)
{
	int err = content_begin_write(ct);

	if (err)
		return err;
	{
		LOCK_SCOPE(&ct->all->cache->lock);
		err = adopt_locked(ct, ck, index, pieces, nr);
	}
	content_end_write(ct);
	if (err == -ETIMEDOUT)
		content_fail(ct, err); /* the cache is better used for other files */
	return err;
}
