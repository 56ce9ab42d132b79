/* SPDX-License-Identifier: MIT */
#include "engine/unit/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/unit/internal.h"
#include "engine/unit/rules.h"
#include "engine/unit/trash.h"

#define AS_OWNER(p, expr) \
	({ \
		int as_owner_ = AS_CALLER((p)->owner, (expr)); \
		creds_restore(); \
		if (as_owner_ == -EACCES || as_owner_ == -EPERM) \
			as_owner_ = (expr); \
		as_owner_; \
	})

static bool is_replaced(const struct placement *p, const struct statx *stx)
{
	struct inode_id id = inode_id_of(stx);

	if (p->replaces && id.ino == p->ino && id.btime_ns == p->btime_ns)
		return true;
	return p->is_ours && p->is_ours(p->arg, stx);
}

static int sync_dir(const struct placement *p)
{
	int fd = AS_OWNER(p, backing_reopen(p->backing, p->dir, O_RDONLY | O_DIRECTORY)), err;

	if (fd < 0)
		return fd;
	err = backing_sync(p->backing, fd, false);
	close(fd);
	return err;
}

static int rename_in(const struct placement *p, const char *from, const char *to, unsigned flags)
{
	return AS_OWNER(p, backing_rename(p->backing, p->dir, from, p->dir, to, flags));
}

/*
 * What has the name goes to trash. Where the backing cannot exchange two names, the name is absent for
 * a moment there; whoever finds the decision goes on from that.
 */
static int replace(const struct placement *p, const char *trash)
{
	int err = rename_in(p, p->staging, p->name, RENAME_EXCHANGE);

	if (!err)
		return rename_in(p, p->staging, trash, 0);
	if (err != -EINVAL && err != -EOPNOTSUPP && err != -ENOSYS)
		return err;
	err = rename_in(p, p->name, trash, 0);
	return err ? err : rename_in(p, p->staging, p->name, 0);
}

int replace_place(const struct placement *p, bool *trashed)
{
	char trash[STAGING_MAX + 8];
	struct statx staged, there;
	int err, taken;

	snprintf(trash, sizeof(trash), "%s%s", TRASH_PREFIX, p->staging + strlen(STAGING_PREFIX));
	*trashed = false;
	err = AS_OWNER(p, backing_stat_at(p->backing, p->dir, p->staging, &staged));
	if (err && err != -ENOENT)
		return err;
	taken = AS_OWNER(p, backing_stat_at(p->backing, p->dir, p->name, &there));
	if (taken && taken != -ENOENT)
		return taken;
	if (err == -ENOENT) /* done before, but perhaps not synced */
		return taken ? -ENOENT : sync_dir(p);
	if (!taken && is_replaced(p, &staged)) {
		/* They were exchanged before: what lies in staging is what had the name. */
		err = rename_in(p, p->staging, trash, 0);
		*trashed = !err;
	} else if (!taken && !is_replaced(p, &there)) {
		return -EBUSY;
	} else if (!taken) {
		err = replace(p, trash);
		*trashed = !err;
	} else {
		err = rename_in(p, p->staging, p->name, 0);
	}
	return err ? err : sync_dir(p);
}

/* Something that this mount has published under that name since @checkpoint was begun. */
static bool is_ours(void *checkpoint, const struct statx *stx)
{
	struct units *us = ((struct checkpoint *)checkpoint)->units;
	struct inode_id id = inode_id_of(stx);
	const struct ended *e;
	LOCK_SCOPE(&us->lock);

	e = history_find_inode(&us->history, &id);
	return e && e->state == GENERATION_COMMITTED;
}

int replace_target(struct checkpoint *cp)
{
	struct placement p = {.backing = cp->units->contents->backing,
			      .owner = &cp->owner,
			      .dir = cp->target.dir,
			      .staging = cp->staging,
			      .name = cp->target.name,
			      .replaces = cp->replaces,
			      .ino = cp->replaced.ino,
			      .btime_ns = cp->replaced.btime_ns,
			      .is_ours = is_ours,
			      .arg = cp};
	bool trashed;
	int err = replace_place(&p, &trashed);

	if (!err && trashed)
		trash_empty_later(cp->units, &cp->owner, cp->target.dir,
				  cp->staging + strlen(STAGING_PREFIX));
	return err;
}
