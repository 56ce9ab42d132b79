/* SPDX-License-Identifier: MIT */
/*
 * A program removes, replaces or renames the name of a generation that is not published yet.
 *
 * Takes the units' lock, and makes no call to the backing with it: meanwhile the generation is busy
 * (BUSY_HELD), and no publisher takes it. Names of committed files are left to the caller, which
 * changes them on the backing.
 */
#include "engine/calls/generation_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/lock.h"

void generation_moved_in(struct generation *g, const struct inode_id *dir, const char *name,
			 const char *rel)
{
	char *copy = strdup(rel);
	LOCK_SCOPE(&g->units->lock);

	if (live_has(g))
		live_rename(&g->units->live, g, dir, name);
	if (copy) {
		free(g->rel);
		g->rel = copy;
	}
}

/* Waits for a publish that is under way. -EEXIST: @g was published. */
static int hold_still_locked(struct generation *g)
{
	while (generation_is_held_locked(g)) {
		int err = units_wait(g->units);

		if (err)
			return err;
	}
	return g->state == GENERATION_COMMITTED || g->state == GENERATION_DURABLE ? -EEXIST : 0;
}

/* Cleans up after @g, which was dropped and is referenced. Programs that have it open keep it. */
static void clear_dropped(struct generation *g)
{
	content_orphan(g->content);
	generation_unstage(g, g->target.dir);
}

int generation_drop_one(struct generation *g)
{
	int err;
	{
		LOCK_SCOPE(&g->units->lock);
		err = hold_still_locked(g);
		if (err || (g->state != GENERATION_OPEN && g->state != GENERATION_SEALED))
			return err;
		generation_end_locked(g, GENERATION_DROPPED);
	}
	clear_dropped(g);
	return 0;
}

/* Finds another unpublished generation of the name, referenced. */
static struct generation *another_locked(struct units *us, const struct generation *g,
					 const struct inode_id *dir, const char *name)
{
	struct generation *o = live_oldest(&us->live, dir, name);

	if (o && o == g)
		o = live_newer(&us->live, o);
	if (o)
		o->refs++;
	return o;
}

/* Drops every generation of a name but @g. -EEXIST: one of them was published meanwhile. */
static int drop_others(struct units *us, const struct generation *g, const struct inode_id *dir,
		       const char *name)
{
	int published = 0;

	for (;;) {
		struct generation *o;
		int err;
		{
			LOCK_SCOPE(&us->lock);
			o = another_locked(us, g, dir, name);
		}
		if (!o)
			return published;
		err = generation_drop_one(o);
		generation_put(o);
		if (err && err != -EEXIST)
			return err;
		published = err ? err : published;
	}
}

int generation_drop_older(struct generation *g)
{
	struct inode_id dir;
	char name[NAME_MAX + 1];
	{
		LOCK_SCOPE(&g->units->lock);
		dir = g->target.dir_id;
		memcpy(name, g->target.name, sizeof(name));
	}
	return drop_others(g->units, g, &dir, name);
}

int generation_drop(struct generation *g)
{
	int older = generation_drop_older(g), err;

	if (older && older != -EEXIST)
		return older;
	err = generation_drop_one(g);
	return err ? err : older;
}

int generation_move(struct generation *g, int from, int dir, const char *name)
{
	struct backing b = backing_owner(g->units->contents->backing, &g->owner);
	/* With the daemon's rights if need be: the maker's groups may be gone. */
	int err = backing_rename(&b, from, g->staging, dir, name, 0);
	struct inode_id id;
	struct statx stx;

	if (!err || backing_stat_at(&b, dir, name, &stx))
		return err;
	id = inode_id_of(&stx); /* the answer may be lost, or belong to a repeated call */
	return same_inode(&id, &g->id) ? 0 : err;
}

/*
 * Makes the caller busy @with @g, which is not published yet, until generation_let_go: publishers
 * keep away. *@from: the directory that @g leaves for @dir_id, or -1 if @g stays.
 */
static int hold(struct generation *g, const struct inode_id *dir_id, enum busy with, int *from)
{
	int err;
	LOCK_SCOPE(&g->units->lock);

	err = hold_still_locked(g);
	if (err)
		return err;
	if (state_is_over(g->state))
		return g->state == GENERATION_FAILED ? g->err : -EEXIST;
	*from = same_inode(&g->target.dir_id, dir_id) ? -1 : g->target.dir;
	busy_begin(&g->busy, with);
	return 0;
}

int generation_unlink(struct generation *g, int (*remove)(void *arg), void *arg)
{
	int err = generation_drop_older(g), from;

	if (err && err != -EEXIST)
		return err;
	err = hold(g, &g->target.dir_id, BUSY_REMOVE, &from);
	if (err)
		return err == -EINTR ? err : -EEXIST;
	err = remove(arg);
	if (err) {
		generation_let_go(g, BUSY_REMOVE);
		return err;
	}
	{
		LOCK_SCOPE(&g->units->lock);
		busy_end(g->units, &g->busy, BUSY_REMOVE);
		generation_end_locked(g, GENERATION_DROPPED);
	}
	clear_dropped(g);
	return 0;
}

int generation_rename(struct generation *g, const struct place *at,
		      int (*make_way)(void *arg, bool *replaces, struct inode_id *replaced),
		      void *arg)
{
	int copy = backing_dup(g->units->contents->backing, at->dir), from = -1, err;
	struct inode_id replaced;
	bool replaces;

	if (copy < 0)
		return copy;
	err = hold(g, &at->id, BUSY_RENAME, &from);
	if (err) {
		close(copy);
		return err;
	}
	if (from >= 0) /* a staging file lies beside its target */
		err = generation_move(g, from, at->dir, g->staging);
	if (!err) {
		err = make_way(arg, &replaces, &replaced);
		if (err && from >= 0)
			generation_move(g, at->dir, from, g->staging);
	}
	if (!err) {
		LOCK_SCOPE(&g->units->lock);
		int old = g->target.dir;

		g->target.dir = copy;
		copy = old;
		live_rename(&g->units->live, g, &at->id, at->name);
		g->replaces = replaces;
		if (replaces)
			g->replaced = replaced;
		generation_show_locked(g);
	}
	close(copy);
	if (generation_let_go(g, BUSY_RENAME) && !err)
		err = generation_wait(g);
	return err;
}
