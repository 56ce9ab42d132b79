/* SPDX-License-Identifier: MIT */
#include "engine/cache/cache.h"

#include <stdlib.h>

#include "engine/base/cleanup.h"
#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/wait.h"
#include "engine/cache/cache_inside.h"
#include "engine/cache/loan.h"

/* A waiting thread's request for room. On the stack of the thread. */
struct claim {
	struct list link;
	uid_t uid;
	struct chunk *chunk; /* the chunk that the thread got */
	struct waitq given;
};

/* The chunks that one user holds, if users are limited. */
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

/* --- charges of users --- */

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

void cache_forget_charges(struct cache *c)
{
	while (!list_empty(&c->charges)) {
		struct charge *ch = container_of(c->charges.next, struct charge, link);

		list_del(&ch->link);
		free(ch);
	}
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

#define TO(state) MACHINE_TO(CHUNK_##state)

/* cache.h has the diagram. */
const struct machine chunk_machine = {
	.what = "chunk",
	.nr_states = CHUNK_CLEAN + 1,
	.names = {"FREE", "PARTIAL", "READY", "FLYING", "CLEAN"},
	.next =
		{
			[CHUNK_FREE] = TO(PARTIAL),
			[CHUNK_PARTIAL] = TO(READY) | TO(FLYING) | TO(CLEAN) | TO(FREE),
			[CHUNK_READY] = TO(FLYING) | TO(CLEAN) | TO(FREE),
			[CHUNK_FLYING] = TO(CLEAN),
			[CHUNK_CLEAN] = TO(PARTIAL) | TO(FREE),
		},
};

static void set_state_by(struct cache *c, struct chunk *ck, enum chunk_state state, const char *who)
{
	MACHINE_CHECK(&chunk_machine, ck->state, state, who, "%td of the cache, %llu of its file",
		      ck - c->chunks, (unsigned long long)ck->index);
	ck->state = state;
}
#define set_state(c, ck, state) set_state_by(c, ck, state, __func__)

void cache_set_state_by(struct cache *c, struct chunk *ck, enum chunk_state state, const char *who)
{
	struct list *queue = queue_of(c, state);

	--*counter_of(c, ck->state);
	++*counter_of(c, state);
	set_state_by(c, ck, state, who);
	list_del(&ck->queue);
	if (queue)
		list_append(queue, &ck->queue);
	if (state == CHUNK_READY)
		waitq_wake(&c->work);
}

/*
 * Takes @ck out of its content. Afterwards @ck has no content and is on no list; but if it was
 * lent, it is idle.
 */
static void unbind(struct cache *c, struct chunk *ck)
{
	hash_remove(c, ck);
	list_del(&ck->mine);
	list_del(&ck->queue);
	--*counter_of(c, ck->state);
	set_state(c, ck, CHUNK_FREE);
	ck->content = NULL;
	if (ck->loan)
		loan_returned_locked(ck);
	else
		charge(c, ck, ck->uid, false);
}

/* The oldest clean chunk without users; if @own, only of @uid. */
static struct chunk *oldest_clean(struct cache *c, bool own, uid_t uid)
{
	struct list *l;

	list_for_each (l, &c->clean) {
		struct chunk *ck = container_of(l, struct chunk, queue);

		if (!ck->users && !ck->loan && (!own || ck->uid == uid))
			return ck;
	}
	return NULL;
}

/* Takes @ck, cold or not, from the free ones. */
static void take_free(struct cache *c, struct chunk *ck)
{
	list_del(&ck->queue);
	c->nr_free--;
	c->nr_cold -= ck->cold;
	ck->cold = false;
}

/* A free chunk, or NULL. @lend: the last cold one first, since faulting begins at the front. */
static struct chunk *any_free(struct cache *c, bool lend)
{
	if (lend && !list_empty(&c->cold))
		return container_of(c->cold.prev, struct chunk, queue);
	if (!list_empty(&c->free))
		return container_of(c->free.next, struct chunk, queue);
	return list_empty(&c->cold) ? NULL : container_of(c->cold.next, struct chunk, queue);
}

/*
 * A chunk without a content, from the free ones or the clean ones. A user at the limit gets only
 * one of the user's own clean chunks. NULL: there is none.
 */
static struct chunk *take(struct cache *c, uid_t uid, bool lend)
{
	bool own = !may_have_more(c, uid);
	struct chunk *ck = own ? NULL : any_free(c, lend);

	if (ck) {
		take_free(c, ck);
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

		claim->chunk = take(c, claim->uid, false);
		if (!claim->chunk && may_have_more(c, claim->uid))
			return; /* no waiting thread can get one */
		if (!claim->chunk)
			continue;
		charge(c, claim->chunk, claim->uid, true);
		list_del(&claim->link);
		waitq_wake(&claim->given);
	}
}

void cache_give_back(struct cache *c, struct chunk *ck)
{
	bool lent = ck->loan;

	if (ck->content)
		unbind(c, ck);
	else
		charge(c, ck, ck->uid, false);
	if (lent)
		return;
	list_push(&c->free, &ck->queue); /* the warmest first */
	c->nr_free++;
	cache_serve_waiting(c);
}

void cache_chill_locked(struct cache *c, struct chunk *ck)
{
	ck->memory = c->memory + (size_t)(ck - c->chunks) * c->chunk_size;
	ck->cold = true;
	list_append(&c->cold, &ck->queue);
	c->nr_free++;
	c->nr_cold++;
	waitq_wake_all(&c->chilled);
}

int cache_claim(struct cache *c, uid_t uid, struct chunk **out)
{
	struct claim claim = {.uid = uid};
	uint64_t start, took, limit = c->limits.stall_timeout_s * NSEC_PER_SEC;
	int err = 0;

	*out = list_empty(&c->waiting) ? take(c, uid, false) : NULL;
	if (*out) {
		charge(c, *out, uid, true);
		return 0;
	}
	start = clock_mono_ns();
	waitq_init(&claim.given, &c->lock);
	list_append(&c->waiting, &claim.link);
	c->nr_waiting++;
	waitq_wake(&c->work);
	cache_serve_waiting(c); /* the others may wait because of their own limits */
	while (!claim.chunk && !err)
		err = wait_on(&claim.given, start + limit);
	if (claim.chunk)
		err = 0;
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

/* Takes one if more than @rest can be had. */
static struct chunk *claim_above(struct cache *c, uid_t uid, size_t rest, bool lend)
{
	struct chunk *ck = NULL;

	if (list_empty(&c->waiting) && c->nr_free + c->nr_clean > rest)
		ck = take(c, uid, lend);
	if (ck)
		charge(c, ck, uid, true);
	return ck;
}

struct chunk *cache_claim_spare(struct cache *c, uid_t uid)
{
	return claim_above(c, uid, (c->nr_chunks - c->nr_loaned) / 4, false);
}

struct chunk *cache_take_to_lend_locked(struct cache *c, uid_t uid)
{
	return claim_above(c, uid, cache_reserve(c), true);
}

void cache_take_back_locked(struct cache *c, struct chunk *ck)
{
	charge(c, ck, ck->uid, false);
	ck->loan = NULL;
	c->nr_loaned--;
	cache_chill_locked(c, ck);
}

void cache_bind(struct cache *c, struct chunk *ck, struct content *content, uint64_t index)
{
	struct chunk **bucket = &c->hash[bucket_of(c, content, index)];

	if (ck->loan)
		ck->loan->nr_bound++;
	ck->content = content;
	ck->index = index;
	ck->lo = ck->hi = ck->dirty_lo = ck->dirty_hi = 0;
	set_state(c, ck, CHUNK_PARTIAL);
	c->nr_dirty++;
	list_append(&c->partial, &ck->queue);
	ck->next_in_hash = *bucket;
	*bucket = ck;
}

/* --- for people --- */

uint64_t cache_unflushed_bytes(struct cache *c)
{
	LOCK_SCOPE(&c->lock);

	return (uint64_t)(c->nr_dirty + c->nr_flying) * c->chunk_size;
}

json_t *cache_to_json(struct cache *c)
{
	json_int_t unit = (json_int_t)c->chunk_size;
	LOCK_SCOPE(&c->lock);

	return json_pack(
		"{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:b, s:o}",
		"size", (json_int_t)c->nr_chunks * unit, "chunk_size", unit, "faulted",
		(json_int_t)(c->nr_chunks - c->nr_cold) * unit, "untouched",
		(json_int_t)c->nr_cold * unit, "free", (json_int_t)c->nr_free * unit, "dirty",
		(json_int_t)c->nr_dirty * unit, "flying", (json_int_t)c->nr_flying * unit, "clean",
		(json_int_t)c->nr_clean * unit, "lent", (json_int_t)c->nr_lent * unit, "absorbed",
		(json_int_t)c->absorbed, "waiting", (json_int_t)c->nr_waiting, "stalls",
		(json_int_t)c->stalls, "stalled_s", (double)c->stalled_ns / NSEC_PER_SEC,
		"longest_stall_s", (double)c->longest_stall_ns / NSEC_PER_SEC, "locked",
		c->limits.lock && !*c->not_locked, "not_locked", json_text(c->not_locked));
}
