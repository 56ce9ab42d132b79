/* SPDX-License-Identifier: MIT */
#include "engine/save/units.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/lock.h"
#include "engine/base/wait.h"
#include "engine/save/accord.h"

struct checkpoint *checkpoints_find_locked(struct units *us, const struct inode_id *dir,
					   const char *name)
{
	struct list *l;

	for (l = us->checkpoints.prev; l != &us->checkpoints; l = l->prev) {
		struct checkpoint *cp = container_of(l, struct checkpoint, link);

		if (cp->visible && same_inode(&cp->target.dir_id, dir) &&
		    !strcmp(cp->target.name, name))
			return cp;
	}
	return NULL;
}

struct checkpoint *checkpoints_find(struct units *us, const struct inode_id *dir, const char *name)
{
	LOCK_SCOPE(&us->lock);
	struct checkpoint *cp = checkpoints_find_locked(us, dir, name);

	if (cp)
		cp->refs++;
	return cp;
}

struct checkpoint *checkpoints_find_inode(struct units *us, const struct inode_id *id)
{
	struct checkpoint *cp;
	struct list *l;

	if (!atomic_load(&us->nr_checkpoints))
		return NULL;
	LOCK_SCOPE(&us->lock);
	list_for_each (l, &us->checkpoints) {
		cp = container_of(l, struct checkpoint, link);

		if (same_inode(&cp->id, id)) {
			cp->refs++;
			return cp;
		}
	}
	cp = wreck_find_locked(us, id);
	if (cp)
		cp->refs++;
	return cp;
}

bool checkpoints_any_replaced(struct units *us)
{
	return atomic_load(&us->replaced_dirs.nr);
}

bool checkpoints_replaced(struct units *us, const struct inode_id *id)
{
	if (!checkpoints_any_replaced(us))
		return false;
	LOCK_SCOPE(&us->lock);
	return replaced_dirs_has(&us->replaced_dirs, id);
}

unsigned checkpoints_published(struct units *us)
{
	return atomic_load(&us->nr_published);
}

const struct inode_id *checkpoint_id(const struct checkpoint *cp)
{
	return &cp->id;
}

const struct caller *checkpoint_owner(const struct checkpoint *cp)
{
	return &cp->owner;
}

bool checkpoint_inherits(const struct checkpoint *cp)
{
	return cp->inherits;
}

bool checkpoint_is_change(const struct checkpoint *cp)
{
	return cp->follows;
}

void checkpoint_get(struct checkpoint *cp)
{
	LOCK_SCOPE(&cp->units->lock);
	cp->refs++;
}

void checkpoint_leave(struct checkpoint *cp)
{
	LOCK_SCOPE(&cp->units->lock);
	cp->nr_changing--;
	cp->changed_ns = clock_mono_ns();
	if (cp->unwanted) /* it was in use until now */
		wreck_unwanted_locked(cp);
	waitq_wake(&cp->units->commits);
	accord_wake(cp);
}

void checkpoint_put(struct checkpoint *cp)
{
	int fd = -1, dir = -1;
	bool last;

	if (!cp)
		return;
	{
		LOCK_SCOPE(&cp->units->lock);
		last = !--cp->refs;
		if (!last && wreck_rests_locked(cp))
			wreck_shrink_locked(cp, &fd, &dir);
	}
	if (fd >= 0)
		close(fd);
	if (dir >= 0)
		close(dir);
	if (!last)
		return;
	checkpoint_forget_evidence(cp);
	checkpoint_free_participants(&cp->participants);
	if (cp->target.dir >= 0)
		close(cp->target.dir);
	if (cp->fd >= 0)
		close(cp->fd);
	process_put(cp->maker);
	free(cp->shared);
	free(cp->following);
	free(cp->left);
	accord_free(cp->accord);
	filed_finish(&cp->filed);
	overwrites_finish(&cp->overwrites);
	free(cp->below);
	free(cp->path);
	free(cp->unit);
	free(cp);
}

/* --- what is known of its files --- */

void checkpoint_add_filed(struct checkpoint *cp, const struct filed *f)
{
	LOCK_SCOPE(&cp->units->lock);
	filed_add(&cp->filed, f);
}

int checkpoint_take_filed(struct checkpoint *cp, struct filed **out, size_t *nr)
{
	LOCK_SCOPE(&cp->units->lock);
	return filed_copy(&cp->filed, out, nr);
}

bool checkpoint_by_handle(struct checkpoint *cp, const struct inode_id *id,
			  struct tensor_map **tensors)
{
	LOCK_SCOPE(&cp->units->lock);
	const struct filed *f = filed_find(&cp->filed, id);

	*tensors = f ? tensor_map_get(f->tensors) : NULL;
	return f && f->by_handle;
}

void checkpoint_add_overwrite(struct checkpoint *cp, const struct inode_id *own,
			      const struct inode_id *old)
{
	LOCK_SCOPE(&cp->units->lock);
	overwrites_add(&cp->overwrites, own, old);
}

int checkpoint_take_overwrites(struct checkpoint *cp, struct overwrites *out)
{
	LOCK_SCOPE(&cp->units->lock);
	return overwrites_copy(&cp->overwrites, out);
}
