/* SPDX-License-Identifier: MIT */
/* The cache from its start to its end: its memory, and the threads that fault it in. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/base/cleanup.h"
#include "engine/base/message.h"
#include "engine/cache/cache_inside.h"

/* Makes the kernel lock each page when it is faulted, which costs no time now. */
static void lock_memory(struct cache *c)
{
	if (c->limits.lock && mlock2(c->memory, c->nr_chunks * c->chunk_size, MLOCK_ONFAULT))
		MESSAGE(c->not_locked, CACHE_NOT_LOCKED, strerror(errno));
}

static int start(struct cache *c)
{
	size_t i, size = c->nr_chunks * c->chunk_size;

	c->chunks = calloc(c->nr_chunks, sizeof(*c->chunks));
	c->hash = calloc(c->nr_chunks, sizeof(*c->hash));
	c->memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (c->memory == MAP_FAILED)
		c->memory = NULL;
	if (!c->chunks || !c->hash || !c->memory)
		return -ENOMEM;
	madvise(c->memory, size, MADV_HUGEPAGE); /* fewer faults, where the host has huge pages */
	madvise(c->memory, size, MADV_DONTDUMP);
	{
		LOCK_SCOPE(&c->lock);
		for (i = 0; i < c->nr_chunks; i++) {
			list_init(&c->chunks[i].queue);
			list_init(&c->chunks[i].mine);
			cache_chill_locked(c, &c->chunks[i]);
		}
	}
	lock_memory(c);
	return cache_faulters_start(c);
}

int cache_create(struct cache **out, const struct cache_limits *limits, struct error *e)
{
	struct cache *c = calloc(1, sizeof(*c));
	int err;

	*out = NULL;
	if (!c)
		return FAIL(e, ENOMEM, CACHE_NO_MEMORY, limits->size >> 20, strerror(ENOMEM));
	c->limits = *limits;
	c->chunk_size = limits->chunk_size;
	c->nr_chunks = limits->size / limits->chunk_size;
	lock_init(&c->lock, LOCK_CACHE);
	waitq_init(&c->work, &c->lock);
	waitq_init(&c->chilled, &c->lock);
	waitq_init(&c->settled, &c->lock);
	list_init(&c->free);
	list_init(&c->cold);
	list_init(&c->partial);
	list_init(&c->ready);
	list_init(&c->clean);
	list_init(&c->waiting);
	list_init(&c->charges);
	list_init(&c->loans);
	err = start(c);
	if (err) {
		cache_destroy(c);
		return FAIL(e, -err, CACHE_NO_MEMORY, limits->size >> 20, strerror(-err));
	}
	*out = c;
	return 0;
}

void cache_destroy(struct cache *c)
{
	if (!c)
		return;
	cache_faulters_stop(c);
	loans_destroy(c);
	cache_forget_charges(c);
	if (c->memory)
		munmap(c->memory, c->nr_chunks * c->chunk_size);
	free(c->chunks);
	free(c->hash);
	lock_finish(&c->lock);
	free(c);
}
