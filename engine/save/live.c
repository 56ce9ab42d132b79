/* SPDX-License-Identifier: MIT */
#include "engine/save/units.h"

#include <stdio.h>
#include <string.h>

#include "engine/save/accord.h"

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

static struct generation *of_link(struct list *l, enum live_key key)
{
	return container_of(l, struct generation, found_by[key].link);
}

/* Adds @g to one table, as the newest. */
static void enter(struct live *lv, struct generation *g, enum live_key key)
{
	table_add(&lv->found_by[key], &g->found_by[key], hash_of(g, key));
}

int live_init(struct live *lv)
{
	enum live_key key;
	int err = 0;

	list_init(&lv->all);
	list_init(&lv->sealed);
	for (key = 0; !err && key < LIVE_KEYS; key++)
		err = table_init(&lv->found_by[key]);
	return err;
}

void live_finish(struct live *lv)
{
	enum live_key key;

	for (key = 0; key < LIVE_KEYS; key++)
		table_finish(&lv->found_by[key]);
}

size_t live_nr(const struct live *lv)
{
	return lv->found_by[LIVE_BY_NAME].nr;
}

/* Puts @g into the lists that its state asks for. */
static void place(struct generation *g)
{
	list_del(&g->sealed);
	if (g->state == GENERATION_SEALED)
		list_append(&g->units->live.sealed, &g->sealed);
	if (!g->checkpoint)
		return;
	accord_wake(g->checkpoint);
	list_del(&g->beside);
	if (g->state == GENERATION_OPEN)
		list_push(&g->checkpoint->files, &g->beside);
	else
		list_append(&g->checkpoint->files, &g->beside);
}

void live_add(struct live *lv, struct generation *g)
{
	enum live_key key;

	list_append(&lv->all, &g->link);
	for (key = 0; key < LIVE_KEYS; key++)
		enter(lv, g, key);
	if (g->checkpoint)
		list_append(&g->checkpoint->files, &g->beside);
	place(g);
}

void live_remove(struct live *lv, struct generation *g)
{
	enum live_key key;

	list_del(&g->link);
	list_del(&g->sealed);
	accord_wake(g->checkpoint);
	list_del(&g->beside);
	for (key = 0; key < LIVE_KEYS; key++)
		table_del(&lv->found_by[key], &g->found_by[key]);
}

bool live_has(const struct generation *g)
{
	return !list_empty(&g->found_by[LIVE_BY_NAME].link);
}

void live_rename(struct live *lv, struct generation *g, const struct inode_id *dir,
		 const char *name)
{
	g->target.dir_id = *dir;
	snprintf(g->target.name, sizeof(g->target.name), "%s", name);
	table_del(&lv->found_by[LIVE_BY_NAME], &g->found_by[LIVE_BY_NAME]);
	enter(lv, g, LIVE_BY_NAME);
}

void live_renew(struct live *lv, struct generation *g)
{
	list_del(&g->link);
	list_append(&lv->all, &g->link);
	table_del(&lv->found_by[LIVE_BY_NAME], &g->found_by[LIVE_BY_NAME]);
	enter(lv, g, LIVE_BY_NAME);
}

void generation_set_state_by_locked(struct generation *g, enum generation_state state,
				    const char *who)
{
	MACHINE_CHECK(&file_machine, g->state, state, who, "of '%s' (%s)", g->target.name,
		      g->staging);
	g->state = state;
	place(g);
}

/* --- finding --- */

/* The first generation of the name, from @l towards @head. */
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

/* Has those of that name in the order of their age. */
static struct list *bucket_of_name(const struct live *lv, const struct inode_id *dir,
				   const char *name)
{
	return table_bucket(&lv->found_by[LIVE_BY_NAME], hash_name(dir, name));
}

struct generation *live_oldest(const struct live *lv, const struct inode_id *dir, const char *name)
{
	struct list *head = bucket_of_name(lv, dir, name);

	return next_of(head, head->next, true, dir, name);
}

struct generation *live_newest(const struct live *lv, const struct inode_id *dir, const char *name)
{
	struct list *head = bucket_of_name(lv, dir, name);

	return next_of(head, head->prev, false, dir, name);
}

struct generation *live_newer(const struct live *lv, const struct generation *g)
{
	return next_of(bucket_of_name(lv, &g->target.dir_id, g->target.name),
		       g->found_by[LIVE_BY_NAME].link.next, true, &g->target.dir_id,
		       g->target.name);
}

struct generation *live_older(const struct live *lv, const struct generation *g)
{
	return next_of(bucket_of_name(lv, &g->target.dir_id, g->target.name),
		       g->found_by[LIVE_BY_NAME].link.prev, false, &g->target.dir_id,
		       g->target.name);
}

struct generation *live_find_inode(const struct live *lv, const struct inode_id *id)
{
	struct list *l;

	table_for_each (l, &lv->found_by[LIVE_BY_INODE], hash_inode(id))
		if (same_inode(&of_link(l, LIVE_BY_INODE)->id, id))
			return of_link(l, LIVE_BY_INODE);
	return NULL;
}

struct generation *live_find_staging(const struct live *lv, const char *staging)
{
	struct list *l;

	table_for_each (l, &lv->found_by[LIVE_BY_STAGING], hash_text(0, staging))
		if (!strcmp(of_link(l, LIVE_BY_STAGING)->staging, staging))
			return of_link(l, LIVE_BY_STAGING);
	return NULL;
}
