/* SPDX-License-Identifier: MIT */
#include "engine/cache/cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/json.h"

#define GIVEN_UP_POLL_NS (50 * NSEC_PER_MSEC)

/* One who waits for room. On its own stack. */
struct claim {
	struct list link;
	uid_t uid;
	struct chunk *chunk; /* given */
	pthread_cond_t given;
};

/* What one user holds, where that is limited. */
struct charge {
	struct list link;
	uid_t uid;
	size_t chunks;
};

/* --- the hash by (content, index) --- */

static size_t bucket_of(const struct cache *c, const struct content *content, uint64_t index)
{
	uint64_t h =
		((uintptr_t)content >> 4) * 0x9E3779B97F4A7C15ull + index * 0xD6E8FEB86659FD93ull;

	return (h ^ h >> 32) % c->nr_chunks;
}

struct chunk *cache_find(struct cache *c, const struct content *content, uint64_t index)
{
	struct chunk *ck = c->hash[bucket_of(c, content, index)];

	while (ck && (ck->content != content || ck->index != index))
		ck = ck->next_in_hash;
	return ck;
}

static void hash_remove(struct cache *c, struct chunk *ck)
{
	struct chunk **p = &c->hash[bucket_of(c, ck->content, ck->index)];

	while (*p != ck)
		p = &(*p)->next_in_hash;
	*p = ck->next_in_hash;
}

/* --- what each user holds --- */

static struct charge *charge_of(struct cache *c, uid_t uid)
{
	struct charge *ch;
	struct list *l;

	list_for_each (l, &c->charges) {
		ch = container_of(l, struct charge, link);
		if (ch->uid == uid)
			return ch;
	}
	ch = calloc(1, sizeof(*ch));
	if (ch) {
		ch->uid = uid;
		list_append(&c->charges, &ch->link);
	}
	return ch;
}

static bool may_have_more(struct cache *c, uid_t uid)
{
	struct charge *ch = c->limits.per_uid ? charge_of(c, uid) : NULL;

	return !ch || (ch->chunks + 1) * c->chunk_size <= c->limits.per_uid;
}

static void charge(struct cache *c, struct chunk *ck, uid_t uid, bool plus)
{
	struct charge *ch = c->limits.per_uid ? charge_of(c, uid) : NULL;

	ck->uid = uid;
	if (ch && plus)
		ch->chunks++;
	else if (ch && ch->chunks)
		ch->chunks--;
}

/* --- states --- */

static size_t *counter_of(struct cache *c, enum chunk_state state)
{
	switch (state) {
	case CHUNK_FREE:
		return &c->nr_free;
	case CHUNK_PARTIAL:
	case CHUNK_READY:
		return &c->nr_dirty;
	case CHUNK_FLYING:
		return &c->nr_flying;
	case CHUNK_CLEAN:
		return &c->nr_clean;
	}
	return NULL;
}

static struct list *queue_of(struct cache *c, enum chunk_state state)
{
	switch (state) {
	case CHUNK_FREE:
		return &c->free;
	case CHUNK_PARTIAL:
		return &c->partial;
	case CHUNK_READY:
		return &c->ready;
	case CHUNK_CLEAN:
		return &c->clean;
	case CHUNK_FLYING:
		break;
	}
	return NULL;
}

void cache_set_state(struct cache *c, struct chunk *ck, enum chunk_state state)
{
	struct list *queue = queue_of(c, state);

	--*counter_of(c, ck->state);
	++*counter_of(c, state);
	ck->state = state;
	list_del(&ck->queue);
	if (queue)
		list_append(queue, &ck->queue);
	if (state == CHUNK_READY)
		pthread_cond_signal(&c->work);
}

/* Takes @ck out of its content; it belongs to nobody then, and is on no list. */
static void unbind(struct cache *c, struct chunk *ck)
{
	hash_remove(c, ck);
	list_del(&ck->mine);
	list_del(&ck->queue);
	charge(c, ck, ck->uid, false);
	--*counter_of(c, ck->state);
	ck->state = CHUNK_FREE;
	ck->content = NULL;
}

/* Of anybody's, or only of @uid's. */
static struct chunk *oldest_clean(struct cache *c, bool own, uid_t uid)
{
	struct list *l;

	list_for_each (l, &c->clean) {
		struct chunk *ck = container_of(l, struct chunk, queue);

		if (!ck->users && (!own || ck->uid == uid))
			return ck;
	}
	return NULL;
}

/*
 * A chunk that belongs to nobody, from the free ones or the clean ones; for who holds as much as one
 * may, from his own clean ones. NULL: there is none.
 */
static struct chunk *take(struct cache *c, uid_t uid)
{
	bool own = !may_have_more(c, uid);
	struct chunk *ck;

	if (!own && !list_empty(&c->free)) {
		ck = container_of(c->free.next, struct chunk, queue);
		list_del(&ck->queue);
		c->nr_free--;
		return ck;
	}
	ck = oldest_clean(c, own, uid);
	if (ck)
		unbind(c, ck);
	return ck;
}

/* --- room --- */

void cache_serve_waiting(struct cache *c)
{
	struct list *l, *tmp;

	list_for_each_safe (l, tmp, &c->waiting) {
		struct claim *claim = container_of(l, struct claim, link);

		claim->chunk = take(c, claim->uid);
		if (!claim->chunk && may_have_more(c, claim->uid))
			return; /* nobody gets any */
		if (!claim->chunk)
			continue;
		charge(c, claim->chunk, claim->uid, true);
		list_del(&claim->link);
		pthread_cond_signal(&claim->given);
	}
}

void cache_give_back(struct cache *c, struct chunk *ck)
{
	if (ck->content)
		unbind(c, ck);
	else
		charge(c, ck, ck->uid, false);
	list_push(&c->free, &ck->queue); /* the warmest first */
	c->nr_free++;
	cache_serve_waiting(c);
}

static void wait_a_moment(pthread_cond_t *cond, pthread_mutex_t *lock)
{
	struct timespec until;
	uint64_t ns = clock_mono_ns() + GIVEN_UP_POLL_NS;

	until = (struct timespec){.tv_sec = (time_t)(ns / NSEC_PER_SEC),
				  .tv_nsec = (long)(ns % NSEC_PER_SEC)};
	pthread_cond_clockwait(cond, lock, CLOCK_MONOTONIC, &until);
}

int cache_claim(struct cache *c, uid_t uid, struct chunk **out)
{
	struct claim claim = {.uid = uid, .given = PTHREAD_COND_INITIALIZER};
	uint64_t start, took, limit = c->limits.stall_timeout_s * NSEC_PER_SEC;
	int err = 0;

	*out = list_empty(&c->waiting) ? take(c, uid) : NULL;
	if (*out) {
		charge(c, *out, uid, true);
		return 0;
	}
	start = clock_mono_ns();
	list_append(&c->waiting, &claim.link);
	c->nr_waiting++;
	pthread_cond_signal(&c->work);
	cache_serve_waiting(c); /* others may wait for what is not the cache's to give */
	while (!claim.chunk && !err) {
		wait_a_moment(&claim.given, &c->lock);
		if (claim.chunk)
			break;
		if (c->given_up && c->given_up())
			err = -EINTR;
		else if (clock_mono_ns() - start > limit)
			err = -ETIMEDOUT;
	}
	list_del(&claim.link);
	c->nr_waiting--;
	took = clock_mono_ns() - start;
	c->stalls++;
	c->stalled_ns += took;
	if (took > c->longest_stall_ns)
		c->longest_stall_ns = took;
	*out = claim.chunk;
	return err;
}

struct chunk *cache_claim_spare(struct cache *c, uid_t uid)
{
	struct chunk *ck = NULL;

	if (list_empty(&c->waiting) && c->nr_free + c->nr_clean > c->nr_chunks / 4)
		ck = take(c, uid);
	if (ck)
		charge(c, ck, uid, true);
	return ck;
}

unsigned cache_lend(struct cache *c, uid_t uid, struct chunk **chunks, unsigned nr)
{
	unsigned got = 0, i;
	{
		LOCK_SCOPE(&c->lock);
		while (got < nr && (chunks[got] = cache_claim_spare(c, uid)))
			got++;
		c->nr_lent += got;
	}
	for (i = 0; i < got; i++) {
		munlock(chunk_data(c, chunks[i]), c->chunk_size);
		madvise(chunk_data(c, chunks[i]), c->chunk_size, MADV_DONTNEED);
	}
	return got;
}

void cache_unlend(struct cache *c, struct chunk **chunks, unsigned nr)
{
	bool lock;
	unsigned i;
	{
		LOCK_SCOPE(&c->lock);
		lock = c->limits.lock && !*c->not_locked;
	}
	for (i = 0; i < nr; i++) {
		if (!lock || mlock(chunk_data(c, chunks[i]), c->chunk_size))
			madvise(chunk_data(c, chunks[i]), c->chunk_size, MADV_POPULATE_WRITE);
		LOCK_SCOPE(&c->lock);
		c->nr_lent--;
		cache_give_back(c, chunks[i]);
	}
}

void cache_bind(struct cache *c, struct chunk *ck, struct content *content, uint64_t index)
{
	struct chunk **bucket = &c->hash[bucket_of(c, content, index)];

	ck->content = content;
	ck->index = index;
	ck->lo = ck->hi = ck->dirty_lo = ck->dirty_hi = 0;
	ck->state = CHUNK_PARTIAL;
	c->nr_dirty++;
	list_append(&c->partial, &ck->queue);
	ck->next_in_hash = *bucket;
	*bucket = ck;
}

/* --- memory --- */

#define PIECE ((size_t)2 << 20)

static void cannot_lock(struct cache *c, const char *why)
{
	LOCK_SCOPE(&c->lock);
	snprintf(c->not_locked, sizeof(c->not_locked), "%s", why);
}

/* @len bytes of memory. False: they are there, but could not be locked. */
static bool populate_piece(struct cache *c, char *memory, size_t len, bool lock)
{
	char why[256];
	size_t i;

	if (lock && !mlock(memory, len))
		return true;
	if (lock) {
		MESSAGE(why, CACHE_NOT_LOCKED, strerror(errno));
		cannot_lock(c, why);
	}
	if (madvise(memory, len, MADV_POPULATE_WRITE))
		for (i = 0; i < len; i += 4096)
			((volatile char *)memory)[i] = 0;
	return false;
}

/*
 * In pieces of a huge page: while the kernel fills one, no other thread gets memory, nor can one be started, and on a busy
 * machine that takes its time. Who asks how the daemon is wants to know now.
 */
static void *populate(void *arg)
{
	struct cache *c = arg;
	size_t step = c->chunk_size > (16u << 20) ? c->chunk_size : 16u << 20;
	size_t per_step = step / c->chunk_size, at, i, done;
	bool lock = c->limits.lock;

	for (at = 0; at < c->nr_chunks; at += per_step) {
		size_t nr = c->nr_chunks - at < per_step ? c->nr_chunks - at : per_step;
		size_t len = nr * c->chunk_size;
		char *memory = c->memory + at * c->chunk_size;

		for (done = 0; done < len; done += PIECE)
			lock = populate_piece(c, memory + done,
					      len - done < PIECE ? len - done : PIECE, lock);
		LOCK_SCOPE(&c->lock);
		if (c->ending)
			return NULL;
		for (i = at; i < at + nr; i++) {
			list_append(&c->free, &c->chunks[i].queue);
			c->nr_free++;
		}
		c->nr_faulted += nr;
		cache_serve_waiting(c);
	}
	return NULL;
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
	madvise(c->memory, size, MADV_HUGEPAGE); /* fewer faults, where there are any */
	madvise(c->memory, size, MADV_DONTDUMP);
	for (i = 0; i < c->nr_chunks; i++) {
		list_init(&c->chunks[i].queue);
		list_init(&c->chunks[i].mine);
	}
	if (pthread_create(&c->populating, NULL, populate, c))
		return -EAGAIN;
	c->populates = true;
	return 0;
}

int cache_create(struct cache **out, const struct cache_limits *limits, bool (*given_up)(void),
		 struct error *e)
{
	struct cache *c = calloc(1, sizeof(*c));
	int err;

	*out = NULL;
	if (!c)
		return FAIL(e, ENOMEM, CACHE_NO_MEMORY, limits->size >> 20, strerror(ENOMEM));
	c->limits = *limits;
	c->chunk_size = limits->chunk_size;
	c->nr_chunks = limits->size / limits->chunk_size;
	c->given_up = given_up;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->work, NULL);
	list_init(&c->free);
	list_init(&c->partial);
	list_init(&c->ready);
	list_init(&c->clean);
	list_init(&c->waiting);
	list_init(&c->charges);
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
	{
		LOCK_SCOPE(&c->lock);
		c->ending = true;
	}
	if (c->populates)
		pthread_join(c->populating, NULL);
	while (!list_empty(&c->charges)) {
		struct charge *ch = container_of(c->charges.next, struct charge, link);

		list_del(&ch->link);
		free(ch);
	}
	if (c->memory)
		munmap(c->memory, c->nr_chunks * c->chunk_size);
	free(c->chunks);
	free(c->hash);
	pthread_cond_destroy(&c->work);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

json_t *cache_to_json(struct cache *c)
{
	json_int_t unit = (json_int_t)c->chunk_size;
	LOCK_SCOPE(&c->lock);

	return json_pack(
		"{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:b, s:o}",
		"size", (json_int_t)c->nr_chunks * unit, "chunk_size", unit, "faulted",
		(json_int_t)c->nr_faulted * unit, "free", (json_int_t)c->nr_free * unit, "dirty",
		(json_int_t)c->nr_dirty * unit, "flying", (json_int_t)c->nr_flying * unit, "clean",
		(json_int_t)c->nr_clean * unit, "lent", (json_int_t)c->nr_lent * unit, "absorbed",
		(json_int_t)c->absorbed, "waiting", (json_int_t)c->nr_waiting, "stalls",
		(json_int_t)c->stalls, "stalled_s", (double)c->stalled_ns / NSEC_PER_SEC,
		"longest_stall_s", (double)c->longest_stall_ns / NSEC_PER_SEC, "locked",
		c->limits.lock && !*c->not_locked, "not_locked", json_text(c->not_locked));
}
