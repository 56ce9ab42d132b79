/* SPDX-License-Identifier: MIT */
/*
 * Handles: one open of a node each. The lock of the tree guards the table and the list of a node's
 * handles; the last reference closes, without it. open.c decides how a file is open.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/base/list.h"
#include "engine/base/lock.h"
#include "engine/content/content.h"
#include "engine/engine.h"
#include "engine/names/names.h"
#include "engine/save/generation.h"
#include "fs/tree_inside.h"

struct handle *handle_create(struct tree *t, struct node *n, int fd, int flags)
{
	struct handle *h = calloc(1, sizeof(*h));

	if (!h) {
		close(fd);
		return NULL;
	}
	h->node = n;
	h->fd = fd;
	h->flags = flags;
	atomic_init(&h->refs, 1);
	lock_init(&h->dir_lock, LOCK_HANDLE_DIR);
	LOCK_SCOPE(&t->lock);
	if (!slots_take(&t->handles, h, &h->id)) {
		lock_finish(&h->dir_lock);
		free(h);
		close(fd);
		return NULL;
	}
	n->refs++;
	list_push(&n->handles, &h->link);
	atomic_fetch_add(&t->engine->metrics.open_handles, 1);
	return h;
}

struct handle *handle_get(struct tree *t, uint64_t id)
{
	LOCK_SCOPE(&t->lock);
	struct handle *h = slots_find(&t->handles, id);

	if (h)
		atomic_fetch_add(&h->refs, 1);
	return h;
}

void handle_put(struct tree *t, struct handle *h, int *close_err)
{
	*close_err = 0;
	{
		LOCK_SCOPE(&t->lock);
		if (atomic_fetch_sub(&h->refs, 1) > 1)
			return;
		list_del(&h->link);
		slots_give_back(&t->handles, h->id);
	}
	atomic_fetch_sub(&t->engine->metrics.open_handles, 1);
	content_put(h->content);
	generation_put(h->generation);
	if (close(h->fd))
		*close_err = -errno;
	node_put(t, h->node);
	lock_finish(&h->dir_lock);
	free(h->dents);
	names_list_end(&h->listed);
	free(h);
}
