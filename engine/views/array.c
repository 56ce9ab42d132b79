/* SPDX-License-Identifier: MIT */
#include "engine/views/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/tensors/types.h"
#include "engine/views/round.h"

#define LONG_RUN ((uint64_t)64 << 10) /* is read into its place; shorter ones in blocks */
#define BLOCK	 ((size_t)1 << 20)
#define ELEMENTS ((size_t)64 << 10)   /* are rounded at once */
#define NEAR	 ((uint64_t)64 << 10) /* what lies so near is read at once, whatever its order */

/* A part of another array: runs of bytes that lie together in both. */
struct part {
	const struct array *from;
	uint64_t at_from, at_to, run, nr;
	uint64_t reach; /* the largest end of this part and all before it, in the array */
	unsigned nr_axes;
	struct array_axis *axes; /* of the runs */
};

struct array {
	struct array *next; /* of the view */
	size_t number;	    /* among all of the view */
	enum { STORED, JOINED, ROUNDED } kind;
	uint64_t bytes;
	struct gather *gather;	  /* STORED */
	const struct array *from; /* ROUNDED */
	const char *dtype;	  /* ROUNDED: of from */
	size_t nr;		  /* JOINED */
	struct part parts[];	  /* by at_to */
};

static struct array *add(struct arrays *all, size_t nr)
{
	struct array *a = calloc(1, sizeof(*a) + nr * sizeof(a->parts[0]));

	if (a) {
		a->next = all->first;
		a->number = all->nr++;
		all->first = a;
	}
	return a;
}

void arrays_destroy(struct arrays *all)
{
	while (all->first) {
		struct array *a = all->first;

		all->first = a->next;
		for (size_t i = 0; i < a->nr; i++)
			free(a->parts[i].axes);
		free(a->gather);
		free(a);
	}
}

int array_stored(struct array **out, struct arrays *all, const struct index_tensor *t,
		 size_t (*path_nr)(const void *arg, const char *path), const void *arg)
{
	struct array *a = *out = add(all, 0);

	if (!a)
		return -ENOMEM;
	a->kind = STORED;
	a->bytes = index_bytes(t);
	return gather_create(&a->gather, t, path_nr, arg);
}

int array_rounded(struct array **out, struct arrays *all, const struct array *from,
		  const char *dtype)
{
	struct array *a = *out = add(all, 0);

	if (!a)
		return -ENOMEM;
	a->kind = ROUNDED;
	a->bytes = round_bytes(from->bytes, dtype);
	a->from = from;
	a->dtype = dtype;
	return 0;
}

int array_joined(struct array **out, struct arrays *all, uint64_t bytes, size_t nr)
{
	struct array *a = *out = add(all, nr);

	if (!a)
		return -ENOMEM;
	a->kind = JOINED;
	a->bytes = bytes;
	return 0;
}

/* Axes that only go on where a run ends make it longer; those of one step are nothing. */
static void plan(struct part *p, unsigned element, const struct array_axis *axes, unsigned nr)
{
	p->run = element;
	while (nr && (axes[nr - 1].length == 1 ||
		      (axes[nr - 1].from == p->run && axes[nr - 1].to == p->run)))
		p->run *= axes[--nr].length;
	p->nr = 1;
	for (unsigned i = 0; i < nr; i++)
		if (axes[i].length != 1) {
			p->axes[p->nr_axes++] = axes[i];
			p->nr *= axes[i].length;
		}
}

/* Where the run number @k lies. */
static void find_run(const struct part *p, uint64_t k, uint64_t *from, uint64_t *to)
{
	*from = p->at_from;
	*to = p->at_to;
	for (unsigned i = p->nr_axes; i-- > 0;) {
		uint64_t step = k % p->axes[i].length;

		k /= p->axes[i].length;
		*from += step * p->axes[i].from;
		*to += step * p->axes[i].to;
	}
}

int array_add_part(struct array *a, const struct array *from, uint64_t at_from, uint64_t at_to,
		   unsigned element, const struct array_axis *axes, unsigned nr)
{
	struct part p = {.from = from, .at_from = at_from, .at_to = at_to};
	uint64_t last_from, last_to;
	size_t i = a->nr++;

	p.axes = calloc(nr + 1, sizeof(*p.axes));
	if (!p.axes) {
		a->nr--;
		return -ENOMEM;
	}
	plan(&p, element, axes, nr);
	for (; i && a->parts[i - 1].at_to > at_to; i--)
		a->parts[i] = a->parts[i - 1];
	a->parts[i] = p;
	for (; i < a->nr; i++) {
		struct part *one = &a->parts[i];

		find_run(one, one->nr - 1, &last_from, &last_to);
		one->reach = last_to + one->run;
		if (i && a->parts[i - 1].reach > one->reach)
			one->reach = a->parts[i - 1].reach;
	}
	return 0;
}

/* What is asked for: [off, end) of the array into @buf. */
struct ask {
	char *buf;
	uint64_t off, end;
	const struct view_source *src;
	char *block; /* malloced at the first use */
};

/* The first run that ends behind @off. They are in order. */
static uint64_t first_behind(const struct part *p, uint64_t off)
{
	uint64_t lo = 0, hi = p->nr, from, to;

	while (lo < hi) {
		uint64_t mid = lo + (hi - lo) / 2;

		find_run(p, mid, &from, &to);
		if (to + p->run <= off)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* The bytes of the run @k that are asked for, and where they lie. 0: none, and none behind it. */
static uint64_t stretch(const struct part *p, const struct ask *a, uint64_t k, uint64_t *from,
			uint64_t *to)
{
	uint64_t skip, n = p->run;

	if (k >= p->nr)
		return 0;
	find_run(p, k, from, to);
	if (*to >= a->end)
		return 0;
	skip = *to < a->off ? a->off - *to : 0;
	*from += skip;
	*to += skip;
	n -= skip;
	return n < a->end - *to ? n : a->end - *to;
}

/* Runs that are read at once, and the stretch of the source that has them. */
struct block {
	uint64_t nr, first, end;
};

/* As many runs from @k on as lie near each other, or have half of what lies between. */
static struct block take_block(const struct part *p, const struct ask *a, uint64_t k)
{
	struct block b = {.first = UINT64_MAX};
	uint64_t from, to, n, sum = 0;

	while ((n = stretch(p, a, k + b.nr, &from, &to))) {
		uint64_t first = from < b.first ? from : b.first;
		uint64_t end = from + n > b.end ? from + n : b.end;

		sum += n;
		if (b.nr && (end - first > BLOCK || (end - first > NEAR && end - first > 2 * sum)))
			break;
		b = (struct block){b.nr + 1, first, end};
	}
	return b;
}

static int read_block(const struct part *p, struct ask *a, uint64_t k, const struct block *b)
{
	uint64_t from, to;
	int err;

	if (!a->block)
		a->block = malloc(BLOCK);
	if (!a->block)
		return -ENOMEM;
	err = array_read(p->from, a->block, (size_t)(b->end - b->first), b->first, a->src);
	for (uint64_t i = 0; i < b->nr && !err; i++) {
		uint64_t n = stretch(p, a, k + i, &from, &to);

		memcpy(a->buf + (to - a->off), a->block + (from - b->first), (size_t)n);
	}
	return err;
}

static int read_part(const struct part *p, struct ask *a)
{
	uint64_t k = first_behind(p, a->off), from, to, n;
	int err = 0;

	while (!err && (n = stretch(p, a, k, &from, &to))) {
		struct block b = {.nr = 1};

		if (n < LONG_RUN)
			b = take_block(p, a, k);
		err = b.nr > 1 ? read_block(p, a, k, &b)
			       : array_read(p->from, a->buf + (to - a->off), (size_t)n, from,
					    a->src);
		k += b.nr;
	}
	return err;
}

static int read_joined(const struct array *whole, struct ask *a)
{
	size_t lo = 0, hi = whole->nr;
	int err = 0;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (whole->parts[mid].reach <= a->off)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < whole->nr && whole->parts[lo].at_to < a->end && !err; lo++)
		err = read_part(&whole->parts[lo], a);
	free(a->block);
	return err;
}

static int read_rounded(const struct array *a, void *buf, size_t len, uint64_t off,
			const struct view_source *src)
{
	unsigned bits = type_bits(a->dtype), size = bits / 8;
	__cleanup_free char *from = malloc(ELEMENTS * size);
	__cleanup_free uint16_t *to = malloc(ELEMENTS * BF16_BYTES);
	char *at = buf;
	int err = from && to ? 0 : -ENOMEM;

	while (len && !err) {
		uint64_t first = off / BF16_BYTES;
		size_t skip = off % BF16_BYTES, nr = (skip + len + 1) / BF16_BYTES, n;

		nr = nr < ELEMENTS ? nr : ELEMENTS;
		n = nr * BF16_BYTES - skip < len ? nr * BF16_BYTES - skip : len;
		err = array_read(a->from, from, nr * size, first * size, src);
		if (err)
			break;
		round_numbers(to, from, nr, bits);
		memcpy(at, (char *)to + skip, n);
		at += n;
		off += n;
		len -= n;
	}
	return err;
}

int array_read(const struct array *a, void *buf, size_t len, uint64_t off,
	       const struct view_source *src)
{
	struct ask ask = {.buf = buf, .off = off, .end = off + len, .src = src};

	return a->kind == STORED   ? gather_read(a->gather, buf, len, off, src)
	       : a->kind == JOINED ? read_joined(a, &ask)
				   : read_rounded(a, buf, len, off, src);
}

int array_each_path(const struct array *a, bool *seen, int (*one)(void *arg, size_t path),
		    void *arg)
{
	int err = 0;

	if (seen[a->number])
		return 0;
	seen[a->number] = true;
	if (a->kind == STORED)
		return gather_each_path(a->gather, one, arg);
	if (a->kind == ROUNDED)
		return array_each_path(a->from, seen, one, arg);
	for (size_t i = 0; i < a->nr && !err; i++)
		err = array_each_path(a->parts[i].from, seen, one, arg);
	return err;
}
