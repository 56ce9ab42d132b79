/* SPDX-License-Identifier: MIT */
#include "engine/cache/loan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/cache/cache_inside.h"

#define SLOTS_MIN 2

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24 /* since Linux 5.18 */
#endif

/* --- how much --- */

unsigned loan_share(struct cache *c, unsigned local_world)
{
	size_t nr = c->nr_chunks, reserve = cache_reserve(c), known, most;
	size_t announced = nr - (nr > 3 * reserve ? 2 * reserve : reserve); /* for all such */
	LOCK_SCOPE(&c->lock);

	known = local_world ? announced / local_world : 0;
	most = c->nr_lent + reserve < nr ? (nr - reserve - c->nr_lent) / 2 : 0;
	if (known && c->nr_lent + known <= announced)
		most = known;
	/* The rest of what the user may have is for plain writes. */
	if (c->limits.per_uid && most > c->limits.per_uid / c->chunk_size * 3 / 4)
		most = c->limits.per_uid / c->chunk_size * 3 / 4;
	if (most < SLOTS_MIN)
		most = SLOTS_MIN;
	return most > UINT32_MAX / 2 ? UINT32_MAX / 2 : (unsigned)most;
}

/* --- begin --- */

static int open_memory(struct loan *l)
{
	size_t size = (size_t)l->nr_slots * l->cache->chunk_size;

	l->fd = memfd_create("ckptfs-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (l->fd < 0)
		return -errno;
	/*
	 * Without the seals a process that has it could cut it, and its reader would die of SIGBUS.
	 */
	if (ftruncate(l->fd, (off_t)size) ||
	    fcntl(l->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return -errno;
	l->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, l->fd, 0);
	if (l->memory == MAP_FAILED) {
		l->memory = NULL;
		return -errno;
	}
	madvise(l->memory, size, MADV_HUGEPAGE);
	madvise(l->memory, size, MADV_DONTDUMP);
	return 0;
}

/* Returns the memory of @ck to the host. Memory that @ck gets later is locked as before. */
static void release_memory(struct cache *c, struct chunk *ck)
{
	char *memory = ck->memory;

	if (!madvise(memory, c->chunk_size, MADV_DONTNEED_LOCKED))
		return;
	munlock(memory, c->chunk_size);
	madvise(memory, c->chunk_size, MADV_DONTNEED);
	if (c->limits.lock && !*c->not_locked)
		mlock2(memory, c->chunk_size, MLOCK_ONFAULT);
}

/* Takes up to @nr chunks, whose own memory goes back to the host. */
static void take_chunks(struct loan *l, uid_t uid, unsigned nr)
{
	struct cache *c = l->cache;
	struct chunk *ck;
	unsigned i;
	{
		LOCK_SCOPE(&c->lock);
		while (l->nr_slots < nr) {
			ck = cache_take_to_lend_locked(c, uid);
			if (ck)
				l->chunks[l->nr_slots++] = ck;
			else if (c->nr_returning)
				wait_out(&c->settled, CLOCK_NEVER);
			else
				break;
		}
		l->nr_left = l->nr_slots;
		c->nr_lent += l->nr_slots;
		c->nr_loaned += l->nr_slots;
		for (i = 0; i < l->nr_slots; i++)
			while (l->chunks[i]->faulting)
				wait_out(&c->settled, CLOCK_NEVER);
	}
	for (i = 0; i < l->nr_slots; i++)
		release_memory(c, l->chunks[i]);
}

/* Puts the chunks where their slots are. */
static void place_chunks(struct loan *l)
{
	struct cache *c = l->cache;
	unsigned i;
	LOCK_SCOPE(&c->lock);

	for (i = l->nr_slots; i > 0; i--) {
		struct chunk *ck = l->chunks[i - 1];

		ck->loan = l;
		ck->memory = l->memory + (size_t)(i - 1) * c->chunk_size;
		list_push(&l->idle, &ck->queue);
		l->nr_idle++;
	}
}

static void loan_free(struct loan *l)
{
	if (l->memory)
		munmap(l->memory, (size_t)l->nr_slots * l->cache->chunk_size);
	if (l->fd >= 0)
		close(l->fd);
	free(l->chunks);
	free(l);
}

/* Of a loan that has not begun. */
static void return_chunks(struct loan *l)
{
	struct cache *c = l->cache;
	unsigned i;
	LOCK_SCOPE(&c->lock);

	c->nr_lent -= l->nr_slots;
	for (i = 0; i < l->nr_slots; i++)
		cache_take_back_locked(c, l->chunks[i]);
	cache_serve_waiting(c);
}

int loan_create(struct loan **out, struct cache *c, uid_t uid, unsigned nr, void (*room)(void *arg),
		void *arg)
{
	struct loan *l = calloc(1, sizeof(*l));
	int err = -ENOMEM;

	*out = NULL;
	if (!l)
		return err;
	*l = (struct loan){.cache = c, .fd = -1, .room = room, .arg = arg};
	list_init(&l->link);
	list_init(&l->idle);
	l->chunks = calloc(nr, sizeof(struct chunk *));
	if (l->chunks)
		take_chunks(l, uid, nr);
	if (l->nr_slots >= SLOTS_MIN)
		err = open_memory(l);
	if (err) {
		return_chunks(l);
		loan_free(l);
		return err;
	}
	place_chunks(l);
	*out = l;
	return 0;
}

/* --- slots --- */

/* Makes due what waits for more bytes in its chunk. */
static void hurry_locked(struct loan *l)
{
	unsigned i;

	for (i = 0; i < l->nr_slots; i++)
		if (l->chunks[i]->state == CHUNK_PARTIAL)
			cache_set_state(l->cache, l->chunks[i], CHUNK_READY);
	waitq_wake(&l->cache->work);
}

bool loan_has_room(struct loan *l)
{
	LOCK_SCOPE(&l->cache->lock);
	l->awaited = list_empty(&l->idle);
	if (l->awaited)
		hurry_locked(l);
	return !l->awaited;
}

/* --- end --- */

void loan_close(struct loan *l)
{
	struct cache *c;
	unsigned i;

	if (!l)
		return;
	c = l->cache;
	LOCK_SCOPE(&c->lock);
	l->closed = true;
	l->room = NULL;
	c->nr_lent -= l->nr_slots;
	c->nr_returning += l->nr_idle;
	/* The caller has filled these in vain. */
	for (i = 0; i < l->nr_slots; i++)
		if (!l->chunks[i]->content && list_empty(&l->chunks[i]->queue))
			loan_idle_locked(l, l->chunks[i]);
	list_append(&c->loans, &l->link);
	waitq_wake_all(&c->chilled);
}

/* Gives up what one slot has. Drops the lock meanwhile. */
static void return_one_locked(struct loan *l, struct chunk *ck)
{
	struct cache *c = l->cache;
	off_t at = ck->memory - l->memory;

	list_del(&ck->queue);
	l->nr_idle--;
	lock_drop(&c->lock);
	/* The pages go even if a process still has them mapped. */
	fallocate(l->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, (off_t)c->chunk_size);
	lock_take(&c->lock);
	l->nr_left--;
	c->nr_returning--;
	cache_take_back_locked(c, ck);
	waitq_wake_all(&c->settled);
	cache_serve_waiting(c);
}

bool loans_work_locked(struct cache *c)
{
	struct list *at;

	list_for_each (at, &c->loans) {
		struct loan *l = container_of(at, struct loan, link);

		if (!list_empty(&l->idle)) {
			return_one_locked(l, container_of(l->idle.next, struct chunk, queue));
			return true;
		}
		if (!l->nr_left) {
			list_del(&l->link);
			lock_drop(&c->lock);
			loan_free(l);
			lock_take(&c->lock);
			return true;
		}
	}
	return false;
}

void loans_destroy(struct cache *c)
{
	while (!list_empty(&c->loans)) {
		struct loan *l = container_of(c->loans.next, struct loan, link);

		list_del(&l->link);
		loan_free(l);
	}
}
