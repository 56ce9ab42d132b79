/* SPDX-License-Identifier: MIT */
#include "engine/gen/tally.h"

#include <stdio.h>
#include <string.h>

#define ROOM_FIRST 64
#define ROOM_MAX   (1u << 24) /* bounds the memory, whatever rank a name gives */

/* Memory for ranks that are never used is not touched, so large ranks cost little. */
static unsigned *place_of_rank(const struct tally *t, struct tally_piece *p, int rank)
{
	unsigned nr = p->nr_ranks ? p->nr_ranks : ROOM_FIRST, *more;

	if (rank < 0 || rank >= (int)ROOM_MAX)
		return NULL;
	while (nr <= (unsigned)rank)
		nr *= 2;
	if (nr != p->nr_ranks) {
		more = t->grow(p->of_rank, nr * sizeof(*more));
		if (!more)
			return NULL;
		memset(more + p->nr_ranks, 0, (nr - p->nr_ranks) * sizeof(*more));
		p->of_rank = more;
		p->nr_ranks = nr;
	}
	return &p->of_rank[rank];
}

static void count(struct tally *t, const struct tally_op *op, bool goes)
{
	unsigned i, by = goes ? UINT_MAX : 1; /* UINT_MAX is -1 */

	for (i = 0; t->rule && i < t->rule->nr_evidence; i++) {
		const struct evidence *ev = &t->rule->evidence[i];
		struct tally_piece *p = &t->pieces[i];
		unsigned *of_rank;
		int whose;

		if (!evidence_matches(ev, t->name, op->path, &whose))
			continue;
		p->nr[op->kind] += by;
		if (ev->kind != EVIDENCE_EVERY_RANK || op->kind == EVIDENCE_UNLINK)
			continue;
		/* If the name gives no rank, the writer's rank counts. */
		of_rank = place_of_rank(t, p, whose < 0 ? op->rank : whose);
		if (of_rank && !(goes && !*of_rank))
			*of_rank += by;
	}
}

void tally_begin(struct tally *t, const struct rule *rule, const char *name,
		 void *(*grow)(void *memory, size_t size))
{
	tally_end(t);
	t->rule = rule;
	t->grow = grow;
	snprintf(t->name, sizeof(t->name), "%s", name);
}

bool tally_is_of(const struct tally *t, const struct rule *rule, const char *name)
{
	return t->rule && t->rule == rule && !strcmp(t->name, name);
}

void tally_end(struct tally *t)
{
	unsigned i;

	for (i = 0; t->rule && i < t->rule->nr_evidence; i++)
		if (t->pieces[i].of_rank)
			t->grow(t->pieces[i].of_rank, 0);
	memset(t, 0, sizeof(*t));
}

void tally_add(struct tally *t, const struct tally_op *op)
{
	count(t, op, false);
}

void tally_subtract(struct tally *t, const struct tally_op *op)
{
	count(t, op, true);
}

unsigned tally_nr(const struct tally *t, const struct evidence *ev, enum evidence_kind kind)
{
	return t->rule ? t->pieces[ev - t->rule->evidence].nr[kind] : 0;
}

unsigned tally_files(const struct tally *t, const struct evidence *ev, int rank)
{
	const struct tally_piece *p = t->rule ? &t->pieces[ev - t->rule->evidence] : NULL;

	if (!p)
		return 0;
	if (rank < 0)
		return p->nr[EVIDENCE_CLOSE] + p->nr[EVIDENCE_RENAME];
	return (unsigned)rank < p->nr_ranks ? p->of_rank[rank] : 0;
}
