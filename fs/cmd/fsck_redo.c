/* SPDX-License-Identifier: MIT */
/*
 * Finishes, for `ckptfs fsck`, what was decided before a crash: names of committed checkpoints, and
 * what follows their commits (engine/redo/recover.h). Runs before the walk, which would take
 * decided work for unfinished.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/message.h"
#include "engine/coord/coord.h"
#include "engine/format/names.h"
#include "engine/rule/rule.h"
#include "engine/redo/recover.h"
#include "fs/cmd/fsck_inside.h"

static void keep_waiting(struct fsck *f, const char *staging)
{
	char **more = realloc(f->waiting, (f->nr_waiting + 1) * sizeof(*more));

	if (!more)
		return;
	f->waiting = more;
	more[f->nr_waiting] = strdup(staging);
	f->nr_waiting += more[f->nr_waiting] != NULL;
}

static void redone(void *arg, const struct caller *owner, const char *unit, const char *staging,
		   int err)
{
	struct fsck *f = arg;
	struct leftover l = {.kind = LEFT_DECIDED, .path = unit, .is_dir = true};
	char text[MESSAGE_MAX], path[PATH_MAX];

	(void)owner;
	f->nr[LEFT_DECIDED]++;
	show_name(path, sizeof(path), unit);
	if (err == -EBUSY)
		MESSAGE(text, PUBLISH_CONFLICT, path, staging);
	else if (err == -EBADMSG)
		MESSAGE(text, RECOVERY_DAMAGED, path, staging, staging);
	else if (err)
		MESSAGE(text, RECOVERY_WAITS, path, strerror(-err), staging);
	if (err && err != -EBUSY && err != -EBADMSG)
		keep_waiting(f, staging);
	f->nr_left += err || f->mode == DRY_RUN;
	f->nr_redone += !err && f->mode != DRY_RUN;
	fsck_tell(f, &l,
		  err		       ? "left"
		  : f->mode == DRY_RUN ? "would redo"
				       : "redone",
		  NULL, err ? text : NULL);
}

/* Reports what was to follow a decided commit. */
static void followed(void *arg, const struct caller *owner, const char *path, bool removed,
		     const char *unit, int err)
{
	struct fsck *f = arg;
	struct leftover l = {.kind = LEFT_DECIDED, .path = path, .is_dir = removed};
	char text[MESSAGE_MAX], shown[PATH_MAX], unit_shown[PATH_MAX];

	(void)owner;
	f->nr[LEFT_DECIDED]++;
	if (err)
		MESSAGE(text, RECOVERY_FOLLOWS, show_name(shown, sizeof(shown), path),
			removed ? "removed" : "changed",
			show_name(unit_shown, sizeof(unit_shown), unit), strerror(-err));
	f->nr_left += err || f->mode == DRY_RUN;
	f->nr_redone += !err && f->mode != DRY_RUN;
	fsck_tell(f, &l,
		  err		       ? "left"
		  : f->mode == DRY_RUN ? (removed ? "would remove" : "would point")
		  : removed	       ? "removed"
				       : "pointed",
		  NULL, err ? text : NULL);
}

static void replaced(void *arg, const struct caller *owner, int dir, const char *id)
{
	char name[TRASH_MAX];
	struct leftover l = {.dir = dir, .name = name, .is_dir = true};

	(void)arg;
	(void)owner;
	trash_name(name, id);
	leftover_remove(&l); /* else the walk finds it */
}

static int redo_decided_by(struct fsck *f, const struct coord_ops *coord, void *coord_arg,
			   bool alone)
{
	struct rules *rules; /* the built-in ones: a mount's own were asked for the decision */
	struct error e;
	int err = rules_create(&rules, NULL, "", &e);
	struct recovery r = {.backing = &f->backing,
			     .coord = coord,
			     .rules = rules,
			     .coord_arg = coord_arg,
			     .only_look = f->mode == DRY_RUN,
			     .alone = alone,
			     .redone = redone,
			     .followed = followed,
			     .trashed = replaced,
			     .arg = f};

	if (err)
		return err;
	progress_show(&f->progress, "what was decided before a crash");
	err = recover_decided(&r);
	if (!err && f->mode != DRY_RUN && (alone || coord != &coord_dir_ops))
		err = recover_names(&r);
	rules_destroy(rules);
	return err;
}

/* Redoes by the backing's records in any case: another coord may have been chosen since. */
int fsck_redo_decided(struct fsck *f)
{
	int err = redo_decided_by(f, &coord_dir_ops, &f->backing, !fsck_is_nfs(&f->backing));
	int also = f->coord.etcd ? redo_decided_by(f, f->coord.ops, f->coord.arg, false) : 0;

	return err ? err : also;
}
