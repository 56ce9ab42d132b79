/* SPDX-License-Identifier: MIT */
#include "engine/content/tensors.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 16

struct tensor *tensor_make(const struct ckptfs_tensor *layout, const char *name)
{
	struct tensor *t = calloc(1, sizeof(*t) + layout->name_len + 1);

	if (!t)
		return NULL;
	t->layout = *layout;
	t->refs = 1;
	memcpy(t->name, name, layout->name_len);
	t->unlisted = layout->kind == CKPTFS_OBJECT && !strcmp(t->name, CKPTFS_UNLISTED);
	return t;
}

void tensor_get(struct tensor *t)
{
	atomic_fetch_add(&t->refs, 1);
}

void tensor_put(struct tensor *t)
{
	if (t && atomic_fetch_sub(&t->refs, 1) == 1)
		free(t);
}

/* --- places --- */

static uint64_t end_of(const struct tensor_place *p)
{
	return p->at + p->bytes;
}

/* The first place that ends behind @off. */
static size_t find(const struct tensor_places *ps, uint64_t off)
{
	size_t lo = 0, hi = ps->nr;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (end_of(&ps->list[mid]) <= off)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

void places_cut(struct tensor_places *ps, uint64_t off, uint64_t len)
{
	size_t from = find(ps, off), to = from;

	if (!off && len == UINT64_MAX)
		ps->unknown = false; /* the file was emptied */
	for (; to < ps->nr && (ps->list[to].at < off || ps->list[to].at - off < len); to++) {
		ps->bytes -= ps->list[to].bytes;
		tensor_put(ps->list[to].tensor);
	}
	if (to == from)
		return;
	memmove(&ps->list[from], &ps->list[to], (ps->nr - to) * sizeof(*ps->list));
	ps->nr -= to - from;
}

/* True if @p continues the piece of the tensor before it, so that both are one place. */
static int extends(const struct tensor_place *before, const struct tensor_place *p)
{
	return before->tensor == p->tensor && end_of(before) == p->at &&
	       before->from + before->bytes == p->from;
}

static bool may_grow(const struct tensor_places *ps)
{
	return ps->nr < PLACES_FREE + ps->bytes / PLACE_BYTES;
}

void places_add(struct tensor_places *ps, const struct tensor_place *p)
{
	size_t at;

	if (ps->unknown)
		return;
	places_cut(ps, p->at, p->bytes);
	if (p->tensor->unlisted)
		return;
	at = find(ps, p->at);
	ps->bytes += p->bytes;
	if (at && extends(&ps->list[at - 1], p)) {
		ps->list[at - 1].bytes += p->bytes;
		ps->list[at - 1].xxh3[0] = '\0';
		return;
	}
	if (ps->nr == ps->room) {
		size_t room = ps->room ? 2 * ps->room : FIRST_ROOM;
		struct tensor_place *more =
			may_grow(ps) ? realloc(ps->list, room * sizeof(*more)) : NULL;

		if (!more) {
			places_free(ps);
			ps->unknown = true;
			return;
		}
		ps->list = more;
		ps->room = room;
	}
	memmove(&ps->list[at + 1], &ps->list[at], (ps->nr - at) * sizeof(*ps->list));
	ps->list[at] = *p;
	ps->nr++;
	tensor_get(p->tensor);
}

void places_free(struct tensor_places *ps)
{
	while (ps->nr)
		tensor_put(ps->list[--ps->nr].tensor);
	free(ps->list);
	*ps = (struct tensor_places){0};
}

/* --- maps --- */

struct tensor_map *places_map(const struct tensor_places *ps)
{
	struct tensor_map *m = ps->nr ? malloc(sizeof(*m) + ps->nr * sizeof(*ps->list)) : NULL;
	size_t i;

	if (!m)
		return NULL;
	m->refs = 1;
	m->nr = ps->nr;
	for (i = 0; i < ps->nr; i++) {
		m->list[i] = ps->list[i];
		tensor_get(m->list[i].tensor);
	}
	return m;
}

void places_set(struct tensor_places *ps, const struct tensor_map *m)
{
	size_t i;

	places_free(ps);
	for (i = 0; i < m->nr; i++)
		places_add(ps, &m->list[i]);
}

struct tensor_map *tensor_map_get(struct tensor_map *m)
{
	if (m)
		atomic_fetch_add(&m->refs, 1);
	return m;
}

void tensor_map_put(struct tensor_map *m)
{
	if (!m || atomic_fetch_sub(&m->refs, 1) > 1)
		return;
	while (m->nr)
		tensor_put(m->list[--m->nr].tensor);
	free(m);
}
