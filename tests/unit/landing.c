/* SPDX-License-Identifier: MIT */
/*
 * Bytes that are received right in the cache (content_land) become part of the file only when
 * taken, and then as any write; whatever happens to the file in between.
 */
#include "tests/unit/mnt.h"

#define CACHE "chunk_size=64K,host_cache_size=4M," LEAST_TIMEOUT

static struct mnt m;
static char dir_path[PATH_MAX];
static struct file f;
static struct content *ct;
static char model[16 * CHUNK], got[16 * CHUNK];

static size_t free_chunks(void)
{
	LOCK_SCOPE(&m.en.cache->lock);
	return m.en.cache->nr_free + m.en.cache->nr_clean;
}

/* x.pt, open, with @size bytes written. */
static void begin(size_t size)
{
	size_t i;

	scratch_dir(dir_path);
	mnt_open(&m, dir_path, CACHE);
	mnt_start(&m);
	while (free_chunks() < m.en.cache->nr_chunks) /* until all of it is there */
		usleep(1000);
	for (i = 0; i < sizeof(model); i++)
		model[i] = (char)(i * 7 + i / 251);
	assert_int_equal(file_open(&m, &f, "x.pt", O_RDWR), 0);
	ct = generation_content(f.h->generation);
	if (size)
		assert_int_equal(content_write(ct, model, size, 0), size);
}

/* The file is the first @size bytes of the model, and no chunk is lost. */
static void finish(size_t size)
{
	size_t all = m.en.cache->nr_chunks;

	file_commit(&f, "x.pt", model, size);
	assert_int_equal(mnt_drain(&m, 10), 0);
	assert_int_equal(free_chunks(), all);
	mnt_close(&m);
}

/* As the device does. */
static void receive_into(struct content_landing *l, const char *data, size_t len)
{
	unsigned i;

	for (i = 0; i < l->nr && len; i++) {
		size_t n = l->bytes[i].iov_len < len ? l->bytes[i].iov_len : len;

		memcpy(l->bytes[i].iov_base, data, n);
		data += n;
		len -= n;
	}
	assert_int_equal(len, 0);
}

static bool land(uint64_t off, size_t len, struct content_landing *l)
{
	bool there;

	content_get(ct);
	there = content_land(ct, off, len, l);
	if (!there)
		content_put(ct);
	return there;
}

static void taken_wherever_it_begins(void **state)
{
	static const size_t starts[] = {0, 1, CHUNK - 1, CHUNK, CHUNK + 1000, 2 * CHUNK - 4096};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(starts); i++) {
		struct content_landing l;
		size_t at = starts[i], len = 2 * CHUNK;

		begin(at);
		assert_true(land(at, len, &l));
		receive_into(&l, model + at, len);
		assert_int_equal(content_size(ct), at); /* not yet */
		assert_true(content_take_landed(&l, len));
		content_leave(&l);
		/* And again, with less than there is a place for. */
		assert_true(land(at + len, len, &l));
		receive_into(&l, model + at + len, 1000);
		assert_true(content_take_landed(&l, 1000));
		content_leave(&l);
		finish(at + len + 1000);
	}
}

static void not_taken(void **state)
{
	struct content_landing l;

	(void)state;
	begin(1000);
	assert_true(land(1000, 2 * CHUNK, &l));
	receive_into(&l, model + 5, 2 * CHUNK); /* of another file */
	content_copy_landed(&l, got, 2 * CHUNK);
	content_leave(&l);
	assert_memory_equal(got, model + 5, 2 * CHUNK);
	assert_int_equal(content_write(ct, model + 1000, 3 * CHUNK, 1000), 3 * CHUNK);
	finish(1000 + 3 * CHUNK);
}

/* What it was to follow is gone, or others have taken the place. */
static void things_have_changed(void **state)
{
	struct content_landing l;

	(void)state;
	begin(1000);
	assert_true(land(1000, CHUNK, &l));
	receive_into(&l, model + 1000, CHUNK);
	assert_int_equal(content_truncate(ct, ct->all->backing, 10), 0);
	assert_false(content_take_landed(&l, CHUNK));
	content_leave(&l);
	assert_int_equal(content_write(ct, model + 10, CHUNK - 10, 10), CHUNK - 10);

	assert_true(land(CHUNK, 2 * CHUNK, &l));
	receive_into(&l, got, 2 * CHUNK);
	assert_int_equal(content_write(ct, model + CHUNK, CHUNK, CHUNK), CHUNK);
	assert_false(content_take_landed(&l, 2 * CHUNK));
	content_leave(&l);

	assert_true(land(2 * CHUNK, CHUNK, &l));
	receive_into(&l, got, CHUNK);
	content_fail(ct, -EIO);
	assert_false(content_take_landed(&l, CHUNK));
	content_leave(&l);
	assert_int_equal(file_close(&f), -EIO);
	assert_int_equal(mnt_drain(&m, 10), 0);
	assert_int_equal(free_chunks(), m.en.cache->nr_chunks);
	mnt_close(&m);
}

/* While the place is held nobody else gets it, and nothing of its first chunk flies. */
static void held(void **state)
{
	struct content_landing l, other;

	(void)state;
	begin(1000);
	assert_true(land(1000, CHUNK, &l));
	assert_false(land(1000, CHUNK, &other));
	content_hurry(ct);
	assert_false(content_rests(ct));
	receive_into(&l, model + 1000, CHUNK);
	assert_true(content_take_landed(&l, CHUNK));
	content_leave(&l);
	assert_false(land(5, CHUNK, &other)); /* only behind the end */
	finish(1000 + CHUNK);
}

/* It never takes what somebody else may need in a moment. */
static void no_room(void **state)
{
	struct chunk *held_back[64];
	struct content_landing l;
	size_t nr = 0;

	(void)state;
	begin(0);
	{
		LOCK_SCOPE(&m.en.cache->lock);
		while ((held_back[nr] = cache_claim_spare(m.en.cache, m.user.uid)))
			nr++;
	}
	assert_in_range(nr, 1, m.en.cache->nr_chunks - 1);
	assert_false(land(0, CHUNK, &l));
	{
		LOCK_SCOPE(&m.en.cache->lock);
		while (nr)
			cache_give_back(m.en.cache, held_back[--nr]);
	}
	assert_true(land(0, CHUNK, &l));
	receive_into(&l, model, CHUNK);
	assert_true(content_take_landed(&l, CHUNK));
	content_leave(&l);
	finish(CHUNK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(taken_wherever_it_begins),
		cmocka_unit_test(not_taken),
		cmocka_unit_test(things_have_changed),
		cmocka_unit_test(held),
		cmocka_unit_test(no_room),
	};

	umask(0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
