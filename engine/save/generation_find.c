/* SPDX-License-Identifier: MIT */
/*
 * Finds generations by name, inode or staging name, and lists the names that a directory shows.
 *
 * units->live (live.h) has the tables; this file decides which generation of a name is the visible
 * one, and gives references. Takes the units' lock, except in functions that end in _locked. Does
 * not look at the backing.
 */
#include "engine/save/units.h"

#include "engine/base/lock.h"

struct generation *units_find_locked(struct units *us, const struct inode_id *dir, const char *name)
{
	struct generation *g = live_newest(&us->live, dir, name);

	while (g && !g->visible)
		g = live_older(&us->live, g);
	return g;
}

void generation_show_locked(struct generation *g)
{
	struct generation *older;

	g->visible = false; /* under its former name */
	older = units_find_locked(g->units, &g->target.dir_id, g->target.name);
	if (older)
		older->visible = false;
	g->visible = true;
	live_renew(&g->units->live, g);
}

struct generation *units_find_inode_locked(struct units *us, const struct inode_id *id)
{
	struct generation *g = live_find_inode(&us->live, id);

	if (g)
		g->refs++;
	return g;
}

struct generation *units_find(struct units *us, const struct inode_id *dir, const char *name,
			      pid_t pid)
{
	struct generation *g;
	LOCK_SCOPE(&us->lock);

	g = pid ? live_newest(&us->live, dir, name) : NULL;
	while (g && !(g->pointer && generation_opener_of_locked(g, pid)))
		g = live_older(&us->live, g);
	g = g ? g : units_find_locked(us, dir, name);
	if (g)
		g->refs++;
	return g;
}

struct generation *units_find_inode(struct units *us, const struct inode_id *id)
{
	LOCK_SCOPE(&us->lock);
	return units_find_inode_locked(us, id);
}

struct generation *units_find_staging(struct units *us, const char *staging)
{
	LOCK_SCOPE(&us->lock);
	struct generation *g = live_find_staging(&us->live, staging);

	if (g)
		g->refs++;
	return g;
}
