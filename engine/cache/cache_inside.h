/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files behind cache.h. cache.c: states, room and its queue. faulting.c: memory of
 * chunks, faulted in. loan.c: chunks that a session fills, loan_slots.c: those that wait for it.
 * cache_create.c: all of these started and ended. The caller holds the lock of the cache.
 */
#ifndef ENGINE_CACHE_CACHE_INSIDE_H
#define ENGINE_CACHE_CACHE_INSIDE_H

#include "engine/cache/cache.h"

/* --- cache.c --- */

/* A free or clean chunk to lend, which is charged to @uid; NULL: the rest is for writers. */
struct chunk *cache_take_to_lend_locked(struct cache *c, uid_t uid);

/* Makes @ck, which was lent, free and cold. */
void cache_take_back_locked(struct cache *c, struct chunk *ck);

/* Makes @ck, which has no content and no memory, free and cold. */
void cache_chill_locked(struct cache *c, struct chunk *ck);

/* At the end of the cache. */
void cache_forget_charges(struct cache *c);

/* --- faulting.c --- */

/* Starts the threads. 0, or -errno if there is none. */
int cache_faulters_start(struct cache *c);
void cache_faulters_stop(struct cache *c);

/* --- loan_slots.c --- */

/* @ck waits for the session, or, if @l is closed, for a thread that returns its memory. */
void loan_idle_locked(struct loan *l, struct chunk *ck);

/* @ck, which is of a loan, has no content any more. */
void loan_returned_locked(struct chunk *ck);

/* --- loan.c --- */

/*
 * For the threads that fault: gives back the memory of a closed loan, or a part of it. Drops the
 * lock meanwhile. False: no loan is closed, or none has anything to give.
 */
bool loans_work_locked(struct cache *c);

/* At the end of the cache: no thread uses it. */
void loans_destroy(struct cache *c);

#endif
