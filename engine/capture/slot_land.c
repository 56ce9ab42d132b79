/* SPDX-License-Identifier: MIT */
/*
 * A slot lands: it becomes the chunk of its file. Its bytes are copied only if the file has more
 * other bytes there (content_keep); or if the storage is slow, so that little lent memory is left
 * while the cache has some to spare.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/capture/session.h"

/* The pieces that land, in order; NULL without memory. Called without locks. */
static struct content_piece *pieces_of(const struct slot *slot)
{
	struct content_piece *all = malloc(slot->nr * sizeof(*all));
	struct list *l;
	unsigned i = 0;

	list_for_each (l, &slot->pieces) {
		const struct piece *p = container_of(l, struct piece, of_slot);

		if (all)
			all[i++] = (struct content_piece){p->at, p->at + p->len};
	}
	return all;
}

/* Copies the pieces into the cache, as writes do. 0, or the error by which the file has failed. */
static int copy_pieces(const struct session *s, struct content *ct, const struct slot *slot)
{
	struct list *l;

	list_for_each (l, &slot->pieces) {
		const struct piece *p = container_of(l, struct piece, of_slot);
		ssize_t n;

		if (!p->landing)
			continue;
		n = content_keep(ct, slot->chunk->memory + p->at, p->len,
				 slot->index * s->loan->cache->chunk_size + p->at);
		if (n != (ssize_t)p->len)
			return n < 0 ? (int)n : content_error(ct) ? content_error(ct) : -EIO;
	}
	return 0;
}

/*
 * A chunk with what is in @slot, which the session can fill again then; or that of @slot itself.
 * The chunk is for content_adopt, or else for give_chunk. Where users are limited, what a loan
 * leaves of a user's part is for plain writes.
 */
static struct chunk *copy_if_tight(const struct session *s, const struct slot *slot)
{
	struct cache *c = s->loan->cache;
	struct chunk *ck = NULL;
	{
		LOCK_SCOPE(&c->lock);
		if (!c->limits.per_uid && loan_is_tight_locked(s->loan))
			ck = cache_claim_spare(c, s->uid);
	}
	if (!ck)
		return slot->chunk;
	memcpy(ck->memory, slot->chunk->memory, slot->end);
	return ck;
}

static void give_chunk(const struct session *s, struct chunk *ck)
{
	LOCK_SCOPE(&s->loan->cache->lock);
	cache_give_back(s->loan->cache, ck);
}

/*
 * content_adopt, of @slot or of a copy. *@freed: the chunk of @slot, if that is for the session
 * again; or NULL.
 */
static int adopt(const struct session *s, struct content *ct, const struct slot *slot,
		 const struct content_piece *pieces, struct chunk **freed)
{
	struct chunk *ck = copy_if_tight(s, slot);
	int err = content_adopt(ct, ck, slot->index, pieces, slot->nr);

	if (ck != slot->chunk && err != 1)
		give_chunk(s, ck);
	*freed = err == 1 && ck == slot->chunk ? NULL : slot->chunk;
	return err;
}

static uint64_t bytes_of(const struct slot *slot)
{
	uint64_t bytes = 0;
	struct list *l;

	list_for_each (l, &slot->pieces)
		bytes += container_of(l, struct piece, of_slot)->len;
	return bytes;
}

/* Called without locks; captures of the slot may fail meanwhile. 0, or the error of the file. */
static int land(struct session *s, struct content *ct, struct slot *slot, bool spoilt,
		uint64_t *copied)
{
	/* Other users may have written to a file that is not the session's own. */
	bool own = ct->owner.uid == s->uid && !spoilt;
	__cleanup_free struct content_piece *pieces = own ? pieces_of(slot) : NULL;
	struct chunk *freed = slot->chunk;
	int err = pieces ? adopt(s, ct, slot, pieces, &freed) : 0;

	if (freed && err >= 0)
		*copied += bytes_of(slot);
	if (!err)
		err = copy_pieces(s, ct, slot);
	if (freed)
		loan_give(s->loan, freed);
	return err < 0 ? err : 0;
}

/* Marks the captures of @slot. Returns the content of their file, or NULL: all have failed. */
static struct content *begin_landing_locked(struct slot *slot)
{
	struct content *ct = NULL;
	struct list *l;

	list_for_each (l, &slot->pieces) {
		struct piece *p = container_of(l, struct piece, of_slot);

		p->landing = p->capture;
		if (!p->landing)
			continue;
		p->landing->landing = true;
		ct = generation_content(p->landing->owed.generation);
	}
	return ct;
}

void slot_land_locked(struct session *s, struct slot *slot)
{
	struct content *ct = begin_landing_locked(slot);
	bool spoilt = slot->spoilt;
	uint64_t copied = 0;
	struct list *l;
	int err = 0;

	list_del(&slot->link);
	lock_drop(&s->lock);
	if (ct)
		err = land(s, ct, slot, spoilt, &copied);
	else
		loan_give(s->loan, slot->chunk);
	lock_take(&s->lock);
	s->counts.copied += copied;
	list_for_each (l, &slot->pieces) {
		struct piece *p = container_of(l, struct piece, of_slot);

		list_del(&p->of_capture);
		p->capture = NULL;
		if (p->landing)
			session_landed_locked(s, p->landing, p->len, err);
	}
	slot_free_locked(s, slot);
	waitq_wake_all(&s->changed);
}
