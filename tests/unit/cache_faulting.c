/* SPDX-License-Identifier: MIT */
/*
 * The cache while it is faulted in: all of it is of use meanwhile, to writers and to be lent, and
 * nothing is counted twice. The kernel's faulting is held back by a madvise of the test's own.
 */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "engine/base/cleanup.h"
#include "engine/cache/cache.h"
#include "engine/cache/loan.h"

#define MIB ((size_t)1 << 20)

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned allowed, begun; /* pieces that may be faulted; that a thread has come to */
} gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};

/* Of the engine's, too, which is linked with this. */
int madvise(void *memory, size_t len, int advice)
{
	if (advice == MADV_POPULATE_WRITE) {
		MUTEX_SCOPE(&gate.lock);
		gate.begun++;
		pthread_cond_broadcast(&gate.changed);
		while (!gate.allowed)
			pthread_cond_wait(&gate.changed, &gate.lock);
		gate.allowed--;
	}
	return (int)syscall(SYS_madvise, memory, len, advice);
}

static void allow(unsigned pieces)
{
	MUTEX_SCOPE(&gate.lock);
	gate.allowed = pieces;
	pthread_cond_broadcast(&gate.changed);
}

static void wait_for_faulters(unsigned nr)
{
	MUTEX_SCOPE(&gate.lock);
	while (gate.begun < nr)
		pthread_cond_wait(&gate.changed, &gate.lock);
}

static struct cache *begin(size_t size, size_t chunk_size, unsigned faulters)
{
	struct cache_limits l = {.size = size,
				 .chunk_size = chunk_size,
				 .faulters = faulters,
				 .stall_timeout_s = 600};
	struct cache *c;
	struct error e;

	gate.allowed = gate.begun = 0;
	assert_int_equal(cache_create(&c, &l, &e), 0);
	wait_for_faulters(faulters);
	return c;
}

static json_int_t told(struct cache *c, const char *key)
{
	json_t *o = cache_to_json(c);
	json_int_t n = json_integer_value(json_object_get(o, key));

	json_decref(o);
	return n;
}

static size_t loaned(struct cache *c)
{
	LOCK_SCOPE(&c->lock);
	return c->nr_loaned;
}

static void wait_until_faulted(struct cache *c)
{
	while (told(c, "untouched") || loaned(c))
		usleep(1000);
}

/* In the range of the cache itself, whatever is lent. */
static bool has_own_memory(struct cache *c, const struct chunk *ck)
{
	unsigned char pages[CACHE_CHUNK_MAX / 4096];
	size_t i;

	assert_int_equal(
		mincore(c->memory + (size_t)(ck - c->chunks) * c->chunk_size, c->chunk_size, pages),
		0);
	for (i = 0; i < c->chunk_size / 4096; i++)
		if (!(pages[i] & 1))
			return false;
	return true;
}

/* Each chunk is free, has memory, and is in one queue. */
static void check_whole(struct cache *c)
{
	struct list *l;
	size_t nr = 0, i;

	wait_until_faulted(c);
	list_for_each (l, &c->free)
		nr++;
	assert_int_equal(nr, c->nr_chunks);
	assert_true(list_empty(&c->cold));
	assert_int_equal(c->nr_free, c->nr_chunks);
	assert_int_equal(c->nr_lent, 0);
	for (i = 0; i < c->nr_chunks; i++)
		assert_true(has_own_memory(c, &c->chunks[i]));
}

static void nobody_waits_for_the_faulting(void **state)
{
	struct cache *c = begin(64 * MIB, MIB, 1);
	struct chunk *written[24];
	struct loan *l;
	unsigned i;

	(void)state;
	assert_int_equal(told(c, "free"), 64 * MIB);
	assert_int_equal(told(c, "untouched"), 64 * MIB);
	assert_int_equal(told(c, "faulted"), 0);
	assert_int_equal(loan_create(&l, c, 0, 40, NULL, NULL), 0);
	assert_int_equal(l->nr_slots, 40);
	assert_int_equal(told(c, "free"), 24 * MIB);
	assert_int_equal(told(c, "untouched"), 24 * MIB);
	assert_int_equal(told(c, "lent"), 40 * MIB);
	for (i = 0; i < 24; i++) {
		LOCK_SCOPE(&c->lock);
		assert_int_equal(cache_claim(c, 0, &written[i]), 0);
		memset(written[i]->memory, (int)i + 1, MIB);
	}
	assert_int_equal(told(c, "free"), 0);
	allow(UINT_MAX);
	for (i = 0; i < 24; i++) {
		assert_int_equal(written[i]->memory[MIB - 1], i + 1);
		LOCK_SCOPE(&c->lock);
		cache_give_back(c, written[i]);
	}
	loan_close(l);
	check_whole(c);
	cache_destroy(c);
}

static void writers_and_several_faulters(void **state)
{
	struct cache *c = begin(64 * MIB, 64 << 10, CACHE_FAULTERS_MAX);
	uint64_t seed = 1;
	unsigned i, round;

	(void)state;
	allow(UINT_MAX);
	for (round = 0; round < 40; round++) {
		struct chunk *ck[50];

		for (i = 0; i < 50; i++) {
			LOCK_SCOPE(&c->lock);
			assert_int_equal(cache_claim(c, 0, &ck[i]), 0);
		}
		for (i = 0; i < 50; i++)
			memset(ck[i]->memory, (int)i + 1, c->chunk_size);
		for (i = 0; i < 50; i++) {
			size_t at = next_random(&seed) % c->chunk_size;

			assert_int_equal(ck[i]->memory[at], i + 1);
			LOCK_SCOPE(&c->lock);
			cache_give_back(c, ck[i]);
		}
	}
	check_whole(c);
	cache_destroy(c);
}

static void what_is_lent_has_no_memory_here(void **state)
{
	struct cache *c = begin(32 * MIB, MIB, 2);
	struct loan *l;
	unsigned i, nr = 0;

	(void)state;
	allow(UINT_MAX);
	check_whole(c);
	assert_int_equal(loan_create(&l, c, 0, 10, NULL, NULL), 0);
	for (i = 0; i < c->nr_chunks; i++)
		nr += !has_own_memory(c, &c->chunks[i]);
	assert_int_equal(nr, 10);
	assert_int_equal(told(c, "untouched"), 0);
	loan_close(l);
	check_whole(c);
	cache_destroy(c);
}

static struct loan *few;

static void *lend_few(void *cache)
{
	assert_int_equal(loan_create(&few, cache, 0, 4, NULL, NULL), 0);
	return NULL;
}

/* Of a cache of one huge page a thread faults all chunks at once. */
static void lent_while_it_is_being_faulted(void **state)
{
	struct cache *c = begin(512 << 10, 64 << 10, 1);
	pthread_t lender;
	unsigned i, nr = 0;

	(void)state;
	assert_int_equal(pthread_create(&lender, NULL, lend_few, c), 0);
	while (told(c, "lent") == 0)
		usleep(1000);
	allow(UINT_MAX);
	assert_int_equal(pthread_join(lender, NULL), 0);
	for (i = 0; i < c->nr_chunks; i++)
		nr += !has_own_memory(c, &c->chunks[i]);
	assert_int_equal(nr, 4);
	loan_close(few);
	check_whole(c);
	cache_destroy(c);
}

static void *destroy(void *cache)
{
	cache_destroy(cache);
	return NULL;
}

static bool ends(struct cache *c)
{
	LOCK_SCOPE(&c->lock);
	return c->ending;
}

static void destroyed_while_it_is_faulted(void **state)
{
	struct cache *c = begin(64 * MIB, MIB, 3);
	pthread_t destroyer;

	(void)state;
	assert_int_equal(pthread_create(&destroyer, NULL, destroy, c), 0);
	while (!ends(c))
		usleep(1000);
	allow(UINT_MAX);
	assert_int_equal(pthread_join(destroyer, NULL), 0);
	assert_int_equal(gate.begun,
			 3); /* each ended the piece that it was at, and began no other */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_waits_for_the_faulting),
		cmocka_unit_test(writers_and_several_faulters),
		cmocka_unit_test(what_is_lent_has_no_memory_here),
		cmocka_unit_test(lent_while_it_is_being_faulted),
		cmocka_unit_test(destroyed_while_it_is_faulted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
