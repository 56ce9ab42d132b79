/* SPDX-License-Identifier: MIT */
/* The end of an index: its tensors are sorted, and looked at for aliases and holes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/tensors/cover.h"
#include "engine/tensors/index.h"

static int by_name(const void *a, const void *b)
{
	const struct index_tensor *x = *(struct index_tensor *const *)a;
	const struct index_tensor *y = *(struct index_tensor *const *)b;
	int order = strcmp(x->scope, y->scope);

	return order ? order : strverscmp(x->name, y->name);
}

/* By the place of the bytes and by what they are, so that aliases come together; then by name. */
static int by_place(const void *a, const void *b)
{
	const struct index_tensor *x = *(struct index_tensor *const *)a;
	const struct index_tensor *y = *(struct index_tensor *const *)b;
	int order = strcmp(x->pieces->path, y->pieces->path);

	if (order)
		return order;
	if (x->pieces->at != y->pieces->at)
		return x->pieces->at < y->pieces->at ? -1 : 1;
	if (x->pieces->bytes != y->pieces->bytes)
		return x->pieces->bytes < y->pieces->bytes ? -1 : 1;
	if (x->ndim != y->ndim)
		return x->ndim < y->ndim ? -1 : 1;
	order = memcmp(x->shape, y->shape, x->ndim * sizeof(*x->shape));
	if (!order)
		order = strcmp(x->dtype, y->dtype);
	return order ? order : by_name(a, b);
}

/* Tied tensors have the same bytes of the same file, and one shape. */
static int note_aliases(struct index *ix)
{
	__cleanup_free struct index_tensor **list = calloc(ix->nr + 1, sizeof(*list));
	size_t nr = 0;

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < ix->nr; i++)
		if (ix->tensors[i]->nr_pieces == 1 && ix->tensors[i]->pieces->bytes)
			list[nr++] = ix->tensors[i];
	if (nr)
		qsort(list, nr, sizeof(*list), by_place);
	for (size_t i = 1; i < nr; i++) {
		const struct index_tensor *a = list[i - 1], *b = list[i];

		if (a->pieces->at == b->pieces->at && a->pieces->bytes == b->pieces->bytes &&
		    a->ndim == b->ndim && !strcmp(a->pieces->path, b->pieces->path) &&
		    !strcmp(a->scope, b->scope) && !strcmp(a->dtype, b->dtype) &&
		    !memcmp(a->shape, b->shape, a->ndim * sizeof(*a->shape)))
			list[i]->alias = a->alias ? a->alias : a->name;
	}
	return 0;
}

static void remove_dropped(struct index *ix)
{
	size_t nr = 0;

	for (size_t i = 0; i < ix->nr; i++)
		if (ix->tensors[i]->dropped)
			table_del(&ix->table, &ix->tensors[i]->node);
		else
			ix->tensors[nr++] = ix->tensors[i];
	ix->nr = nr;
}

int index_finish(struct index *ix)
{
	int err;

	remove_dropped(ix);
	err = note_aliases(ix);

	if (ix->nr)
		qsort(ix->tensors, ix->nr, sizeof(*ix->tensors), by_name);
	for (size_t i = 0; i < ix->nr && !err; i++)
		err = cover_check(ix, ix->tensors[i]);
	return err;
}
