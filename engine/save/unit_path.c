/* SPDX-License-Identifier: MIT */
/*
 * Paths for people, below the mount: where the backing has the directory now, and the name that the
 * save is to get. Takes the units' lock, but not while it asks the kernel.
 */
#include "engine/save/units.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/lock.h"

/* Paths end up on terminals. */
static void make_printable(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

/* Puts @name behind the directory @dir, or "". */
static void join(char *buf, size_t size, const char *dir, const char *name)
{
	snprintf(buf, size, "%s%s%s", dir, *dir && *name ? "/" : "", name);
	make_printable(buf);
}

void units_path(struct units *us, int dir, const char *name, char *buf, size_t size)
{
	char below[PATH_MAX];

	if (backing_path_below(us->contents->backing, dir, below, sizeof(below)))
		snprintf(below, sizeof(below), "?"); /* the directory was removed, say */
	join(buf, size, below, name);
}

/* Takes the lock: a rename may change @t meanwhile. */
void target_path(struct units *us, const struct target *t, char *buf, size_t size)
{
	char name[NAME_MAX + 1];
	int dir;
	{
		LOCK_SCOPE(&us->lock);
		dir = t->dir;
		memcpy(name, t->name, sizeof(name));
	}
	units_path(us, dir, name, buf, size);
}

void generation_path(struct generation *g, char *buf, size_t size)
{
	char top[PATH_MAX];

	if (!g->checkpoint) {
		target_path(g->units, &g->target, buf, size);
		return;
	}
	checkpoint_path(g->checkpoint, top, sizeof(top));
	LOCK_SCOPE(&g->units->lock);
	join(buf, size, top, g->rel);
}

void checkpoint_path(struct checkpoint *cp, char *buf, size_t size)
{
	{
		LOCK_SCOPE(&cp->units->lock);
		if (cp->target.dir < 0) { /* a wreck has closed it */
			join(buf, size, cp->below ? cp->below : "", cp->target.name);
			return;
		}
	}
	target_path(cp->units, &cp->target, buf, size);
}
