/* SPDX-License-Identifier: MIT */
/*
 * Nodes: found by number and by identity, pinned within the budget, freed when neither the kernel
 * nor a call refers to them. Descriptors to close are gathered under the lock of the tree, and
 * closed after it. Makes no call on the backing.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/list.h"
#include "engine/base/lock.h"
#include "engine/content/content.h"
#include "engine/engine.h"
#include "fs/tree_inside.h"

struct node *tree_find_id_locked(struct tree *t, uint64_t id)
{
	return id == NODE_ROOT ? t->root : slots_find(&t->nodes, id);
}

/* --- the hash by identity --- */

static uint32_t bucket_of(const struct tree *t, dev_t dev, uint64_t ino)
{
	uint64_t h = (ino ^ (uint64_t)dev << 40) * 0x9E3779B97F4A7C15ull;

	return (uint32_t)(h >> 32) & (t->nr_buckets - 1);
}

static void hash_insert(struct tree *t, struct node *n)
{
	struct node **b = &t->hash[bucket_of(t, n->dev, n->ino)];

	n->next_in_hash = *b;
	*b = n;
}

void tree_hash_remove_locked(struct tree *t, struct node *n)
{
	struct node **p = &t->hash[bucket_of(t, n->dev, n->ino)];

	while (*p && *p != n)
		p = &(*p)->next_in_hash;
	if (*p)
		*p = n->next_in_hash;
}

static void grow_hash(struct tree *t)
{
	uint32_t old_nr = t->nr_buckets, i;
	struct node **old = t->hash, **new = calloc(old_nr * 2ul, sizeof(*new));

	if (!new)
		return; /* longer chains, nothing worse */
	t->hash = new;
	t->nr_buckets = old_nr * 2;
	for (i = 0; i < old_nr; i++) {
		while (old[i]) {
			struct node *n = old[i];

			old[i] = n->next_in_hash;
			hash_insert(t, n);
		}
	}
	free(old);
}

static uint64_t btime_of(const struct statx *stx)
{
	if (!(stx->stx_mask & STATX_BTIME))
		return 0;
	return (uint64_t)stx->stx_btime.tv_sec * NSEC_PER_SEC + stx->stx_btime.tv_nsec;
}

struct node *tree_find_identity_locked(struct tree *t, const struct statx *stx)
{
	dev_t dev = makedev(stx->stx_dev_major, stx->stx_dev_minor);
	struct node *n;

	for (n = t->hash[bucket_of(t, dev, stx->stx_ino)]; n; n = n->next_in_hash)
		if (n->ino == stx->stx_ino && n->dev == dev && n->btime_ns == btime_of(stx) &&
		    n->type == (stx->stx_mode & S_IFMT))
			return n;
	return NULL;
}

struct node *tree_find_inode_locked(struct tree *t, const struct inode_id *id)
{
	struct node *n = t->hash[bucket_of(t, id->dev, id->ino)];

	while (n && (n->ino != id->ino || n->dev != id->dev || n->btime_ns != id->btime_ns))
		n = n->next_in_hash;
	return n;
}

bool node_is_same(const struct node *n, const struct statx *stx)
{
	return n->ino == stx->stx_ino && n->btime_ns == btime_of(stx) &&
	       n->dev == makedev(stx->stx_dev_major, stx->stx_dev_minor);
}

/* --- pins --- */

void tree_close_all(struct tree *t, struct closing *c)
{
	for (;;) {
		struct node *n = take_ptr(c->rest);

		while (c->nr)
			close(c->fds[--c->nr]);
		if (!n)
			return;
		LOCK_SCOPE(&t->lock);
		n->refs--;
		tree_drop_unused_locked(t, n, c);
	}
}

static void unpin_locked(struct tree *t, struct node *n, struct closing *c)
{
	if (n->pin < 0)
		return;
	c->fds[c->nr++] = n->pin;
	n->pin = -1;
	list_del(&n->lru);
	t->nr_pins--;
}

/* Evicts the least recently used pin in @lru that no call uses. False: there is none. */
static bool evict_one_locked(struct tree *t, struct list *lru, struct closing *c)
{
	struct list *l;

	for (l = lru->prev; l != lru; l = l->prev) {
		struct node *n = container_of(l, struct node, lru);

		if (n->pin_users || !n->name)
			continue;
		unpin_locked(t, n, c);
		return true;
	}
	return false;
}

void tree_pin_locked(struct tree *t, struct node *n, int fd, struct closing *c)
{
	struct list *lru = S_ISDIR(n->type) ? &t->lru_dirs : &t->lru_files;

	if (n->pin >= 0) {
		if (fd >= 0)
			c->fds[c->nr++] = fd;
		if (n->id == NODE_ROOT)
			return;
		list_del(&n->lru);
	} else if (fd >= 0) {
		n->pin = fd;
		t->nr_pins++;
	} else {
		return;
	}
	list_push(lru, &n->lru);
	/* Files first: a directory may be a process's working directory. */
	while (t->nr_pins > t->pin_budget && c->nr < MAX_CLOSING - 1)
		if (!evict_one_locked(t, &t->lru_files, c) && !evict_one_locked(t, &t->lru_dirs, c))
			break;
	t->engine->metrics.pinned_fds = t->nr_pins;
}

/* --- nodes --- */

void tree_drop_unused_locked(struct tree *t, struct node *n, struct closing *c)
{
	while (n && !n->refs && !n->nlookup && n->id != NODE_ROOT) {
		struct node *parent = n->parent;

		tree_hash_remove_locked(t, n);
		unpin_locked(t, n, c);
		slots_give_back(&t->nodes, n->id);
		t->engine->metrics.nodes = --t->nr_nodes;
		free(n->name);
		free(n);
		n = parent;
		if (n && c->nr == MAX_CLOSING) {
			c->rest = n;
			return;
		}
		if (n)
			n->refs--;
	}
}

void tree_set_place_locked(struct tree *t, struct node *n, struct node *dir, const char *name,
			   struct closing *c)
{
	struct node *old = n->parent;
	char *copy;

	if (n->id == NODE_ROOT || n == dir || (old == dir && n->name && !strcmp(n->name, name)))
		return;
	copy = strdup(name);
	if (!copy)
		return;
	free(n->name);
	n->name = copy;
	n->parent = dir;
	dir->refs++;
	if (old) {
		old->refs--;
		tree_drop_unused_locked(t, old, c);
	}
}

struct node *tree_node_new_locked(struct tree *t, const struct statx *stx)
{
	struct node *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->dev = makedev(stx->stx_dev_major, stx->stx_dev_minor);
	n->ino = stx->stx_ino;
	n->btime_ns = btime_of(stx);
	n->type = stx->stx_mode & S_IFMT;
	n->pin = -1;
	list_init(&n->lru);
	list_init(&n->handles);
	if (!slots_take(&t->nodes, n, &n->id)) {
		free(n);
		return NULL;
	}
	if (t->nr_nodes >= t->nr_buckets)
		grow_hash(t);
	hash_insert(t, n);
	t->engine->metrics.nodes = ++t->nr_nodes;
	return n;
}

struct node *node_get(struct tree *t, uint64_t id)
{
	LOCK_SCOPE(&t->lock);
	struct node *n = tree_find_id_locked(t, id);

	if (n)
		n->refs++;
	return n;
}

void node_put(struct tree *t, struct node *n)
{
	struct closing c = {.nr = 0};

	if (!n)
		return;
	{
		LOCK_SCOPE(&t->lock);
		n->refs--;
		tree_drop_unused_locked(t, n, &c);
	}
	tree_close_all(t, &c);
}

void tree_forget(struct tree *t, uint64_t id, uint64_t count)
{
	struct closing c = {.nr = 0};
	{
		LOCK_SCOPE(&t->lock);
		struct node *n = tree_find_id_locked(t, id);

		if (!n)
			return;
		n->nlookup -= count < n->nlookup ? count : n->nlookup;
		tree_drop_unused_locked(t, n, &c);
	}
	tree_close_all(t, &c);
}

bool tree_place(struct tree *t, struct node *n, struct node **dir, char name[NAME_MAX + 1])
{
	LOCK_SCOPE(&t->lock);
	if (!n->parent || !n->name)
		return false;
	snprintf(name, NAME_MAX + 1, "%s", n->name);
	*dir = n->parent;
	n->parent->refs++;
	return true;
}
