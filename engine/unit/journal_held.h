/* SPDX-License-Identifier: MIT */
/*
 * Held pointers (journal_written.h), which are whole when they come: files that get a pointer's
 * name by a rename, and symbolic links, created or renamed. A pointer that names a unit still to be
 * committed is held beside it under a staging name. The pointer gets its own name when the unit is
 * committed, never if that fails. Until then the name shows what was applied last; if nothing has
 * the name, the mount shows the held pointer.
 *
 * Guarded by the units' lock.
 */
#ifndef ENGINE_UNIT_JOURNAL_HELD_H
#define ENGINE_UNIT_JOURNAL_HELD_H

#include "engine/gen/fate.h"
#include "engine/unit/generation_inside.h"

struct held {
	struct units *units;	   /* const */
	struct caller owner;	   /* const */
	char staging[STAGING_MAX]; /* const */
	struct inode_id id;	   /* const */
	mode_t type;		   /* const; S_IFMT bits */
	int pin;		   /* const */
	char names[NAME_MAX + 1];  /* const: the name of the unit, whose staging name is ... */
	struct process *writer;	   /* for the thread that is busy with it; referenced, or NULL */
	/* units lock */
	char waits_for[STAGING_MAX];
	bool asks; /* its target is not resolved yet */
	unsigned refs;
	struct list link; /* units->held, oldest first; else alone */
	struct target target;
	unsigned busy;	/* of enum busy; BUSY_APPLY also while a commit is to apply it */
	bool overtaken; /* a later one was applied, or its name removed */
	uint64_t since_ns, failing_ns, again_ns;
	uint64_t since_wall_ns; /* since_ns by the wall clock, which other nodes share */
};

/* Drops the pointers of that name that came before @since_ns. */
void held_overtake_locked(struct units *us, const struct target *t, uint64_t since_ns);

/* For the thread that is busy with @h, without the lock: names @h. 0, or -errno: to be retried. */
int held_apply(struct held *h);

/* Without the lock: makes durable what @h says, before its name may show it. 0 or -errno. */
int held_sync(struct held *h);

/* The caller stops being busy with @h; @applied: and @h is not held any more. */
void held_let_go_locked(struct held *h, bool applied);

/*
 * Drops the lock meanwhile. Applies or drops one pointer that is due; with @ask, resolves one again
 * whose target is unknown. False: there is none.
 */
bool held_work_locked(struct units *us, bool ask);

/* True if a thread is busy with a pointer of that name. */
bool held_is_taken_locked(struct units *us, const struct target *t);

/* True if there is one that need not wait, or whose target is unknown. */
bool held_any_due_locked(struct units *us);

/* At umount: what is left stays in staging. */
void held_finish(struct units *us);

#endif
