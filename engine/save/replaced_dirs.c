/* SPDX-License-Identifier: MIT */
#include "engine/save/units.h"

#include <stdint.h>
#include <stdlib.h>

#include "engine/base/cleanup.h"

#define SWEEP_LEAST 64

struct entry {
	struct table_node node;
	struct inode_id id;
	bool old; /* it was there at the last sweep */
};

int replaced_dirs_init(struct replaced_dirs *r)
{
	r->sweep_at = SWEEP_LEAST;
	return table_init(&r->entries);
}

static struct entry *find(const struct replaced_dirs *r, const struct inode_id *id)
{
	struct list *l;

	table_for_each (l, &r->entries, hash_inode(id)) {
		struct entry *e = container_of(l, struct entry, node.link);

		if (same_inode(&e->id, id))
			return e;
	}
	return NULL;
}

static void forget(struct replaced_dirs *r, struct entry *e)
{
	table_del(&r->entries, &e->node);
	free(e);
	r->nr--;
}

void replaced_dirs_finish(struct replaced_dirs *r)
{
	size_t i;

	for (i = 0; r->entries.buckets && i < r->entries.nr_buckets; i++)
		while (!list_empty(&r->entries.buckets[i]))
			forget(r,
			       container_of(r->entries.buckets[i].next, struct entry, node.link));
	table_finish(&r->entries);
}

void replaced_dirs_add(struct replaced_dirs *r, const struct inode_id *id)
{
	struct entry *e = find(r, id);

	if (!e) {
		e = calloc(1, sizeof(*e));
		if (!e)
			return;
		e->id = *id;
		table_add(&r->entries, &e->node, hash_inode(id));
		r->nr++;
	}
	e->old = false;
}

bool replaced_dirs_has(const struct replaced_dirs *r, const struct inode_id *id)
{
	return find(r, id);
}

/* The entries that were there at the last sweep, in an array for the caller to free. */
static struct inode_id *take_old_locked(struct replaced_dirs *r, size_t *nr)
{
	struct inode_id *old = malloc(r->entries.nr * sizeof(*old));
	struct list *l;
	size_t i;

	*nr = 0;
	for (i = 0; old && i < r->entries.nr_buckets; i++)
		list_for_each (l, &r->entries.buckets[i]) {
			struct entry *e = container_of(l, struct entry, node.link);

			if (e->old)
				old[(*nr)++] = e->id;
			e->old = true;
		}
	return old;
}

void replaced_dirs_sweep(struct units *us)
{
	struct replaced_dirs *r = &us->replaced_dirs;
	__cleanup_free struct inode_id *old = NULL;
	size_t nr = 0, i;
	{
		LOCK_SCOPE(&us->lock);
		if (r->entries.nr < r->sweep_at || !us->knows)
			return;
		r->sweep_at = SIZE_MAX; /* keeps another thread from sweeping at once */
		old = take_old_locked(r, &nr);
	}
	for (i = 0; i < nr; i++) { /* the lock of units->knows ranks before ours */
		struct entry *e;

		if (us->knows(us->knows_arg, &old[i]))
			continue;
		LOCK_SCOPE(&us->lock);
		e = find(r, &old[i]);
		if (e && e->old) /* else it was replaced once more */
			forget(r, e);
	}
	LOCK_SCOPE(&us->lock);
	r->sweep_at = 2 * r->entries.nr > SWEEP_LEAST ? 2 * r->entries.nr : SWEEP_LEAST;
}
