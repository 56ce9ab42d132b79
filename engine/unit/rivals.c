/* SPDX-License-Identifier: MIT */
#include "engine/unit/rivals.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/lock.h"
#include "engine/unit/internal.h"

void rivals_add(struct checkpoint *cp, const struct inode_id *own, const struct inode_id *old)
{
	LOCK_SCOPE(&cp->units->lock);

	if (cp->nr_rivals == cp->rivals_room) {
		size_t room = cp->rivals_room ? 2 * cp->rivals_room : 4;
		struct rival *more = realloc(cp->rivals, room * sizeof(*more));

		if (!more)
			return;
		cp->rivals = more;
		cp->rivals_room = room;
	}
	cp->rivals[cp->nr_rivals++] = (struct rival){*own, *old};
}

int rivals_take(struct checkpoint *cp, struct rival **out, size_t *nr)
{
	LOCK_SCOPE(&cp->units->lock);

	*nr = cp->nr_rivals;
	*out = calloc(*nr + 1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	if (*nr)
		memcpy(*out, cp->rivals, *nr * sizeof(**out));
	return 0;
}

static int by_own(const void *a, const void *b)
{
	const struct inode_id *x = &((const struct rival *)a)->own,
			      *y = &((const struct rival *)b)->own;

	if (x->ino != y->ino)
		return x->ino < y->ino ? -1 : 1;
	return x->btime_ns < y->btime_ns ? -1 : x->btime_ns > y->btime_ns;
}

void rivals_sort(struct rival *rivals, size_t nr)
{
	if (nr)
		qsort(rivals, nr, sizeof(*rivals), by_own);
}

const struct inode_id *rivals_find(const struct rival *rivals, size_t nr,
				   const struct inode_id *own)
{
	const struct rival key = {.own = *own};
	const struct rival *r = nr ? bsearch(&key, rivals, nr, sizeof(key), by_own) : NULL;

	return r ? &r->old : NULL;
}
