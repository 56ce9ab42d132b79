/* SPDX-License-Identifier: MIT */
#include "engine/unit/wreck.h"

#include <errno.h>
#include <string.h>

#include "engine/base/cleanup.h"
#include "engine/base/log.h"
#include "engine/base/wait.h"
#include "engine/unit/internal.h"
#include "engine/unit/trash.h"

void wrecks_outlived(struct units *us, const struct checkpoint *cp)
{
	struct list *l;

	list_for_each (l, &us->checkpoints) {
		struct checkpoint *o = container_of(l, struct checkpoint, link);

		if (o->state == GENERATION_FAILED &&
		    same_inode(&o->target.dir_id, &cp->target.dir_id))
			o->outlived = true;
	}
}

void wreck_unwanted(struct checkpoint *cp)
{
	cp->unwanted = cp->units->room.wrecks = true;
	waitq_wake(&cp->units->trashed);
}

/* Lock held. Referenced. */
static struct checkpoint *next(struct units *us)
{
	bool short_of_room = !list_empty(&us->room.wanted);
	struct list *l;

	list_for_each (l, &us->checkpoints) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (cp->state != GENERATION_FAILED || cp->cleared || cp->decided ||
		    cp->nr_changing || cp->err == -EBUSY)
			continue;
		if (!cp->unwanted && !(cp->outlived && short_of_room))
			continue;
		cp->cleared = true;
		cp->refs++;
		return cp;
	}
	return NULL;
}

bool wrecks_clear(struct units *us)
{
	struct backing *b = us->contents->backing;
	bool any = false;

	for (;;) {
		struct checkpoint *cp;
		int err;
		{
			LOCK_SCOPE(&us->lock);
			cp = next(us);
		}
		if (!cp)
			return any;
		creds_on_behalf(&cp->owner);
		err = AS_CALLER(&cp->owner,
				trash_remove(b, us->contents, cp->target.dir, cp->staging));
		creds_restore();
		if (err == -EACCES || err == -EPERM)
			err = trash_remove(b, us->contents, cp->target.dir, cp->staging);
		creds_on_behalf(NULL);
		if (err)
			log_warn("'%s' cannot be removed: %s. It is the remains of a checkpoint "
				 "that failed; `ckptfs fsck` clears it away",
				 cp->staging, strerror(-err));
		any = any || !err;
		checkpoint_put(cp);
	}
}
