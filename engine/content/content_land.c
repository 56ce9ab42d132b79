/* SPDX-License-Identifier: MIT */
/*
 * Places in the cache into which bytes are received (struct content_landing). A place belongs to
 * one thread, which waits for nothing while it has it. Bytes there count only once they are taken.
 */
#include <string.h>

#include "engine/base/clock.h"
#include "engine/content/content_inside.h"

static bool is_bound(const struct content_landing *l, unsigned piece)
{
	return l->chunks[piece]->content;
}

static void leave_locked(struct content_landing *l)
{
	while (l->nr) {
		struct chunk *ck = l->chunks[--l->nr];

		if (is_bound(l, l->nr)) {
			ck->writers--;
			content_unuse_locked(l->content, ck);
		} else {
			cache_give_back(l->content->all->cache, ck);
		}
	}
}

bool content_land(struct content *ct, uint64_t off, size_t len, struct content_landing *l)
{
	struct cache *c = ct->all->cache;
	size_t done = 0;
	LOCK_SCOPE(&c->lock);

	*l = (struct content_landing){.content = ct, .off = off};
	while (done < len && l->nr < LANDING_PIECES) {
		uint32_t a = (uint32_t)((off + done) % c->chunk_size);
		size_t n = c->chunk_size - a < len - done ? c->chunk_size - a : len - done;
		struct chunk *ck = cache_find(c, ct, (off + done) / c->chunk_size);

		/* Nobody knows yet whose request comes: it must not get into lent memory. */
		if (ck &&
		    (ck->loan || l->nr || ck->state != CHUNK_PARTIAL || ck->writers || ck->hi != a))
			break;
		if (ck) {
			ck->users++;
			ck->writers++;
		} else {
			ck = a ? NULL : cache_claim_spare(c, ct->owner.uid);
		}
		if (!ck)
			break;
		l->chunks[l->nr] = ck;
		l->bytes[l->nr++] = (struct iovec){ck->memory + a, n};
		done += n;
	}
	if (done == len && !ct->error && !ct->published && list_empty(&ct->promises))
		return true;
	leave_locked(l);
	l->content = NULL;
	return false;
}

void content_copy_landed(const struct content_landing *l, void *buf, size_t len)
{
	size_t done = 0;
	unsigned i;

	for (i = 0; i < l->nr && done < len; i++) {
		size_t n = l->bytes[i].iov_len < len - done ? l->bytes[i].iov_len : len - done;

		memcpy((char *)buf + done, l->bytes[i].iov_base, n);
		done += n;
	}
}

/* True if each piece can still go where it was meant to. */
static bool still_fits_locked(const struct content_landing *l)
{
	struct content *ct = l->content;
	struct cache *c = ct->all->cache;
	uint64_t off = l->off;
	unsigned i;

	for (i = 0; i < l->nr; i++) {
		struct chunk *ck = l->chunks[i];

		if (is_bound(l, i) ? ck->lo == ck->hi || ck->hi != off % c->chunk_size
				   : cache_find(c, ct, off / c->chunk_size) != NULL)
			return false;
		off += l->bytes[i].iov_len;
	}
	return !ct->error && !ct->cutting && list_empty(&ct->promises);
}

bool content_take_landed(struct content_landing *l, size_t len)
{
	struct content *ct = l->content;
	struct cache *c = ct->all->cache;
	size_t done = 0;
	unsigned i;
	LOCK_SCOPE(&c->lock);

	if (!still_fits_locked(l))
		return false;
	for (i = 0; i < l->nr && done < len; i++) {
		uint32_t a = (uint32_t)((l->off + done) % c->chunk_size);
		size_t n = l->bytes[i].iov_len < len - done ? l->bytes[i].iov_len : len - done;
		struct chunk *ck = l->chunks[i];

		if (!is_bound(l, i)) {
			cache_bind(c, ck, ct, (l->off + done) / c->chunk_size);
			content_turn_dirty_locked(ct, ck);
			ck->users++;
			ck->writers++;
		}
		content_note_written_locked(ct, ck, a, a + (uint32_t)n);
		done += n;
	}
	ct->written_ns = clock_wall_ns();
	places_cut(&ct->tensors, l->off, done);
	c->absorbed += done;
	leave_locked(l);
	return true;
}

void content_leave(struct content_landing *l)
{
	struct content *ct = l->content;

	if (!ct)
		return;
	{
		LOCK_SCOPE(&ct->all->cache->lock);
		leave_locked(l);
	}
	l->content = NULL;
	content_put(ct);
}
