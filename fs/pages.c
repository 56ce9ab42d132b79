/* SPDX-License-Identifier: MIT */
#include "fs/pages.h"

#include "engine/base/cleanup.h"

static pthread_cond_t landed = PTHREAD_COND_INITIALIZER; /* with the tree lock */

void pages_answered(struct tree *t, uint64_t id)
{
	struct node *n = node_get(t, id);

	if (n)
		atomic_fetch_add(&n->early_pages, 1);
	node_put(t, n);
}

/* May come before the watchdog's count: the sum is right all the same. */
void pages_landed(struct tree *t, struct node *n, int err)
{
	LOCK_SCOPE(tree_lock(t));
	atomic_fetch_sub(&n->early_pages, 1);
	if (err && !atomic_load(&n->pages_error))
		atomic_store(&n->pages_error, err);
	pthread_cond_broadcast(&landed);
}

void pages_wait(struct tree *t, struct node *n)
{
	if (atomic_load(&n->early_pages) <= 0)
		return;
	LOCK_SCOPE(tree_lock(t));
	while (atomic_load(&n->early_pages) > 0)
		pthread_cond_wait(&landed, tree_lock(t));
}

int pages_settle(struct tree *t, struct node *n)
{
	int err;

	pages_wait(t, n);
	if (!atomic_load(&n->pages_error))
		return 0;
	err = atomic_exchange(&n->pages_error, 0);
	return err;
}
