/* SPDX-License-Identifier: MIT */
#include "engine/unit/overwrites.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/lock.h"
#include "engine/unit/internal.h"

void overwrites_add(struct checkpoint *cp, const struct inode_id *own, const struct inode_id *old)
{
	LOCK_SCOPE(&cp->units->lock);

	if (cp->nr_overwrites == cp->overwrites_room) {
		size_t room = cp->overwrites_room ? 2 * cp->overwrites_room : 4;
		struct overwrite *more = realloc(cp->overwrites, room * sizeof(*more));

		if (!more)
			return;
		cp->overwrites = more;
		cp->overwrites_room = room;
	}
	cp->overwrites[cp->nr_overwrites++] = (struct overwrite){*own, *old};
}

int overwrites_take(struct checkpoint *cp, struct overwrite **out, size_t *nr)
{
	LOCK_SCOPE(&cp->units->lock);

	*nr = cp->nr_overwrites;
	*out = calloc(*nr + 1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	if (*nr)
		memcpy(*out, cp->overwrites, *nr * sizeof(**out));
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

void overwrites_sort(struct overwrite *overwrites, size_t nr)
{
	if (nr)
		qsort(overwrites, nr, sizeof(*overwrites), by_own);
}

const struct inode_id *overwrites_find(const struct overwrite *overwrites, size_t nr,
				       const struct inode_id *own)
{
	const struct overwrite key = {.own = *own};
	const struct overwrite *r = nr ? bsearch(&key, overwrites, nr, sizeof(key), by_own) : NULL;

	return r ? &r->old : NULL;
}
