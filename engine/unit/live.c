/* SPDX-License-Identifier: MIT */
#include "engine/unit/live.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/unit/internal.h"

#define FIRST_BUCKETS 256 /* a power of two, as any number of them */

static uint64_t hash_inode(const struct inode_id *id)
{
	return (id->ino ^ (uint64_t)id->dev << 40) * 0x9E3779B97F4A7C15ull;
}

/* FNV-1a, begun with @h. */
static uint64_t hash_text(uint64_t h, const char *text)
{
	for (h ^= 0xCBF29CE484222325ull; *text; text++)
		h = (h ^ (unsigned char)*text) * 0x100000001B3ull;
	return h * 0x9E3779B97F4A7C15ull;
}

static uint64_t hash_name(const struct inode_id *dir, const char *name)
{
	return hash_text(hash_inode(dir), name);
}

static uint64_t hash_of(const struct generation *g, enum live_key key)
{
	switch (key) {
	case LIVE_BY_NAME:
		return hash_name(&g->target.dir_id, g->target.name);
	case LIVE_BY_INODE:
		return hash_inode(&g->id);
	default:
		return hash_text(0, g->staging);
	}
}

static struct list *bucket(const struct live *lv, enum live_key key, uint64_t hash)
{
	return &lv->buckets[key][hash >> 32 & (lv->nr_buckets - 1)];
}

static struct generation *of_link(struct list *l, enum live_key key)
{
	return container_of(l - key, struct generation, found_by[0]);
}

/* As the newest of its bucket. */
static void enter(struct live *lv, struct generation *g, enum live_key key)
{
	list_append(bucket(lv, key, hash_of(g, key)), &g->found_by[key]);
}

static int make_buckets(struct list *buckets[LIVE_KEYS], size_t nr)
{
	struct list *all = malloc(LIVE_KEYS * nr * sizeof(*all));
	size_t i;

	if (!all)
		return -ENOMEM;
	for (i = 0; i < LIVE_KEYS * nr; i++)
		list_init(&all[i]);
	for (i = 0; i < LIVE_KEYS; i++)
		buckets[i] = all + i * nr;
	return 0;
}

int live_init(struct live *lv)
{
	list_init(&lv->all);
	list_init(&lv->sealed);
	lv->nr = 0;
	lv->nr_buckets = FIRST_BUCKETS;
	return make_buckets(lv->buckets, lv->nr_buckets);
}

void live_finish(struct live *lv)
{
	free(lv->buckets[0]);
}

/* Without memory it gets slower, no more. */
static void grow(struct live *lv)
{
	struct list *buckets[LIVE_KEYS], *old = lv->buckets[0];
	size_t nr = 2 * lv->nr_buckets, i;
	enum live_key key;

	if (make_buckets(buckets, nr))
		return;
	memcpy(lv->buckets, buckets, sizeof(buckets));
	lv->nr_buckets = nr;
	for (key = 0; key < LIVE_KEYS; key++)
		for (i = 0; i < nr / 2; i++)
			while (!list_empty(&old[key * (nr / 2) + i])) {
				struct list *l = old[key * (nr / 2) + i].next;

				list_del(l);
				enter(lv, of_link(l, key), key);
			}
	free(old);
}

void live_add(struct live *lv, struct generation *g)
{
	enum live_key key;

	if (lv->nr++ == lv->nr_buckets)
		grow(lv);
	list_append(&lv->all, &g->link);
	for (key = 0; key < LIVE_KEYS; key++)
		enter(lv, g, key);
	if (g->checkpoint)
		list_append(&g->checkpoint->files, &g->beside);
	generation_set_state(g, g->state);
}

void live_remove(struct live *lv, struct generation *g)
{
	enum live_key key;

	list_del(&g->link);
	list_del(&g->sealed);
	list_del(&g->beside);
	for (key = 0; key < LIVE_KEYS; key++)
		list_del(&g->found_by[key]);
	lv->nr--;
}

bool live_has(const struct generation *g)
{
	return !list_empty(&g->found_by[LIVE_BY_NAME]);
}

void live_rename(struct live *lv, struct generation *g, const struct inode_id *dir,
		 const char *name)
{
	g->target.dir_id = *dir;
	snprintf(g->target.name, sizeof(g->target.name), "%s", name);
	list_del(&g->found_by[LIVE_BY_NAME]);
	enter(lv, g, LIVE_BY_NAME);
}

void live_renew(struct live *lv, struct generation *g)
{
	list_del(&g->link);
	list_append(&lv->all, &g->link);
	list_del(&g->found_by[LIVE_BY_NAME]);
	enter(lv, g, LIVE_BY_NAME);
}

void generation_set_state(struct generation *g, enum generation_state state)
{
	g->state = state;
	list_del(&g->sealed);
	if (state == GENERATION_SEALED)
		list_append(&g->units->live.sealed, &g->sealed);
	if (!g->checkpoint)
		return;
	list_del(&g->beside);
	if (state == GENERATION_OPEN)
		list_push(&g->checkpoint->files, &g->beside);
	else
		list_append(&g->checkpoint->files, &g->beside);
}

/* --- finding --- */

/* From @l on, to either side, as far as @head. */
static struct generation *next_of(struct list *head, struct list *l, bool newer,
				  const struct inode_id *dir, const char *name)
{
	for (; l != head; l = newer ? l->next : l->prev) {
		struct generation *g = of_link(l, LIVE_BY_NAME);

		if (same_inode(&g->target.dir_id, dir) && !strcmp(g->target.name, name))
			return g;
	}
	return NULL;
}

struct generation *live_oldest(const struct live *lv, const struct inode_id *dir, const char *name)
{
	struct list *head = bucket(lv, LIVE_BY_NAME, hash_name(dir, name));

	return next_of(head, head->next, true, dir, name);
}

struct generation *live_newest(const struct live *lv, const struct inode_id *dir, const char *name)
{
	struct list *head = bucket(lv, LIVE_BY_NAME, hash_name(dir, name));

	return next_of(head, head->prev, false, dir, name);
}

struct generation *live_newer(const struct live *lv, const struct generation *g)
{
	return next_of(bucket(lv, LIVE_BY_NAME, hash_of(g, LIVE_BY_NAME)),
		       g->found_by[LIVE_BY_NAME].next, true, &g->target.dir_id, g->target.name);
}

struct generation *live_older(const struct live *lv, const struct generation *g)
{
	return next_of(bucket(lv, LIVE_BY_NAME, hash_of(g, LIVE_BY_NAME)),
		       g->found_by[LIVE_BY_NAME].prev, false, &g->target.dir_id, g->target.name);
}

struct generation *live_find_inode(const struct live *lv, const struct inode_id *id)
{
	struct list *head = bucket(lv, LIVE_BY_INODE, hash_inode(id)), *l;

	list_for_each (l, head)
		if (same_inode(&of_link(l, LIVE_BY_INODE)->id, id))
			return of_link(l, LIVE_BY_INODE);
	return NULL;
}

struct generation *live_find_staging(const struct live *lv, const char *staging)
{
	struct list *head = bucket(lv, LIVE_BY_STAGING, hash_text(0, staging)), *l;

	list_for_each (l, head)
		if (!strcmp(of_link(l, LIVE_BY_STAGING)->staging, staging))
			return of_link(l, LIVE_BY_STAGING);
	return NULL;
}
