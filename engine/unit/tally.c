/* SPDX-License-Identifier: MIT */
#include "engine/unit/tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/unit/checkpoint.h"

/* Whatever rank a name may say: what is not used of that is no memory yet. */
static unsigned *place_of_rank(struct tally_piece *p, int rank)
{
	unsigned nr = p->nr_ranks ? p->nr_ranks : 64, *more;

	if (rank < 0 || rank >= (int)RANKS_MAX)
		return NULL;
	while (nr <= (unsigned)rank)
		nr *= 2;
	if (nr != p->nr_ranks) {
		more = calloc(nr, sizeof(*more));
		if (!more)
			return NULL; /* then other evidence has to do */
		if (p->nr_ranks)
			memcpy(more, p->of_rank, p->nr_ranks * sizeof(*more));
		free(p->of_rank);
		p->of_rank = more;
		p->nr_ranks = nr;
	}
	return &p->of_rank[rank];
}

static void count(struct tally *t, const struct event *e, bool goes)
{
	unsigned i, by = goes ? UINT_MAX : 1; /* which is -1 */

	for (i = 0; i < t->rule->nr_evidence; i++) {
		const struct evidence *ev = &t->rule->evidence[i];
		struct tally_piece *p = &t->pieces[i];
		unsigned *of_rank;
		int whose;

		/* Where the name does not tell, who wrote it does. */
		if (!evidence_matches(ev, t->name, e->path, &whose))
			continue;
		p->nr[e->kind] += by;
		if (ev->kind != EVIDENCE_EVERY_RANK || e->kind == EVIDENCE_UNLINK)
			continue;
		of_rank = place_of_rank(p, whose < 0 ? e->rank : whose);
		if (of_rank && !(goes && !*of_rank))
			*of_rank += by;
	}
}

void tally_free(struct checkpoint *cp)
{
	struct tally *t = &cp->tally;
	unsigned i;

	for (i = 0; t->rule && i < t->rule->nr_evidence; i++)
		free(t->pieces[i].of_rank);
	free(t->pieces);
	*t = (struct tally){0};
}

/* Are they of what its rule and its name are now? Counted anew if not. False: there is none, or no memory. */
static bool is_current(struct checkpoint *cp)
{
	struct tally *t = &cp->tally;
	struct list *l;

	if (t->rule && t->rule == cp->rule && !strcmp(t->name, cp->target.name))
		return true;
	tally_free(cp);
	if (!cp->rule)
		return false;
	t->pieces = calloc(cp->rule->nr_evidence + 1, sizeof(*t->pieces));
	if (!t->pieces)
		return false;
	t->rule = cp->rule;
	memcpy(t->name, cp->target.name, sizeof(t->name));
	list_for_each (l, &cp->events)
		count(t, container_of(l, struct event, link), false);
	return true;
}

void tally_add(struct checkpoint *cp, const struct event *e)
{
	if (is_current(cp))
		count(&cp->tally, e, false);
}

void tally_remove(struct checkpoint *cp, const struct event *e)
{
	if (is_current(cp))
		count(&cp->tally, e, true);
}

static struct tally_piece *piece_of(struct checkpoint *cp, const struct evidence *ev)
{
	return is_current(cp) ? &cp->tally.pieces[ev - cp->rule->evidence] : NULL;
}

unsigned tally_nr(struct checkpoint *cp, const struct evidence *ev, enum evidence_kind kind)
{
	const struct tally_piece *p = piece_of(cp, ev);

	return p ? p->nr[kind] : 0;
}

unsigned tally_files(struct checkpoint *cp, const struct evidence *ev, int rank)
{
	const struct tally_piece *p = piece_of(cp, ev);

	if (!p)
		return 0;
	if (rank < 0)
		return p->nr[EVIDENCE_CLOSE] + p->nr[EVIDENCE_RENAME];
	return (unsigned)rank < p->nr_ranks ? p->of_rank[rank] : 0;
}
