/* SPDX-License-Identifier: MIT */
#include "engine/content/overwrites.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void overwrites_add(struct overwrites *all, const struct inode_id *own, const struct inode_id *old)
{
	if (all->nr == all->room) {
		size_t room = all->room ? 2 * all->room : 4;
		struct overwrite *more = realloc(all->list, room * sizeof(*more));

		if (!more)
			return;
		all->list = more;
		all->room = room;
	}
	all->list[all->nr++] = (struct overwrite){*own, *old};
}

int overwrites_copy(const struct overwrites *all, struct overwrites *copy)
{
	*copy = (struct overwrites){.list = calloc(all->nr + 1, sizeof(*copy->list))};
	if (!copy->list)
		return -ENOMEM;
	copy->nr = copy->room = all->nr;
	if (all->nr)
		memcpy(copy->list, all->list, all->nr * sizeof(*copy->list));
	return 0;
}

static int by_own(const void *a, const void *b)
{
	const struct inode_id *x = &((const struct overwrite *)a)->own,
			      *y = &((const struct overwrite *)b)->own;

	if (x->ino != y->ino)
		return x->ino < y->ino ? -1 : 1;
	return x->btime_ns < y->btime_ns ? -1 : x->btime_ns > y->btime_ns;
}

void overwrites_sort(struct overwrites *all)
{
	if (all->nr)
		qsort(all->list, all->nr, sizeof(*all->list), by_own);
}

const struct inode_id *overwrites_find(const struct overwrites *sorted, const struct inode_id *own)
{
	const struct overwrite key = {.own = *own};
	const struct overwrite *r = NULL;

	if (sorted->nr)
		r = bsearch(&key, sorted->list, sorted->nr, sizeof(key), by_own);
	return r ? &r->old : NULL;
}

void overwrites_finish(struct overwrites *all)
{
	free(all->list);
	*all = (struct overwrites){0};
}
