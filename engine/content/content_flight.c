/* SPDX-License-Identifier: MIT */
/*
 * Chunks on their way to the backing: which one is due, which of its bytes are written, and its
 * landing. The bytes of a flying chunk do not change. This file writes nothing (engine/flush does).
 */

#include "engine/cache/loan.h"
#include "engine/content/content_inside.h"

#define DIRECT_ALIGN	   4096u
#define PROMISES_LOOKED_AT 64

static bool may_fly(const struct chunk *ck)
{
	return !ck->writers && chunk_is_dirty(ck);
}

/*
 * True if bytes before @ck, of the same piece of the digest, are on their way: flushed before them,
 * the piece would have to be read again. Looks at the first promises only, which come first.
 */
static bool comes_too_early_locked(const struct cache *c, const struct chunk *ck)
{
	const struct content *ct = ck->content;
	uint64_t off = ck->index * c->chunk_size, piece = off - off % DIGEST_PIECE;
	const struct list *l;
	unsigned nr = 0;

	if (!ct->digest || (ck->loan && loan_is_awaited_locked(ck->loan)))
		return false;
	list_for_each (l, &ct->promises) {
		const struct promise *p = container_of(l, const struct promise, link);

		if (p->off >= off || ++nr > PROMISES_LOOKED_AT)
			return false;
		if (p->off + p->len > piece)
			return true;
	}
	return false;
}

/* The first chunk that may fly of those before @ck in the same piece of the digest; or @ck. */
static struct chunk *first_of_piece_locked(struct cache *c, struct chunk *ck)
{
	struct chunk *first = ck;
	uint64_t i = ck->index;

	while (ck && i * c->chunk_size % DIGEST_PIECE) {
		ck = cache_find(c, first->content, --i);
		if (ck && ck->state == CHUNK_READY && may_fly(ck))
			first = ck;
	}
	return first;
}

static uint64_t piece_of(const struct chunk *ck)
{
	return ck->index * ck->content->all->cache->chunk_size / DIGEST_PIECE;
}

/* True if a thread digests what comes before @ck. */
static bool waits_for_digest_locked(const struct chunk *ck)
{
	const struct content *ct = ck->content;
	struct list *l;

	list_for_each (l, &ct->all->digesting) {
		struct flight *f = container_of(l, struct flight, digesting);

		if (f->content == ct && (ct->by_handle || piece_of(f->chunk) == piece_of(ck)))
			return true;
	}
	return false;
}

/*
 * The oldest dirty chunk of @queue into which no thread is writing, and that can be digested now.
 * Passes so many that cannot as there are in the pieces that pass at a time.
 */
static struct chunk *first_due_locked(struct cache *c, struct list *queue)
{
	size_t left = DIGEST_STREAMS * DIGEST_PIECE / c->chunk_size;
	struct list *l;

	list_for_each (l, queue) {
		struct chunk *ck = container_of(l, struct chunk, queue);

		if (!may_fly(ck))
			continue;
		if (waits_for_digest_locked(ck)) {
			if (!left--)
				return NULL;
			continue;
		}
		if (cache_pressed(c) || !comes_too_early_locked(c, ck))
			return ck->content->digest ? first_of_piece_locked(c, ck) : ck;
	}
	return NULL;
}

/*
 * Chooses O_DIRECT for whole blocks. The tail of a file, and odd pieces of a file written in
 * pieces, go through the page cache.
 */
static void choose_range(const struct cache *c, struct flight *f)
{
	struct content *ct = f->content;
	struct chunk *ck = f->chunk;
	uint32_t lo = ck->dirty_lo & ~(DIRECT_ALIGN - 1);
	uint32_t hi = (ck->dirty_hi + DIRECT_ALIGN - 1) & ~(DIRECT_ALIGN - 1);

	f->direct = ct->direct_fd >= 0 && lo >= ck->lo && hi <= ck->hi;
	if (!f->direct) {
		lo = ck->dirty_lo;
		hi = ck->dirty_hi;
	}
	f->data = ck->memory + lo;
	f->len = hi - lo;
	f->off = ck->index * c->chunk_size + lo;
}

static struct chunk *next_due_locked(struct cache *c)
{
	struct chunk *ck = first_due_locked(c, &c->ready);

	return ck || !cache_pressed(c) ? ck : first_due_locked(c, &c->partial);
}

bool content_any_due_locked(struct cache *c)
{
	return next_due_locked(c);
}

bool content_take_off_locked(struct cache *c, struct flight *f)
{
	struct chunk *ck = next_due_locked(c);

	if (!ck)
		return false;
	*f = (struct flight){.content = ck->content,
			     .chunk = ck,
			     .dirty_lo = ck->dirty_lo,
			     .dirty_hi = ck->dirty_hi};
	list_append(&ck->content->all->digesting, &f->digesting);
	ck->content->nr_submitted++;
	cache_set_state(c, ck, CHUNK_FLYING);
	choose_range(c, f);
	return true;
}

void content_digest(struct flight *f)
{
	struct cache *c = f->content->all->cache;
	struct chunk *ck = f->chunk;

	/* The bytes of a flying chunk do not change, but the chunk may be emptied meanwhile. */
	if (f->content->digest)
		digest_feed(f->content->digest, ck->index * c->chunk_size + f->dirty_lo,
			    ck->memory + f->dirty_lo, f->dirty_hi - f->dirty_lo);
	LOCK_SCOPE(&c->lock);
	list_del(&f->digesting);
}

void content_landed(struct flight *f, int err)
{
	struct content *ct = f->content;
	struct contents *all = ct->all;
	struct cache *c = all->cache;
	struct chunk *ck = f->chunk;
	bool rests;

	if (err)
		content_fail(ct, err);
	lock_take(&c->lock);
	ct->nr_submitted--;
	if (f->off + f->len > ct->backing_end)
		ct->backing_end = f->off + f->len;
	ck->dirty_lo = ck->dirty_hi = 0;
	list_del(&ck->mine);
	list_append(&ct->clean, &ck->mine);
	cache_set_state(c, ck, CHUNK_CLEAN);
	rests = ct->staged && list_empty(&ct->dirty);
	if (!ct->staged || ck->loan || ct->error || (ct->orphan && !ct->refs))
		content_empty_chunk_locked(ct, ck);
	waitq_wake_all(&ct->settled);
	if (cache_pressed(c))
		cache_serve_waiting(c);
	lock_drop(&c->lock);
	if (rests)
		all->events.rested(all->events.arg);
}
