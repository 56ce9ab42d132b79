/* SPDX-License-Identifier: MIT */
/*
 * Intrusive hash table: the cost of a lookup does not grow with the number of nodes. Nodes of the
 * same hash are found in the order in which they were added. The owner of a table guards it.
 */
#ifndef ENGINE_BASE_TABLE_H
#define ENGINE_BASE_TABLE_H

#include <stdint.h>

#include "engine/base/list.h"

struct table {
	size_t nr, nr_buckets;
	struct list *buckets; /* of table_node.link, the oldest first in each */
};

struct table_node {
	struct list link;
	uint64_t hash;
};

/* Returns 0 or -ENOMEM. */
int table_init(struct table *t);

/* The table is empty, or all zeros. */
void table_finish(struct table *t);

/* Adds @n as the newest node. */
void table_add(struct table *t, struct table_node *n, uint64_t hash);

void table_del(struct table *t, struct table_node *n);

/* The list that holds all nodes of @hash, among others. */
struct list *table_bucket(const struct table *t, uint64_t hash);

#define table_for_each(pos, t, hash) list_for_each (pos, table_bucket(t, hash))

/* The hash of @text, continued from @h, the hash of the text before it. */
uint64_t hash_text(uint64_t h, const char *text);

#endif
