/* SPDX-License-Identifier: MIT */
#include "engine/views/gather.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/tensors/cover.h"
#include "engine/tensors/types.h"

#define LONG_RUN ((uint64_t)64 << 10) /* is read into its place; shorter ones in blocks */
#define BLOCK	 ((size_t)1 << 20)

/* All numbers are bytes. */
struct part {
	const struct index_piece *p;
	size_t path;
	uint64_t run;	     /* the length of each of its runs */
	uint64_t first, end; /* the stretch of the tensor in which its bytes lie */
	uint64_t reach;	     /* the largest end of this part and all before it */
};

struct gather {
	const struct index_tensor *t;
	uint64_t size; /* of an element */
	size_t nr;
	struct part parts[]; /* by first */
};

/* The number of dimensions, from the last on, that the box takes whole, and the next one. */
static unsigned whole_dims(const struct index_tensor *t, const struct index_piece *p)
{
	unsigned d = t->ndim;

	while (d > 0 && p->box[t->ndim + d - 1] == t->shape[d - 1])
		d--;
	return d;
}

/* Where in the tensor the byte @at of the box lies. */
static uint64_t place_of(const struct gather *g, const struct part *pt, uint64_t at)
{
	const struct index_tensor *t = g->t;
	const uint64_t *offset = pt->p->box, *length = offset + t->ndim;
	uint64_t element = at / g->size, place = 0, step = 1;

	for (unsigned d = t->ndim; d-- > 0;) {
		place += (offset[d] + element % length[d]) * step;
		element /= length[d];
		step *= t->shape[d];
	}
	return place * g->size + at % g->size;
}

static void plan_part(const struct gather *g, struct part *pt)
{
	const struct index_tensor *t = g->t;
	const struct index_piece *p = pt->p;
	unsigned d = whole_dims(t, p);

	pt->run = g->size;
	for (unsigned i = d ? d - 1 : 0; i < t->ndim; i++)
		pt->run *= p->box[t->ndim + i];
	pt->first = place_of(g, pt, p->from);
	pt->end = place_of(g, pt, p->from + p->bytes - 1) + 1;
}

static int by_first(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	return (x->first > y->first) - (x->first < y->first);
}

int gather_create(struct gather **out, const struct index_tensor *t,
		  size_t (*path_nr)(const void *arg, const char *path), const void *arg)
{
	__cleanup_free struct index_piece **list = cover_order(t);
	struct gather *g = calloc(1, sizeof(*g) + t->nr_pieces * sizeof(g->parts[0]));
	uint64_t reach = 0;

	*out = g;
	if (!g || !list) {
		free(g);
		return -ENOMEM;
	}
	g->t = t;
	g->size = type_bits(t->dtype) / 8;
	for (size_t i = 0; list[i]; i++) {
		struct part *pt = &g->parts[g->nr];

		if (!list[i]->bytes)
			continue;
		*pt = (struct part){.p = list[i], .path = path_nr(arg, list[i]->path)};
		plan_part(g, pt);
		g->nr++;
	}
	if (g->nr)
		qsort(g->parts, g->nr, sizeof(g->parts[0]), by_first);
	for (size_t i = 0; i < g->nr; i++) {
		reach = g->parts[i].end > reach ? g->parts[i].end : reach;
		g->parts[i].reach = reach;
	}
	return 0;
}

/* What is asked for: [off, off + len) of the tensor into @buf. */
struct ask {
	char *buf;
	uint64_t off, end;
	const struct view_source *src;
	char *block; /* malloced at the first use */
};

/*
 * The first byte of the box of a run that ends behind @off of the tensor; not before @pt->p->from.
 * Runs are in order, so it can be searched for.
 */
static uint64_t find_run(const struct gather *g, const struct part *pt, uint64_t off)
{
	uint64_t from = pt->p->from, end = from + pt->p->bytes;
	uint64_t lo = from / pt->run, hi = (end - 1) / pt->run;

	while (lo < hi) {
		uint64_t mid = lo + (hi - lo) / 2;

		if (place_of(g, pt, mid * pt->run) + pt->run <= off)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo * pt->run > from ? lo * pt->run : from;
}

/* The bytes [*at, *at + n) of the box that are of one run and asked for; *place: in the tensor. */
static uint64_t next_stretch(const struct gather *g, const struct part *pt, const struct ask *a,
			     uint64_t *at, uint64_t *place)
{
	uint64_t end = pt->p->from + pt->p->bytes, n;

	if (*at >= end)
		return 0;
	*place = place_of(g, pt, *at);
	n = pt->run - *at % pt->run;
	n = n < end - *at ? n : end - *at;
	if (*place < a->off) {
		uint64_t skip = a->off - *place;

		if (skip >= n)
			return 0;
		*at += skip;
		*place += skip;
		n -= skip;
	}
	if (*place >= a->end)
		return 0;
	return n < a->end - *place ? n : a->end - *place;
}

static int read_file(const struct part *pt, const struct ask *a, void *buf, uint64_t len,
		     uint64_t at)
{
	return a->src->read(a->src->arg, pt->path, buf, (size_t)len,
			    pt->p->at + (at - pt->p->from));
}

/* Short runs lie one behind the other in the file: a block of it is read, and dealt out. */
static int read_block(const struct gather *g, const struct part *pt, struct ask *a, uint64_t *at)
{
	uint64_t next = *at, start, place, n = next_stretch(g, pt, a, &next, &place);
	size_t len = 0;
	int err;

	start = next;
	if (n && place + n == a->end) { /* there is only one */
		*at = pt->p->from + pt->p->bytes;
		return read_file(pt, a, a->buf + (place - a->off), n, start);
	}
	for (; n && len < BLOCK; n = next_stretch(g, pt, a, &next, &place)) {
		next += n;
		len = next - start < BLOCK ? (size_t)(next - start) : BLOCK;
	}
	*at = len ? start + len : pt->p->from + pt->p->bytes;
	if (!a->block)
		a->block = malloc(BLOCK);
	if (!a->block)
		return -ENOMEM;
	err = len ? read_file(pt, a, a->block, len, start) : 0;
	for (next = start; !err && next < start + len; next += n) {
		n = next_stretch(g, pt, a, &next, &place);
		n = n < start + len - next ? n : start + len - next;
		memcpy(a->buf + (place - a->off), a->block + (next - start), (size_t)n);
	}
	return err;
}

static int read_part(const struct gather *g, const struct part *pt, struct ask *a)
{
	uint64_t at = find_run(g, pt, a->off), end = pt->p->from + pt->p->bytes, place, n;
	int err = 0;

	while (!err && at < end) {
		if (pt->run < LONG_RUN) {
			err = read_block(g, pt, a, &at);
			continue;
		}
		n = next_stretch(g, pt, a, &at, &place);
		if (!n)
			break;
		err = read_file(pt, a, a->buf + (place - a->off), n, at);
		at += n;
	}
	return err;
}

/* The first part that reaches behind @off. */
static size_t find_part(const struct gather *g, uint64_t off)
{
	size_t lo = 0, hi = g->nr;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (g->parts[mid].reach <= off)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

int gather_read(const struct gather *g, void *buf, size_t len, uint64_t off,
		const struct view_source *src)
{
	struct ask a = {.buf = buf, .off = off, .end = off + len, .src = src};
	int err = 0;

	for (size_t i = find_part(g, off); i < g->nr && g->parts[i].first < a.end && !err; i++)
		if (g->parts[i].end > off)
			err = read_part(g, &g->parts[i], &a);
	free(a.block);
	return err;
}

int gather_each_path(const struct gather *g, int (*one)(void *arg, size_t path), void *arg)
{
	int err = 0;

	for (size_t i = 0; i < g->nr && !err; i++)
		err = one(arg, g->parts[i].path);
	return err;
}
