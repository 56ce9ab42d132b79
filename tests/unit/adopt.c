/* SPDX-License-Identifier: MIT */
/*
 * Chunks of lent memory that become a part of a file (content_adopt): no request is received into
 * them, a sync still finds what was dirty before, and they leave soon once the session needs room.
 */
#include "tests/unit/mnt.h"

#include "engine/cache/loan.h"

#define CACHE "chunk_size=64K,host_cache_size=4M," LEAST_TIMEOUT

static struct mnt m;
static char dir_path[PATH_MAX], model[2 * CHUNK];
static struct file f;
static struct content *ct;
static struct loan *loan;

static void begin(unsigned slots)
{
	size_t i;

	scratch_dir(dir_path);
	mnt_open(&m, dir_path, CACHE);
	mnt_start(&m);
	for (i = 0; i < sizeof(model); i++)
		model[i] = (char)(i * 7 + i / 251);
	assert_int_equal(file_open(&m, &f, "x.pt", O_RDWR), 0);
	ct = generation_content(f.h->generation);
	assert_int_equal(loan_create(&loan, m.en.cache, m.user.uid, slots, NULL, NULL), 0);
	assert_int_equal(loan->nr_slots, slots);
}

/* The file is the first @size bytes of the model, and all memory returns. */
static void finish(size_t size)
{
	loan_close(loan);
	file_commit(&f, "x.pt", model, size);
	for (;;) {
		LOCK_SCOPE(&m.en.cache->lock);
		if (!m.en.cache->nr_loaned)
			break;
		wait_out(&m.en.cache->settled, clock_mono_ns() + NSEC_PER_SEC);
	}
	assert_int_equal(m.en.cache->nr_lent, 0);
	mnt_close(&m);
}

/* Bytes [lo, hi) of the file, by a slot. */
static int adopt(uint32_t lo, uint32_t hi)
{
	struct content_piece p = {lo % CHUNK, lo % CHUNK + hi - lo};
	struct chunk *ck = loan_take(loan);
	int err;

	assert_non_null(ck);
	memcpy(ck->memory + p.lo, model + lo, hi - lo);
	err = content_adopt(ct, ck, lo / CHUNK, &p, 1);
	if (err != 1)
		loan_give(loan, ck);
	return err;
}

static enum chunk_state state_of(uint64_t index)
{
	struct chunk *ck;
	LOCK_SCOPE(&m.en.cache->lock);

	ck = cache_find(m.en.cache, ct, index);
	return ck ? ck->state : CHUNK_FREE;
}

static void nothing_is_received_into_lent_memory(void **state)
{
	struct content_landing l;

	(void)state;
	begin(4);
	assert_int_equal(adopt(0, 100), 1);
	assert_int_equal(content_write(ct, model + 100, 1000, 100), 1000);
	content_get(ct);
	assert_false(content_land(ct, 1100, CHUNK / 2, &l));
	content_put(ct);
	finish(1100);
}

static void what_was_dirty_stays_as_old(void **state)
{
	struct chunk *ck;
	uint64_t turned;

	(void)state;
	begin(4);
	assert_int_equal(content_write(ct, model, 100, 0), 100);
	{
		LOCK_SCOPE(&m.en.cache->lock);
		turned = cache_find(m.en.cache, ct, 0)->turned;
	}
	assert_int_equal(content_write(ct, model + CHUNK, 100, CHUNK), 100);
	assert_int_equal(adopt(100, 60000), 1);
	{
		LOCK_SCOPE(&m.en.cache->lock);
		ck = cache_find(m.en.cache, ct, 0);
		assert_ptr_equal(ck->loan, loan);
		assert_int_equal(ck->turned, turned);
		assert_int_equal(ck->dirty_lo, 0);
		assert_ptr_equal(ct->dirty.next, &ck->mine);
	}
	assert_int_equal(content_write(ct, model + 60000, CHUNK - 60000, 60000), CHUNK - 60000);
	finish(CHUNK + 100);
}

static void a_part_leaves_when_room_is_needed(void **state)
{
	struct chunk *other;

	(void)state;
	begin(2);
	assert_int_equal(adopt(0, 60000), 1);
	assert_int_equal(state_of(0), CHUNK_PARTIAL);
	assert_true(loan_has_room(loan));
	assert_int_equal(state_of(0), CHUNK_PARTIAL);
	other = loan_take(loan);
	assert_false(loan_has_room(loan));
	assert_int_not_equal(state_of(0), CHUNK_PARTIAL);
	loan_give(loan, other);
	finish(60000);
}

/* What the file lacks between two pieces nobody has: the pieces are to be copied. */
static void a_hole_is_not_adopted(void **state)
{
	struct content_piece p[] = {{0, 100}, {200, 300}};
	struct chunk *ck;

	(void)state;
	begin(4);
	ck = loan_take(loan);
	memcpy(ck->memory, model, 300);
	assert_int_equal(content_adopt(ct, ck, 0, p, 2), 0);
	assert_int_equal(content_write(ct, model + 100, 100, 100), 100);
	assert_int_equal(content_adopt(ct, ck, 0, p, 2), 1);
	finish(300);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_received_into_lent_memory),
		cmocka_unit_test(what_was_dirty_stays_as_old),
		cmocka_unit_test(a_part_leaves_when_room_is_needed),
		cmocka_unit_test(a_hole_is_not_adopted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
