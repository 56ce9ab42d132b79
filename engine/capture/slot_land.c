/* SPDX-License-Identifier: MIT */
/*
 * A slot lands: it becomes the chunk of its file. Only if the file has more other bytes there than
 * captured ones, these are copied (content_keep).
 */
#include <errno.h>
#include <stdlib.h>

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

/* Called without locks; captures of the slot may fail meanwhile. 0, or the error of the file. */
static int land(struct session *s, struct content *ct, struct slot *slot, bool spoilt,
		uint64_t *copied)
{
	/* Other users may have written to a file that is not the session's own. */
	bool own = ct->owner.uid == s->uid && !spoilt;
	__cleanup_free struct content_piece *pieces = own ? pieces_of(slot) : NULL;
	int err = pieces ? content_adopt(ct, slot->chunk, slot->index, pieces, slot->nr) : 0;

	if (err == 1)
		return 0;
	if (!err) {
		struct list *l;

		list_for_each (l, &slot->pieces)
			*copied += container_of(l, struct piece, of_slot)->len;
		err = copy_pieces(s, ct, slot);
	}
	loan_give(s->loan, slot->chunk);
	return err;
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
