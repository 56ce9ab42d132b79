/* SPDX-License-Identifier: MIT */
#include "fs/slots.h"

#include <stdlib.h>

#define NONE		UINT32_MAX
#define LAST_GENERATION 0xFFFFFFFDu /* higher ones are the control directory's numbers */

void slots_init(struct slots *s)
{
	*s = (struct slots){.free = NONE};
}

void slots_finish(struct slots *s)
{
	free(s->v);
	slots_init(s);
}

static bool grow(struct slots *s)
{
	uint32_t nr = s->nr ? s->nr * 2 : 1024, i;
	struct slot *v = realloc(s->v, nr * sizeof(*v));

	if (!v)
		return false;
	for (i = s->nr; i < nr; i++)
		v[i] = (struct slot){NULL, 1, i + 1 < nr ? i + 1 : NONE};
	s->v = v;
	s->free = s->nr;
	s->nr = nr;
	return true;
}

bool slots_take(struct slots *s, void *what, uint64_t *number)
{
	struct slot *slot;

	if (s->free == NONE && !grow(s))
		return false;
	slot = &s->v[s->free];
	*number = (uint64_t)slot->generation << 32 | s->free;
	s->free = slot->next_free;
	slot->what = what;
	return true;
}

void *slots_find(const struct slots *s, uint64_t number)
{
	uint32_t i = (uint32_t)number;

	if (i >= s->nr || s->v[i].generation != number >> 32)
		return NULL;
	return s->v[i].what;
}

void slots_give_back(struct slots *s, uint64_t number)
{
	uint32_t i = (uint32_t)number;

	s->v[i].what = NULL;
	if (s->v[i].generation++ == LAST_GENERATION)
		return; /* used up: no number may come twice */
	s->v[i].next_free = s->free;
	s->free = i;
}
