/* SPDX-License-Identifier: MIT */
#include "engine/base/table.h"

#include <errno.h>
#include <stdlib.h>

#define FIRST_BUCKETS 256 /* a power of two, like every number of buckets */

static struct list *make_buckets(size_t nr)
{
	struct list *buckets = malloc(nr * sizeof(*buckets));
	size_t i;

	for (i = 0; buckets && i < nr; i++)
		list_init(&buckets[i]);
	return buckets;
}

int table_init(struct table *t)
{
	t->nr = 0;
	t->nr_buckets = FIRST_BUCKETS;
	t->buckets = make_buckets(t->nr_buckets);
	return t->buckets ? 0 : -ENOMEM;
}

void table_finish(struct table *t)
{
	free(t->buckets);
	t->buckets = NULL;
}

struct list *table_bucket(const struct table *t, uint64_t hash)
{
	return &t->buckets[hash >> 32 & (t->nr_buckets - 1)];
}

/* Without memory the table stays as it is and becomes slower. */
static void grow(struct table *t)
{
	struct list *old = t->buckets, *buckets = make_buckets(2 * t->nr_buckets);
	size_t nr = t->nr_buckets, i;

	if (!buckets)
		return;
	t->buckets = buckets;
	t->nr_buckets = 2 * nr;
	for (i = 0; i < nr; i++)
		while (!list_empty(&old[i])) {
			struct list *l = old[i].next;
			uint64_t hash = container_of(l, struct table_node, link)->hash;

			list_del(l);
			list_append(table_bucket(t, hash), l);
		}
	free(old);
}

void table_add(struct table *t, struct table_node *n, uint64_t hash)
{
	if (t->nr++ >= t->nr_buckets)
		grow(t);
	n->hash = hash;
	list_append(table_bucket(t, hash), &n->link);
}

void table_del(struct table *t, struct table_node *n)
{
	list_del(&n->link);
	t->nr--;
}

/* FNV-1a, started with @h. */
uint64_t hash_text(uint64_t h, const char *text)
{
	for (h ^= 0xCBF29CE484222325ull; *text; text++)
		h = (h ^ (unsigned char)*text) * 0x100000001B3ull;
	return h * 0x9E3779B97F4A7C15ull;
}
