/* SPDX-License-Identifier: MIT */
/* Which unit a pointer names, and whether another node saves it. */
#ifndef ENGINE_CALLS_JOURNAL_RESOLVE_H
#define ENGINE_CALLS_JOURNAL_RESOLVE_H

#include "engine/save/generation_inside.h"

enum pointed { POINTED_NOTHING, POINTED_PENDING, POINTED_FAILED, POINTED_UNKNOWN };

/*
 * Resolves the unit that @name names beside @t, for the writer @c. If another node saves the unit
 * for the same job, this node joins. Without the lock: may look at the backing. POINTED_PENDING:
 * @unit is the staging name. POINTED_FAILED: the same; the unit failed, and nothing has the name.
 * POINTED_UNKNOWN: to be asked again for *@writer, the process of @c from then on.
 */
enum pointed pointer_find(struct units *us, const struct caller *c, struct process **writer,
			  const struct target *t, const char *name, char unit[STAGING_MAX]);

/* Reads what @g says now, because a descriptor of it is being closed. Without the lock. */
void pointer_read(struct generation *g);

/* Drops the lock meanwhile. Resolves again one pointer that was unknown. False: there is none. */
bool pointers_work_locked(struct units *us);

#endif
