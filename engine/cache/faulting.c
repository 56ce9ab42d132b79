/* SPDX-License-Identifier: MIT */
/*
 * The memory of chunks: threads fault it in, and return what was lent once its session is over. No
 * other thread waits for them.
 */
#include <errno.h>
#include <sys/mman.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/wait.h"
#include "engine/cache/cache_inside.h"

#define PIECE ((size_t)2 << 20)

/* The first cold chunk that no thread is faulting, or NULL. */
static struct chunk *next_cold_locked(struct cache *c)
{
	struct list *l;

	list_for_each (l, &c->cold) {
		struct chunk *ck = container_of(l, struct chunk, queue);

		if (!ck->faulting)
			return ck;
	}
	return NULL;
}

/*
 * Marks @ck, and the cold chunks behind it in the same huge page, as `faulting`. Returns their
 * number.
 */
static size_t begin_faulting_locked(struct cache *c, struct chunk *ck)
{
	uintptr_t piece = (uintptr_t)ck->memory / PIECE;
	struct chunk *end = c->chunks + c->nr_chunks, *first = ck;

	while (ck < end && ck->cold && !ck->faulting && (uintptr_t)ck->memory / PIECE == piece)
		ck++->faulting = true;
	return (size_t)(ck - first);
}

/* Makes those of the chunks that are still cold free, with memory. */
static void end_faulting_locked(struct cache *c, struct chunk *ck, size_t nr)
{
	for (; nr; nr--, ck++) {
		ck->faulting = false;
		if (!ck->cold)
			continue;
		ck->cold = false;
		c->nr_cold--;
		list_del(&ck->queue);
		list_append(&c->free, &ck->queue);
	}
	waitq_wake_all(&c->settled);
}

/* Faults memory in. Bytes that a writer puts there meanwhile stay as they are. */
static void fault(char *memory, size_t len)
{
	size_t i;

	if (!madvise(memory, len, MADV_POPULATE_WRITE))
		return;
	for (i = 0; i < len; i += 4096) /* before Linux 5.14 */
		__atomic_fetch_or(memory + i, 0, __ATOMIC_RELAXED);
}

/*
 * Faults memory in by pieces of a huge page. While the kernel fills a piece, the daemon can neither
 * change its address space nor start a thread, and on a busy machine that takes long. Between two
 * pieces the daemon can answer status requests.
 */
static void *faulter_main(void *arg)
{
	struct cache *c = arg;
	struct chunk *ck;
	size_t nr;

	lock_take(&c->lock);
	while (!c->ending) {
		if (loans_work_locked(c))
			continue;
		ck = next_cold_locked(c);
		if (!ck) {
			wait_out(&c->chilled, CLOCK_NEVER);
			continue;
		}
		nr = begin_faulting_locked(c, ck);
		lock_drop(&c->lock);
		fault(ck->memory, nr * c->chunk_size);
		lock_take(&c->lock);
		end_faulting_locked(c, ck, nr);
	}
	lock_drop(&c->lock);
	return NULL;
}

/* Half of the processors, which leaves room for the program. */
static unsigned faulters_here(void)
{
	unsigned nr = (worker_cpus() + 1) / 2;

	return nr < CACHE_FAULTERS_MAX ? nr : CACHE_FAULTERS_MAX;
}

int cache_faulters_start(struct cache *c)
{
	unsigned nr = c->limits.faulters ? c->limits.faulters : faulters_here();

	while (c->nr_faulters < nr &&
	       !worker_start(&c->faulters[c->nr_faulters], "ckptfs-fault", faulter_main, c))
		c->nr_faulters++;
	return c->nr_faulters ? 0 : -EAGAIN;
}

void cache_faulters_stop(struct cache *c)
{
	{
		LOCK_SCOPE(&c->lock);
		c->ending = true;
		waitq_wake_all(&c->chilled);
	}
	while (c->nr_faulters)
		worker_join(&c->faulters[--c->nr_faulters]);
}
