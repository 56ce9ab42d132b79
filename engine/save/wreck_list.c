/* SPDX-License-Identifier: MIT */
/* The list of wrecks (wreck.h): adds and finds one, and frees what one no longer needs. */
#include "engine/save/units.h"

#include "engine/base/wait.h"

void wreck_add_locked(struct checkpoint *cp)
{
	struct wrecks *ws = &cp->units->wrecks;

	list_del(&cp->link);
	list_append(&ws->all, &cp->link);
	table_add(&ws->by_inode, &cp->by_inode, hash_inode(&cp->id));
}

void wreck_take_off_locked(struct checkpoint *cp)
{
	list_del(&cp->link);
	table_del(&cp->units->wrecks.by_inode, &cp->by_inode);
	atomic_fetch_sub(&cp->units->nr_checkpoints, 1);
}

struct checkpoint *wreck_find_locked(const struct units *us, const struct inode_id *id)
{
	struct list *l;

	table_for_each (l, &us->wrecks.by_inode, hash_inode(id)) {
		struct checkpoint *cp = container_of(l, struct checkpoint, by_inode.link);

		if (same_inode(&cp->id, id))
			return cp;
	}
	return NULL;
}

bool wreck_rests_locked(const struct checkpoint *cp)
{
	return cp->refs == 1 && cp->state == GENERATION_FAILED && !list_empty(&cp->by_inode.link);
}

void wreck_shrink_locked(struct checkpoint *cp, int *fd, int *dir)
{
	*fd = *dir = -1;
	/* Its lock tells other nodes that this daemon carries out the decision. */
	if (cp->decided || !cp->below)
		return;
	*fd = cp->fd;
	*dir = cp->target.dir;
	cp->fd = cp->target.dir = -1;
	checkpoint_forget_evidence(cp);
	filed_finish(&cp->filed);
}

void wreck_unwanted_locked(struct checkpoint *cp)
{
	cp->unwanted = cp->units->room.wrecks = true;
	waitq_wake(&cp->units->trashed);
}
