/* SPDX-License-Identifier: MIT */
/*
 * Slots: lent memory in which the chunks of a file are put together, piece by piece. A piece lies
 * in its slot where its bytes lie in the chunk of the file. So small tensors that follow one
 * another share a slot. Once all pieces are reported, the slot lands (slot_land.c).
 */
#include <stdlib.h>

#include "engine/capture/session.h"

/* Grants are numbered one by one. */
static uint64_t hash_number(uint64_t nr)
{
	return nr * 0x9E3779B97F4A7C15ull;
}

static size_t chunk_size(const struct session *s)
{
	return s->loan->cache->chunk_size;
}

/* --- grants --- */

/* True if bytes at @off of @g can be added to the open slot. */
static bool continues_locked(const struct session *s, const struct generation *g, uint64_t off)
{
	const struct slot *slot = s->open;

	return slot && !slot->spoilt && slot->generation == g &&
	       slot->index == off / chunk_size(s) && off % chunk_size(s) >= slot->end;
}

/* Moves @slot to those that can land if all its pieces are reported. */
static void look_locked(struct session *s, struct slot *slot)
{
	if (slot->nr_out || slot == s->open)
		return;
	if (list_empty(&s->done))
		session_wake(s);
	list_del(&slot->link);
	list_append(&s->done, &slot->link);
}

void slot_close_locked(struct session *s)
{
	struct slot *slot = s->open;

	s->open = NULL;
	if (slot)
		look_locked(s, slot);
}

bool slot_has_room_locked(struct session *s)
{
	const struct capture *c;

	if (list_empty(&s->waiting))
		return false;
	c = container_of(s->waiting.next, struct capture, link);
	return continues_locked(s, c->owed.generation, c->owed.promise.off + c->nr_granted) ||
	       loan_has_room(s->loan);
}

static struct slot *open_slot_locked(struct session *s, const struct generation *g, uint64_t off)
{
	struct slot *slot;
	struct chunk *ck;

	slot_close_locked(s);
	ck = loan_take(s->loan);
	slot = ck ? calloc(1, sizeof(*slot)) : NULL;
	if (!slot) {
		if (ck)
			loan_give(s->loan, ck);
		return NULL;
	}
	slot->chunk = ck;
	slot->generation = g;
	slot->index = off / chunk_size(s);
	list_init(&slot->pieces);
	list_init(&slot->link);
	list_append(&s->slots, &slot->link);
	s->open = slot;
	return slot;
}

struct piece *slot_grant_locked(struct session *s, struct capture *c)
{
	uint64_t off = c->owed.promise.off + c->nr_granted,
		 left = c->owed.promise.len - c->nr_granted;
	uint32_t at = (uint32_t)(off % chunk_size(s));
	struct piece *p = calloc(1, sizeof(*p));
	struct slot *slot = continues_locked(s, c->owed.generation, off)
				    ? s->open
				    : open_slot_locked(s, c->owed.generation, off);

	if (!p || !slot) {
		free(p);
		return NULL;
	}
	p->slot = slot;
	p->capture = c;
	p->nr = ++s->last_grant;
	p->seq = c->seq;
	p->at = at;
	p->len = (uint32_t)(chunk_size(s) - at < left ? chunk_size(s) - at : left);
	list_append(&slot->pieces, &p->of_slot);
	list_append(&c->pieces, &p->of_capture);
	table_add(&s->granted_pieces, &p->node, hash_number(p->nr));
	slot->nr++;
	slot->nr_out++;
	slot->end = at + p->len;
	c->nr_granted += p->len;
	s->counts.stats.granted_bytes += p->len;
	if (c->nr_granted == c->owed.promise.len) {
		list_del(&c->link);
		list_append(&s->granted, &c->link);
	}
	return p;
}

struct piece *slot_find_piece_locked(struct session *s, uint64_t nr)
{
	struct list *l;

	table_for_each (l, &s->granted_pieces, hash_number(nr)) {
		struct piece *p = container_of(l, struct piece, node.link);

		if (p->nr == nr)
			return p;
	}
	return NULL;
}

void slot_report_locked(struct session *s, struct piece *p)
{
	table_del(&s->granted_pieces, &p->node);
	p->reported = true;
	s->counts.stats.granted_bytes -= p->len;
	p->slot->nr_out--;
	look_locked(s, p->slot);
}

void slots_void_locked(struct session *s, struct capture *c, bool known)
{
	/* @c may be the one that was to be added. */
	slot_close_locked(s);
	while (!list_empty(&c->pieces)) {
		struct piece *p = container_of(c->pieces.next, struct piece, of_capture);

		list_del(&p->of_capture);
		p->capture = NULL;
		p->slot->spoilt = true;
		if (known && !p->reported)
			slot_report_locked(s, p);
	}
}

void slots_given_up_locked(struct session *s, uint64_t seq)
{
	struct list *l, *next, *at;

	list_for_each_safe (l, next, &s->slots) {
		struct slot *slot = container_of(l, struct slot, link);

		list_for_each (at, &slot->pieces) {
			struct piece *p = container_of(at, struct piece, of_slot);

			if (!p->capture && !p->reported && (!seq || p->seq == seq))
				slot_report_locked(s, p);
		}
	}
}

/* --- end --- */

void slot_free_locked(struct session *s, struct slot *slot)
{
	while (!list_empty(&slot->pieces)) {
		struct piece *p = container_of(slot->pieces.next, struct piece, of_slot);

		if (p->capture)
			list_del(&p->of_capture);
		if (!p->reported)
			table_del(&s->granted_pieces, &p->node);
		list_del(&p->of_slot);
		free(p);
	}
	list_del(&slot->link);
	free(slot);
}

static void free_all(struct session *s, struct list *slots)
{
	while (slots->next && !list_empty(slots))
		slot_free_locked(s, container_of(slots->next, struct slot, link));
}

void slots_free_locked(struct session *s)
{
	free_all(s, &s->slots);
	free_all(s, &s->done);
}
