/* SPDX-License-Identifier: MIT */
/* Paths for people. Takes the units' lock, and asks the mount for the path without it. */
#include "engine/save/units.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/lock.h"

void units_path(const struct units *us, const struct inode_id *dir, const char *name, char *buf,
		size_t size)
{
	if (us->name)
		us->name(us->name_arg, dir, name, buf, size);
	else
		snprintf(buf, size, "%s", name ? name : "?");
}

/* Takes the lock: a rename may change @t meanwhile. */
void target_path(struct units *us, const struct target *t, char *buf, size_t size)
{
	struct inode_id dir;
	char name[NAME_MAX + 1];
	{
		LOCK_SCOPE(&us->lock);
		dir = t->dir_id;
		memcpy(name, t->name, sizeof(name));
	}
	units_path(us, &dir, name, buf, size);
}

void generation_path(struct generation *g, char *buf, size_t size)
{
	target_path(g->units, &g->target, buf, size);
}

void checkpoint_path(struct checkpoint *cp, char *buf, size_t size)
{
	target_path(cp->units, &cp->target, buf, size);
}
