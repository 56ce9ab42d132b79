/* SPDX-License-Identifier: MIT */
/* Held pointers (journal/held.h): they are applied, dropped or resolved. */
#ifndef ENGINE_CALLS_JOURNAL_HELD_H
#define ENGINE_CALLS_JOURNAL_HELD_H

#include "engine/journal/held.h"

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
