/* SPDX-License-Identifier: MIT */
#include "engine/save/trash_queue.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/base/wait.h"
#include "engine/redo/trash.h"
#include "engine/save/units.h"

struct trash {
	struct list link;
	struct caller owner;
	int dir;
	char name[TRASH_MAX];
};

void trash_empty_later(struct units *us, const struct caller *owner, int dir, const char *id)
{
	struct trash *t = calloc(1, sizeof(*t));

	if (!t)
		return; /* fsck will find it */
	t->owner = *owner;
	t->dir = backing_dup(us->contents->backing, dir);
	trash_name(t->name, id);
	LOCK_SCOPE(&us->lock);
	list_append(&us->trash, &t->link);
	waitq_wake(&us->trashed);
}

static void empty(struct units *us, struct trash *t)
{
	struct contents *cached = us->contents;
	struct backing b = backing_owner(cached->backing, &t->owner);
	int err;

	err = trash_remove(&b, cached, t->dir, t->name);
	if (err)
		log_warn("'%s' cannot be removed: %s. It was replaced or removed by its owner; "
			 "`ckptfs fsck` clears it away",
			 t->name, strerror(-err));
	close(t->dir);
	free(t);
}

void trash_empty_locked(struct units *us)
{
	while (!list_empty(&us->trash)) {
		struct trash *t = container_of(us->trash.next, struct trash, link);

		list_del(&t->link);
		lock_drop(&us->lock);
		empty(us, t);
		lock_take(&us->lock);
		us->room.emptied++;
	}
}
