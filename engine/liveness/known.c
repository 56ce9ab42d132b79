/* SPDX-License-Identifier: MIT */
#include "engine/liveness/known.h"

#include <stdlib.h>

#define SWEEP_LEAST 64

struct entry {
	struct table_node node;
	struct process *process; /* referenced */
	uint64_t thing, value;
};

int known_init(struct known *k, bool of_jobs)
{
	k->of_jobs = of_jobs;
	k->sweep_at = SWEEP_LEAST;
	return table_init(&k->entries);
}

static void forget(struct known *k, struct entry *e)
{
	table_del(&k->entries, &e->node);
	process_put(e->process);
	free(e);
}

static bool lives(const struct known *k, struct process *p)
{
	if (k->of_jobs)
		return job_lives(p);
	return p->visible && !process_has_ended(p);
}

/* Forgets the entries of what has ended, or @all. */
static void sweep(struct known *k, bool all)
{
	struct list *l, *tmp;
	size_t i;

	for (i = 0; i < k->entries.nr_buckets; i++)
		list_for_each_safe (l, tmp, &k->entries.buckets[i]) {
			struct entry *e = container_of(l, struct entry, node.link);

			if (all || !lives(k, e->process))
				forget(k, e);
		}
	k->sweep_at = 2 * k->entries.nr > SWEEP_LEAST ? 2 * k->entries.nr : SWEEP_LEAST;
}

void known_finish(struct known *k)
{
	if (k->entries.buckets)
		sweep(k, true);
	table_finish(&k->entries);
}

static uint64_t hash_of(const struct known *k, const struct process *p, uint64_t thing)
{
	return (thing ^ (k->of_jobs ? (uint64_t)p->uid : (uint64_t)p->tgid)) *
	       0x9E3779B97F4A7C15ull;
}

static bool is_of(const struct known *k, const struct entry *e, const struct process *p)
{
	if (k->of_jobs)
		return epoch_same(e->process, p);
	return e->process->tgid == p->tgid && e->process->start == p->start;
}

uint64_t *known_find(const struct known *k, const struct process *p, uint64_t thing)
{
	struct list *l;

	table_for_each (l, &k->entries, hash_of(k, p, thing)) {
		struct entry *e = container_of(l, struct entry, node.link);

		if (e->thing == thing && is_of(k, e, p))
			return &e->value;
	}
	return NULL;
}

uint64_t *known_make(struct known *k, struct process *p, uint64_t thing)
{
	uint64_t *found = known_find(k, p, thing);
	struct entry *e;

	if (found)
		return found;
	if (k->entries.nr >= k->sweep_at)
		sweep(k, false);
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->process = process_get(p);
	e->thing = thing;
	table_add(&k->entries, &e->node, hash_of(k, p, thing));
	return &e->value;
}
