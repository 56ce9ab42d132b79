/* SPDX-License-Identifier: MIT */
#include "engine/save/publish_checkpoint.h"

#include <errno.h>

#include "engine/base/lock.h"
#include "engine/redo/publish_dir.h"
#include "engine/save/trash_queue.h"
#include "engine/save/units.h"

/* True if this mount has published that inode since @checkpoint was begun. */
static bool is_ours(void *checkpoint, const struct statx *stx)
{
	struct units *us = ((struct checkpoint *)checkpoint)->units;
	struct inode_id id = inode_id_of(stx);
	const struct ended *e;
	LOCK_SCOPE(&us->lock);

	e = history_find_inode(&us->history, &id);
	return e && e->state == GENERATION_COMMITTED;
}

static int place(struct checkpoint *cp, struct placement p)
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	bool trashed;
	int err;

	p.backing = &b;
	p.owner = &cp->owner;
	p.dir = cp->target.dir;
	p.staging = cp->staging;
	p.name = cp->target.name;
	p.is_ours = is_ours;
	p.arg = cp;
	err = publish_dir_place(&p, &trashed);
	if (!err && trashed)
		trash_empty_later(cp->units, &cp->owner, cp->target.dir, staging_id(cp->staging));
	return err;
}

int publish_checkpoint(struct checkpoint *cp)
{
	return place(cp, (struct placement){.ordinary = cp->ordinary,
					    .replaces = cp->replaces,
					    .generation = cp->replaced_generation,
					    .ino = cp->replaced.ino,
					    .btime_ns = cp->replaced.btime_ns});
}

int publish_decided(struct checkpoint *cp, const struct decision *d)
{
	return place(cp, (struct placement){.ordinary = d->ordinary,
					    .replaces = d->replaces,
					    .generation = d->generation,
					    .ino = d->ino,
					    .btime_ns = d->btime_ns,
					    .owned = true});
}

int checkpoint_has_name(struct checkpoint *cp, const char *name)
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	struct statx stx;
	struct inode_id id;
	int err = backing_stat_at(&b, cp->target.dir, name, &stx);

	if (err)
		return err == -ENOENT ? 0 : err;
	id = inode_id_of(&stx);
	return same_inode(&id, &cp->id);
}

int checkpoint_name_ordinary(struct checkpoint *cp)
{
	struct backing b = backing_owner(cp->units->contents->backing, &cp->owner);
	int err =
		backing_rename(&b, cp->target.dir, cp->staging, cp->target.dir, cp->target.name, 0);

	return err == -ENOENT && checkpoint_has_name(cp, cp->target.name) > 0 ? 0 : err;
}
