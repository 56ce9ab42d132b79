/* SPDX-License-Identifier: MIT */
/*
 * Memory of the cache that a session fills (engine/capture): a memfd, sealed against resizing, that
 * holds nothing else, cut into slots as large as chunks. A slot is a chunk of the cache whose
 * memory lies there. So what a session has put into it is digested and flushed from where it lies.
 *
 *       idle ---- loan_take -----> with the session, which has it filled
 *       session - loan_give -----> idle
 *       session - content_adopt -> bound to a file, as any chunk: PARTIAL ... FLYING
 *       bound --- flushed, or its file has failed -> idle
 *
 * Where the storage is slow, most slots come to be bound (loan_is_tight_locked). Then the session
 * copies a slot into another chunk of the cache, as long as that has some to spare, and can fill
 * the slot again.
 *
 * Whatever the session does with this memory spoils only its own captures: a slot holds bytes of
 * one file, for which it was granted to the session. A process that changes a slot after it has
 * reported it, and before it is flushed, spoils that file. So bytes are never read from here once
 * the backing has them, and no bytes are put here of files that belong to another user.
 *
 * After loan_close what is dirty is still flushed. The threads that fault return the memory.
 */
#ifndef ENGINE_CACHE_LOAN_H
#define ENGINE_CACHE_LOAN_H

#include "engine/cache/cache.h"

struct loan {
	struct cache *cache;   /* const from here */
	struct chunk **chunks; /* by slot */
	char *memory;
	int fd;
	unsigned nr_slots;
	/* cache lock */
	struct list link;	   /* cache->loans, once closed */
	struct list idle;	   /* chunks, the last used first */
	unsigned nr_idle, nr_left; /* those that the loan still has */
	unsigned nr_bound;	   /* to files */
	bool closed;
	bool awaited; /* loan_has_room was false */
	void (*room)(void *arg);
	void *arg;
};

/*
 * The number of slots for a process that is one of @local_world on this node (0: not known). All
 * such processes together may have all of the cache but an eighth. Half of that eighth is for
 * writers. Processes beyond, and those of which no launcher has told, may each have half of what is
 * left, or of the whole cache if nothing is lent. Where users are limited (cache_per_uid), a
 * process has at most three quarters of that.
 */
unsigned loan_share(struct cache *c, unsigned local_world);

/*
 * Lends up to @nr chunks, charged to @uid. @room(@arg) is called, with the cache's lock held, when
 * loan_has_room was false and may be true now. 0; -ENOMEM: the cache cannot spare two; or
 * -errno.
 */
int loan_create(struct loan **out, struct cache *c, uid_t uid, unsigned nr, void (*room)(void *arg),
		void *arg);

/* Ends the loan, which belongs to the cache from here on. NULL is fine. */
void loan_close(struct loan *l);

/* A chunk without a content, for the session to fill; NULL: there is none now. */
struct chunk *loan_take(struct loan *l);
void loan_give(struct loan *l, struct chunk *ck);

/* False: loan_take would find none, and @room is called once it may find one. */
bool loan_has_room(struct loan *l);

/* True if the session waits for room: what it has filled should leave soon. */
bool loan_is_awaited_locked(const struct loan *l);

/* True if more than three quarters of the slots would be bound if one more were. */
bool loan_is_tight_locked(const struct loan *l);

/* The number of slots that loan_take would find. */
unsigned loan_room(struct loan *l);

static inline unsigned loan_slot(const struct loan *l, const struct chunk *ck)
{
	return (unsigned)((size_t)(ck->memory - l->memory) / l->cache->chunk_size);
}

#endif
