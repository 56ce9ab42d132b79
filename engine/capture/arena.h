/* SPDX-License-Identifier: MIT */
/*
 * Memory that is lent to one session: a memfd, sealed against resizing, that holds nothing else,
 * cut into slots as large as the cache's chunks. It takes the place of as many chunks of the cache,
 * so that both together stay within host_cache_size. Whatever the session does with it spoils only
 * its own captures: a slot is read once it was reported, and only for the file that it was granted
 * for.
 */
#ifndef ENGINE_CAPTURE_ARENA_H
#define ENGINE_CAPTURE_ARENA_H

#include "engine/cache/cache.h"

struct arena {
	struct cache *cache;
	struct chunk **chunks; /* the chunks whose place it takes */
	char *memory;
	int fd;
	unsigned nr_slots, nr_free;
	unsigned *free; /* the last is taken first */
};

/*
 * Makes an arena of up to @nr slots, for @uid. 0; -ENOMEM: the cache cannot spare two; or -errno.
 * An arena of all zeros is none, which arena_destroy accepts.
 */
int arena_create(struct arena *a, struct cache *c, uid_t uid, unsigned nr);
void arena_destroy(struct arena *a);

/* A slot, or -1. The lock of the arena's owner guards these functions. */
int arena_take(struct arena *a);
void arena_give(struct arena *a, unsigned slot);

static inline char *arena_slot(const struct arena *a, unsigned slot)
{
	return a->memory + (size_t)slot * a->cache->chunk_size;
}

#endif
