/* SPDX-License-Identifier: MIT */
/*
 * Several nodes may do this for one checkpoint at the same time, after the node that decided
 * crashed, and locks on the backing may hold on one node only. So a step relies neither on earlier
 * steps nor on return values: after each rename it looks at all three names again, and recognises
 * what lies there by the generation in its commit file. If two nodes exchange the names, the second
 * exchange undoes the first, and the next look shows that. If the new directory was moved to trash,
 * it comes back. A node empties trash only after it has seen that trash is not the new directory.
 */
#include "engine/redo/publish_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/backing/dirwalk.h"
#include "engine/backing/inode.h"
#include "engine/base/cleanup.h"
#include "engine/base/fault.h"
#include "engine/format/names.h"
#include "engine/redo/unit_header.h"

/*
 * Each step but the last happens once, and again for each node that interferes. If this is too
 * small, the replacement fails with -EAGAIN.
 */
#define MAX_STEPS 32

enum found {
	NOTHING,
	OURS,	  /* the new directory */
	REPLACED, /* what had the name at the begin */
	ANOTHER,
};

struct seen {
	enum found what;
	uid_t uid;
};

static const char *id_of(const struct placement *p)
{
	return staging_id(p->staging);
}

static bool is_replaced(const struct placement *p, const struct statx *stx, const char *generation)
{
	struct inode_id id = inode_id_of(stx);

	if (p->replaces && *p->generation && !strcmp(p->generation, generation))
		return true;
	if (p->replaces && !*p->generation && id.ino == p->ino && id.btime_ns == p->btime_ns)
		return true;
	return p->is_ours && p->is_ours(p->arg, stx);
}

/* Finds out what has @name. 0, or -errno: unknown. */
static int look(const struct placement *p, const char *name, struct seen *seen)
{
	__cleanup_fd int pin = backing_pin(p->backing, p->dir, name);
	char generation[COMMIT_HEX] = "";
	bool bare, is_new;
	struct statx stx;
	int err = pin < 0 ? pin : backing_stat(p->backing, pin, &stx);

	*seen = (struct seen){.what = NOTHING};
	if (err)
		return err == -ENOENT ? 0 : err;
	if (S_ISDIR(stx.stx_mode))
		err = unit_generation(p->backing, pin, generation);
	bare = err == -ENOENT;
	if (err && err != -ENOENT && err != -EBADMSG && err != -EPROTO && err != -ELOOP)
		return err;
	seen->uid = stx.stx_uid;
	is_new = p->ordinary ? bare : !strcmp(generation, id_of(p));
	if (is_new && (!p->owned || stx.stx_uid == p->owner->uid))
		seen->what = OURS;
	else
		seen->what = is_replaced(p, &stx, generation) ? REPLACED : ANOTHER;
	return 0;
}

/*
 * Renames as the owner. The daemon uses its own rights only for what belongs to the owner: it takes
 * nothing from others that the owner could not take.
 */
static int rename_in(const struct placement *p, const struct seen *there, const char *from,
		     const char *to, unsigned flags)
{
	struct backing as = backing_as(p->backing, p->owner);
	int err = backing_rename(&as, p->dir, from, p->dir, to, flags);

	if ((err == -EACCES || err == -EPERM) &&
	    (there->what == NOTHING || there->uid == p->owner->uid))
		err = backing_rename(p->backing, p->dir, from, p->dir, to, flags);
	return err;
}

/*
 * Moves what has the name to trash. If the backing cannot exchange two names, the name is absent
 * there for a moment; after a crash any node that finds the decision goes on from there.
 */
static int make_way(const struct placement *p, const struct seen *there, const char *trash)
{
	int err = rename_in(p, there, p->staging, p->name, RENAME_EXCHANGE);

	if (err != -EINVAL && err != -EOPNOTSUPP && err != -ENOSYS)
		return err;
	return rename_in(p, there, p->name, trash, 0);
}

struct names {
	struct seen staged, there, trashed;
};

/* 1: there is something to do. 0: it has its name. */
static int judge(const struct names *n)
{
	if (n->there.what == OURS && n->staged.what == OURS)
		return -EBUSY; /* a program has copied it */
	if (n->there.what == OURS)
		return n->staged.what == REPLACED;
	if (n->staged.what == OURS)
		return n->there.what == ANOTHER ? -EBUSY : 1;
	if (n->trashed.what == OURS)
		return 1;
	return n->staged.what == NOTHING ? -ENOENT : -EBADMSG;
}

/* Moves what has the staging name, and is neither old nor new, out of the way, for fsck. */
static int set_aside(const struct placement *p, const struct seen *staged)
{
	char id[STAGING_MAX], aside[TRASH_MAX];
	struct seen moved;
	int err = staging_new(id);

	if (err)
		return err;
	trash_name(aside, staging_id(id));
	err = rename_in(p, staged, p->staging, aside, 0);
	if (!err && !look(p, aside, &moved) && moved.what == OURS)
		err = rename_in(p, &moved, aside, p->staging, 0);
	return err;
}

static int make_step(const struct placement *p, const struct names *n, const char *trash)
{
	if (n->there.what == OURS)
		return rename_in(p, &n->staged, p->staging, trash, 0);
	if (n->staged.what == OURS && n->there.what == REPLACED)
		return make_way(p, &n->there, trash);
	if (n->staged.what == OURS)
		return rename_in(p, &n->there, p->staging, p->name, 0);
	/*
	 * Another node moved that there, and took it for what had the name. The right one may have
	 * the name by now: so this must not go back to the name.
	 */
	if (n->staged.what != NOTHING)
		return set_aside(p, &n->staged);
	return rename_in(p, &n->trashed, trash, p->staging, 0);
}

static int look_at_all(const struct placement *p, const char *trash, struct names *n)
{
	int err = look(p, p->staging, &n->staged);

	if (!err)
		err = look(p, p->name, &n->there);
	return err ? err : look(p, trash, &n->trashed);
}

static bool same_names(const struct names *a, const struct names *b)
{
	return a->staged.what == b->staged.what && a->there.what == b->there.what &&
	       a->trashed.what == b->trashed.what;
}

/* 1: look again. 0: it has its name. */
static int step(const struct placement *p, const char *trash)
{
	struct names n, now;
	int err = look_at_all(p, trash, &n), verdict;

	if (err)
		return err;
	verdict = judge(&n);
	if (verdict < 0) {
		/* Others may act between the looks at the three names. */
		err = look_at_all(p, trash, &now);
		return err ? err : same_names(&n, &now) ? verdict : 1;
	}
	if (verdict != 1 || p->only_look)
		return verdict;
	err = make_step(p, &n, trash);
	/* The next look shows what others did meanwhile. */
	if (!err || err == -ENOENT || err == -EEXIST || err == -ENOTEMPTY)
		return 1;
	/* The rename may be done although the answer says otherwise. */
	return look_at_all(p, trash, &now) || same_names(&n, &now) ? err : 1;
}

void publish_dir_tidy(struct backing *b, int fd)
{
	__cleanup_dirwalk struct dirwalk w = DIRWALK_CLOSED;

	(void)dirwalk_begin(&w, b, fd);
	while (dirwalk_next(&w))
		if (name_is_of_agreement(w.name))
			backing_unlink(b, fd, w.name, false);
}

/* Tidies what another node has decided, which may have been lost before it tidied up itself. */
static void tidy_staged(const struct placement *p)
{
	__cleanup_fd int pin = backing_pin(p->backing, p->dir, p->staging), fd = -1;

	fd = pin < 0 ? pin : backing_reopen(p->backing, pin, O_RDONLY | O_DIRECTORY);
	if (fd >= 0)
		publish_dir_tidy(p->backing, fd);
}

int publish_dir_place(const struct placement *p, bool *trashed)
{
	char trash[TRASH_MAX];
	struct seen old;
	int err = 1, i;

	trash_name(trash, id_of(p));
	*trashed = false;
	if (p->only_look)
		return step(p, trash);
	if (p->owned)
		tidy_staged(p);
	for (i = 0; err == 1 && i < MAX_STEPS; i++)
		err = step(p, trash);
	if (err)
		return err == 1 ? -EAGAIN : err;
	if (!FAULT(NAME_UNSYNCED))
		err = backing_sync_dir(p->backing, p->dir);
	if (!err && !look(p, trash, &old))
		*trashed = old.what != NOTHING && old.what != OURS;
	return err;
}
