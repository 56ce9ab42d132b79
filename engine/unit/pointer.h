/* SPDX-License-Identifier: MIT */
/*
 * Pointers (DESIGN 4, "What waits for a commit"): `latest` and the like, whose content names a unit
 * beside them. Each write of one is a generation, published as any file is, but not before what it
 * names is committed; never if that fails. Until then its name shows, also in the mount, what was
 * applied last: only handles that wrote it see the new content. Those that get their names by a
 * rename, and symbolic links, are held.h's. While it is not known whether another node is saving
 * what one names, it waits as well: the committers ask again.
 *
 * All with the units' lock held, unless they say otherwise.
 */
#ifndef ENGINE_UNIT_POINTER_H
#define ENGINE_UNIT_POINTER_H

#include "engine/unit/unit.h"

enum pointed { POINTED_NOTHING, POINTED_PENDING, POINTED_FAILED, POINTED_UNKNOWN };

/*
 * @unit: the staging name of the unit that has the name @name beside @t and is still to be
 * committed, or, where nothing has that name, that has failed. For @c, who points to it: of what
 * another node saves for the same job this one becomes a part. POINTED_UNKNOWN: whether there is
 * such a one is to be asked again, for *@writer, which is the process of @c from then on. Without
 * the lock: it may look at the backing.
 */
enum pointed pointer_find(struct units *us, const struct caller *c, struct process **writer,
			  const struct target *t, const char *name, char unit[STAGING_MAX]);

/* A descriptor of it is being closed: reads what it says by now. Without the lock. */
void pointer_read(struct generation *g);

/*
 * It was closed, perhaps once more: which unit does it wait for? A checkpoint gets that as
 * evidence.
 */
void pointer_closed(struct generation *g);

/*
 * Drops the lock meanwhile. Asks again for one of which it is not known what it waits for. False:
 * there was none.
 */
bool pointers_work_locked(struct units *us);

/* For people: what a pointer waits for that names @names. */
void pointer_say_waits(const char *names, bool asks, char *buf, size_t size);

enum pointer_fate { POINTER_GO, POINTER_WAIT, POINTER_DROP };

enum pointer_fate pointer_judge(const struct generation *g);

/* The same of what waits for @unit, a staging name, since @since_ns. */
enum pointer_fate pointer_fate(struct units *us, const char *unit, uint64_t since_ns);

/*
 * @t is inode @id now, by a pointer that came at @since_ns: older ones of that name are not applied
 * any more.
 */
void pointer_applied(struct units *us, const struct target *t, const struct inode_id *id,
		     uint64_t since_ns);

/* One that is not applied: tells people why. Without the lock. */
void pointer_dropped(struct generation *g);

/* The same of @path of @uid, which was to name @names, a unit known as @unit. Without the lock. */
void pointer_tell_dropped(struct units *us, uid_t uid, const char *path, const char *names,
			  const char *unit);

/* Does one, in this mount, wait for what is known as @unit? */
bool pointers_wait_for_locked(const struct units *us, const char *unit);

/* Will one that is on its way, in this mount, name @name beside it, in the directory @dir? */
bool pointers_will_name_locked(const struct units *us, const struct inode_id *dir,
			       const char *name);

/*
 * What was written to the name @name in @dir, and waits, will not be applied any more: it is
 * removed, or has got something else. Without the lock; waits for what is being applied. True: some
 * of that was seen there.
 */
bool pointers_drop(struct units *us, const struct inode_id *dir, const char *name);

#endif
