/* SPDX-License-Identifier: MIT */
#include "engine/capture/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/cleanup.h"

#define SLOTS_MIN 2

static int open_memory(struct arena *a)
{
	size_t size = (size_t)a->nr_slots * a->cache->chunk_size;

	a->fd = memfd_create("ckptfs-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (a->fd < 0)
		return -errno;
	/*
	 * Without the seals a process that has it could cut it, and its reader would die of SIGBUS.
	 */
	if (ftruncate(a->fd, (off_t)size) ||
	    fcntl(a->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return -errno;
	a->memory = mmap(NULL, size, PROT_READ, MAP_SHARED, a->fd, 0);
	if (a->memory == MAP_FAILED) {
		a->memory = NULL;
		return -errno;
	}
	madvise(a->memory, size, MADV_DONTDUMP);
	return 0;
}

int arena_create(struct arena *a, struct cache *c, uid_t uid, unsigned nr)
{
	int err = -ENOMEM;

	*a = (struct arena){.cache = c, .fd = -1};
	a->chunks = calloc(nr, sizeof(struct chunk *));
	a->free = calloc(nr, sizeof(*a->free));
	if (a->chunks && a->free)
		a->nr_slots = cache_lend(c, uid, a->chunks, nr);
	if (a->nr_slots >= SLOTS_MIN)
		err = open_memory(a);
	if (err) {
		arena_destroy(a);
		return err;
	}
	while (a->nr_free < a->nr_slots) {
		a->free[a->nr_free] = a->nr_slots - 1 - a->nr_free;
		a->nr_free++;
	}
	return 0;
}

void arena_destroy(struct arena *a)
{
	size_t size = a->cache ? (size_t)a->nr_slots * a->cache->chunk_size : 0;

	if (a->memory)
		munmap(a->memory, size);
	if (a->cache && a->fd >= 0) {
		/* The pages go even if a process still has them mapped. */
		fallocate(a->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)size);
		close(a->fd);
	}
	if (a->cache)
		cache_unlend(a->cache, a->chunks, a->nr_slots);
	free(a->chunks);
	free(a->free);
	*a = (struct arena){.fd = -1};
}

int arena_take(struct arena *a)
{
	return a->nr_free ? (int)a->free[--a->nr_free] : -1;
}

void arena_give(struct arena *a, unsigned slot)
{
	a->free[a->nr_free++] = slot;
}
