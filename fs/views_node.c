/* SPDX-License-Identifier: MIT */
/* The nodes of views that the kernel knows, by their ids and by their names. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/list.h"
#include "engine/base/lock.h"
#include "engine/base/table.h"
#include "fs/views_inside.h"

static uint64_t hash_id(uint64_t id)
{
	return id * 0x9E3779B97F4A7C15ull;
}

/* Of a name below a node; @above: the id of that, or of the unit of a top. */
static uint64_t hash_below(uint64_t above, const char *name)
{
	return hash_text(hash_id(above), name);
}

static struct view_node *find_locked(struct views *vs, uint64_t id)
{
	struct list *l;

	table_for_each (l, &vs->by_id, hash_id(id)) {
		struct view_node *n = container_of(l, struct view_node, by_id.link);

		if (n->id == id)
			return n;
	}
	return NULL;
}

static uint64_t above(const struct view_node *n)
{
	return n->parent ? n->parent->id : n->unit->id;
}

static struct view_node *find_name_locked(struct views *vs, uint64_t parent, const char *name)
{
	struct list *l;

	table_for_each (l, &vs->by_name, hash_below(parent, name)) {
		struct view_node *n = container_of(l, struct view_node, by_name.link);

		if (above(n) == parent && !strcmp(n->name, name))
			return n;
	}
	return NULL;
}

/* Takes @n out of the tables. */
static void take_out_locked(struct views *vs, struct view_node *n)
{
	table_del(&vs->by_id, &n->by_id);
	if (n->named)
		table_del(&vs->by_name, &n->by_name);
	if (n->parent)
		n->parent->children--;
}

void view_node_free(struct views *vs, struct view_node *n)
{
	if (n->unit)
		node_put(vs->fs->tree, n->unit);
	free(n->name);
	free(n->why);
	free(n->target);
	free(n);
}

/*
 * Takes @n, and those above it, out of the tables as far as nobody needs them any more. The caller
 * frees the list of these, which goes on by their `parent`.
 */
static struct view_node *collect_locked(struct views *vs, struct view_node *n)
{
	struct view_node *first = n, *last = NULL;

	for (; n && !n->nlookup && !n->children; n = n->parent) {
		take_out_locked(vs, n);
		last = n;
	}
	if (last)
		last->parent = NULL;
	return last ? first : NULL;
}

static void free_list(struct views *vs, struct view_node *n)
{
	while (n) {
		struct view_node *next = n->parent;

		view_node_free(vs, n);
		n = next;
	}
}

struct view_node *views_get(struct views *vs, uint64_t id)
{
	struct view_node *n;
	LOCK_SCOPE(&vs->lock);

	n = find_locked(vs, id);
	if (n)
		n->children++;
	return n;
}

void views_put(struct views *vs, struct view_node *n)
{
	struct view_node *list;
	{
		LOCK_SCOPE(&vs->lock);
		n->children--;
		list = collect_locked(vs, n);
	}
	free_list(vs, list);
}

struct node *views_unit(struct view_node *n)
{
	while (n->parent)
		n = n->parent;
	return n->unit;
}

static struct view_node *any_leaf(struct views *vs)
{
	for (size_t i = 0; i < vs->by_id.nr_buckets; i++) {
		struct list *l;

		list_for_each (l, &vs->by_id.buckets[i]) {
			struct view_node *n = container_of(l, struct view_node, by_id.link);

			if (!n->children)
				return n;
		}
	}
	return NULL;
}

void view_nodes_free(struct views *vs)
{
	struct view_node *n;

	while ((n = any_leaf(vs))) {
		take_out_locked(vs, n);
		view_node_free(vs, n);
	}
}

static void fill_times(struct stat *st, const struct statx *stx)
{
	st->st_uid = stx->stx_uid;
	st->st_gid = stx->stx_gid;
	st->st_mtim = (struct timespec){stx->stx_mtime.tv_sec, stx->stx_mtime.tv_nsec};
	st->st_ctim = (struct timespec){stx->stx_ctime.tv_sec, stx->stx_ctime.tv_nsec};
	st->st_atim = st->st_mtim;
}

struct view_node *view_node_make(enum view_kind kind, const char *name, const struct statx *stx)
{
	struct view_node *n = calloc(1, sizeof(*n));
	bool dir = kind == VIEW_TOP || kind == VIEW_SPEC;

	if (!n)
		return NULL;
	n->kind = kind;
	n->name = strdup(name);
	fill_times(&n->st, stx);
	n->st.st_nlink = dir ? 2 : 1;
	n->st.st_mode = dir		    ? S_IFDIR | (stx->stx_mode & 0555)
			: kind == VIEW_LINK ? S_IFLNK | 0777
					    : S_IFREG | (stx->stx_mode & 0444);
	if (n->name)
		return n;
	free(n);
	return NULL;
}

struct view_node *view_node_add(struct views *vs, struct view_node *parent, struct view_node *n)
{
	struct view_node *there;
	{
		LOCK_SCOPE(&vs->lock);
		n->parent = parent;
		there = find_name_locked(vs, above(n), n->name);
		if (there && there->state != n->state) {
			table_del(&vs->by_name, &there->by_name);
			there->named = false;
			there = NULL;
		}
		if (there) {
			there->nlookup++;
		} else {
			n->id = vs->next_id++;
			n->st.st_ino = n->id;
			n->nlookup = 1;
			n->named = true;
			if (parent)
				parent->children++;
			table_add(&vs->by_id, &n->by_id, hash_id(n->id));
			table_add(&vs->by_name, &n->by_name, hash_below(above(n), n->name));
		}
	}
	if (!there)
		return n;
	n->parent = NULL;
	view_node_free(vs, n);
	return there;
}

void views_forget(struct fs *fs, uint64_t id, uint64_t count)
{
	struct views *vs = fs->views;
	struct view_node *n, *list = NULL;
	{
		LOCK_SCOPE(&vs->lock);
		n = find_locked(vs, id);
		if (n) {
			n->nlookup -= count < n->nlookup ? count : n->nlookup;
			list = collect_locked(vs, n);
		}
	}
	free_list(vs, list);
}
