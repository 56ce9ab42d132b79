/* SPDX-License-Identifier: MIT */
/*
 * Pending pointers wait for a commit: `latest` and the like, files whose content names a unit
 * beside them. Each write of a pointer is a generation, published as any file is, but only after
 * the named unit is committed; never if that unit fails. Until then the name shows what was applied
 * last, in the mount too: only handles that wrote the new content see it. While it is unknown
 * whether another node saves the named unit, the pointer waits as well, and the committers ask
 * again. Pointers that get their name by a rename, and symbolic links, are in journal_held.h.
 *
 * Callers hold the units' lock, unless a function says otherwise.
 */
#ifndef ENGINE_JOURNAL_JOURNAL_WRITTEN_H
#define ENGINE_JOURNAL_JOURNAL_WRITTEN_H

#include "engine/gen/fate.h"
#include "engine/save/generation_inside.h"

struct held;

/* The staging name of the unit that has that name and is still to be committed; NULL: none. */
const char *pointer_unit_locked(struct units *us, const struct inode_id *dir, const char *name);

/* @g was closed, perhaps again: notes what it waits for, and reports the close as evidence. */
void pointer_closed(struct generation *g);

/* For people: what a pointer waits for that names @names. */
void pointer_say_waits(const char *names, bool asks, char *buf, size_t size);

/* What becomes of a pointer, written or held. */
enum fate pointer_fate(const struct generation *g);
enum fate held_fate_locked(const struct held *h);

/*
 * Tells people why the pointer @path of @uid is not applied. @names and @waits_for are members of
 * it. Without the lock.
 */
void pointer_tell_dropped(struct units *us, uid_t uid, const char *path, const char *names,
			  const char *waits_for);

#endif
