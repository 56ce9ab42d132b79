/* SPDX-License-Identifier: MIT */
/*
 * The pending pointers of the journal (journal.h), written or held. Callers hold the units' lock,
 * unless a function says otherwise.
 */
#ifndef ENGINE_JOURNAL_JOURNAL_PENDING_H
#define ENGINE_JOURNAL_JOURNAL_PENDING_H

#include "engine/save/generation.h"

/* A pending pointer: written, or held. All but the first two points into that. */
struct pending {
	struct generation *written; /* NULL: held */
	struct held *held;	    /* NULL: written */
	const struct target *target;
	const char *staging, *waits_for, *names;
	uint64_t since_ns;
};

/* The pending pointer after @p, which is zero at first; none that is overtaken. False: no more. */
bool pending_next_locked(struct units *us, struct pending *p);

void pending_get_locked(struct pending *p);

/* Lock not held. */
void pending_put(struct pending *p);

/* Lock not held. NULL is no harm. */
void held_put(struct held *h);

/* True if a pointer in this mount waits for @unit. */
bool pointers_wait_for_locked(struct units *us, const char *unit);

/*
 * True if a pointer in this mount is on its way to name @name beside it, in the directory @dir. One
 * that waits for the commit of another save of that name does not count.
 */
bool pointers_will_name_locked(struct units *us, const struct inode_id *dir, const char *name);

#endif
