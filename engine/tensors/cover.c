/* SPDX-License-Identifier: MIT */
/*
 * Pieces with the same box are flat ranges of it. They are put together first. Then the boxes are
 * compared along the dimension in which they differ most, in one sweep.
 */
#include "engine/tensors/cover.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/tensors/types.h"

static int say(struct index *ix, struct index_tensor *t, const char *text)
{
	t->hole = index_text(ix, text, strlen(text));
	return t->hole ? 0 : -ENOMEM;
}

#define SAY(ix, t, ...) \
	({ \
		char say_[512]; \
		snprintf(say_, sizeof(say_), __VA_ARGS__); \
		say(ix, t, say_); \
	})

struct sorting {
	unsigned ndim, first; /* the dimension that is compared first */
};

static int compare_boxes(const struct index_piece *a, const struct index_piece *b,
			 const struct sorting *s)
{
	unsigned f = s->first;

	if (s->ndim && a->box[f] != b->box[f])
		return a->box[f] < b->box[f] ? -1 : 1;
	for (unsigned i = 0; i < 2 * s->ndim; i++)
		if (a->box[i] != b->box[i])
			return a->box[i] < b->box[i] ? -1 : 1;
	return 0;
}

static int by_box(const void *x, const void *y, void *sorting)
{
	const struct index_piece *a = *(struct index_piece *const *)x;
	const struct index_piece *b = *(struct index_piece *const *)y;
	int order = compare_boxes(a, b, sorting);

	if (order)
		return order;
	if (a->from != b->from)
		return a->from < b->from ? -1 : 1;
	return a->bytes < b->bytes ? 1 : a->bytes > b->bytes ? -1 : 0;
}

/* The dimension in which most pieces differ from the one before them. */
static unsigned widest(const struct index_tensor *t)
{
	unsigned best = 0;
	size_t most = 0;

	for (unsigned d = 0; d < t->ndim; d++) {
		size_t nr = 0;

		for (const struct index_piece *p = t->pieces; p && p->next; p = p->next)
			nr += p->box[d] != p->next->box[d];
		if (nr > most) {
			most = nr;
			best = d;
		}
	}
	return best;
}

/* 0, or 1: t->hole is set. */
static int check_bounds(struct index *ix, struct index_tensor *t, const struct index_piece *p)
{
	uint64_t volume, bytes;

	for (unsigned i = 0; i < t->ndim; i++)
		if (p->box[i] > t->shape[i] || p->box[t->ndim + i] > t->shape[i] - p->box[i])
			return SAY(ix, t, "hole: a piece in %s is out of bounds", p->path) ?: 1;
	if (!shape_volume(p->box + t->ndim, t->ndim, &volume) ||
	    !type_bytes(t->dtype, volume, &bytes) || p->from > bytes || p->bytes > bytes - p->from)
		return SAY(ix, t, "hole: a piece in %s has more bytes than its place", p->path)
			       ?: 1;
	if (p->unreachable)
		return SAY(ix, t, "hole: %s %s", p->path, p->unreachable) ?: 1;
	return 0;
}

static bool overlap(const struct index_piece *a, const struct index_piece *b, unsigned ndim)
{
	for (unsigned i = 0; i < ndim; i++)
		if (!a->box[ndim + i] || !b->box[ndim + i] ||
		    a->box[i] + a->box[ndim + i] <= b->box[i] ||
		    b->box[i] + b->box[ndim + i] <= a->box[i])
			return false;
	return true;
}

/*
 * Looks at the pieces [i, *next) of @list, which have one box. Sets *@bytes to what they cover. 0,
 * or 1: t->hole is set.
 */
static int check_flat(struct index *ix, struct index_tensor *t, struct index_piece **list,
		      size_t *next, const struct sorting *s, uint64_t *bytes)
{
	size_t i = *next, n = i;
	uint64_t end = 0;

	*bytes = 0;
	for (; n < t->nr_pieces && !compare_boxes(list[i], list[n], s); n++) {
		const struct index_piece *p = list[n];

		if (n > i && p->from == list[n - 1]->from && p->bytes == list[n - 1]->bytes)
			continue; /* a replica */
		if (n > i && p->from < end)
			return SAY(ix, t, "hole: pieces in %s and %s overlap", list[n - 1]->path,
				   p->path)
				       ?: 1;
		end = p->from + p->bytes;
		*bytes += p->bytes;
	}
	*next = n;
	return 0;
}

/* The boxes of @list, which has @nr, are sorted by dimension s->first. 0, or 1: as above. */
static int check_disjoint(struct index *ix, struct index_tensor *t, struct index_piece **list,
			  size_t nr, const struct sorting *s)
{
	for (size_t i = 0; t->ndim && i < nr; i++) {
		uint64_t end = list[i]->box[s->first] + list[i]->box[t->ndim + s->first];

		for (size_t n = i + 1; n < nr && list[n]->box[s->first] < end; n++) {
			if (overlap(list[i], list[n], t->ndim))
				return SAY(ix, t, "hole: pieces in %s and %s overlap",
					   list[i]->path, list[n]->path)
					       ?: 1;
			if (!index_spend(ix, 1))
				return SAY(ix, t,
					   "hole: too many of its pieces lie beside each "
					   "other to be compared")
					       ?: 1;
		}
	}
	return 0;
}

/* The first index along s->first that no box of @list reaches, for the text of a hole. */
static uint64_t first_gap(const struct index_tensor *t, struct index_piece **list, size_t nr,
			  const struct sorting *s)
{
	uint64_t end = 0;

	for (size_t i = 0; i < nr; i++) {
		uint64_t reach = list[i]->box[s->first] + list[i]->box[t->ndim + s->first];

		if (list[i]->box[s->first] > end)
			break;
		end = reach > end ? reach : end;
	}
	return end;
}

static int say_missing(struct index *ix, struct index_tensor *t, struct index_piece **boxes,
		       size_t nr, const struct sorting *s, uint64_t have, uint64_t want)
{
	uint64_t gap = t->ndim ? first_gap(t, boxes, nr, s) : 0;

	if (!t->ndim || gap >= t->shape[s->first])
		return SAY(ix, t, "hole: %" PRIu64 " of %" PRIu64 " bytes are missing", want - have,
			   want);
	return SAY(ix, t,
		   "hole: %" PRIu64 " of %" PRIu64 " bytes are missing, first at index %" PRIu64
		   " of dimension %u",
		   want - have, want, gap, s->first);
}

/* All pieces, sorted; then NULL. */
static struct index_piece **sorted(const struct index_tensor *t, struct sorting *s)
{
	struct index_piece **list = calloc(t->nr_pieces + 1, sizeof(*list));
	size_t i = 0;

	for (struct index_piece *p = t->pieces; p && list; p = p->next)
		list[i++] = p;
	if (list)
		qsort_r(list, t->nr_pieces, sizeof(*list), by_box, s);
	return list;
}

struct index_piece **cover_order(const struct index_tensor *t)
{
	struct sorting s = {.ndim = t->ndim};
	struct index_piece **list = sorted(t, &s);
	size_t nr = 0;

	for (size_t i = 0; list && i < t->nr_pieces; i++)
		if (!nr || by_box(&list[nr - 1], &list[i], &s))
			list[nr++] = list[i];
	if (list)
		list[nr] = NULL;
	return list;
}

int cover_check(struct index *ix, struct index_tensor *t)
{
	struct sorting s = {.ndim = t->ndim, .first = widest(t)};
	__cleanup_free struct index_piece **list = sorted(t, &s);
	uint64_t have = 0, want = index_bytes(t), bytes;
	size_t i = 0, nr = 0;
	int err = 0;

	if (!list)
		return -ENOMEM;
	t->hole = NULL;
	if (!shape_volume(t->shape, t->ndim, &bytes) || !type_bytes(t->dtype, bytes, &bytes))
		return SAY(ix, t, "hole: its shape is too large to be true");
	for (struct index_piece *p = t->pieces; p && !err; p = p->next)
		err = check_bounds(ix, t, p);
	for (i = 0; !err && i < t->nr_pieces; nr++) {
		struct index_piece *first = list[i];

		err = check_flat(ix, t, list, &i, &s, &bytes);
		have += bytes;
		list[nr] = first; /* never ahead of i */
	}
	if (!err)
		err = check_disjoint(ix, t, list, nr, &s);
	if (!err && have != want && !t->opaque)
		err = say_missing(ix, t, list, nr, &s, have, want);
	return err < 0 ? err : 0;
}
