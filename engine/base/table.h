/* SPDX-License-Identifier: MIT */
/*
 * Intrusive hash table: finding costs the same however many are on it. Those of one hash are found
 * in the order in which they came. Guarded by whoever has it.
 */
#ifndef ENGINE_BASE_TABLE_H
#define ENGINE_BASE_TABLE_H

#include <stdint.h>

#include "engine/base/list.h"

struct table {
	size_t nr, nr_buckets;
	struct list *buckets; /* table_node.link, the oldest first in each */
};

struct table_node {
	struct list link;
	uint64_t hash;
};

/* 0 or -ENOMEM. */
int table_init(struct table *t);

/* Nothing is on it, or it is all zeros. */
void table_finish(struct table *t);

/* As the newest. */
void table_add(struct table *t, struct table_node *n, uint64_t hash);

void table_del(struct table *t, struct table_node *n);

/* A list on which all of that hash are, and others. */
struct list *table_bucket(const struct table *t, uint64_t hash);

#define table_for_each(pos, t, hash) list_for_each (pos, table_bucket(t, hash))

/* Of a text and what came before it, @h. */
uint64_t hash_text(uint64_t h, const char *text);

#endif
