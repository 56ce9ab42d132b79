/* SPDX-License-Identifier: MIT */
/*
 * A state provider of another kind (unit/provider.h): a thread of the daemon makes the bytes of a
 * file itself, out of order, while plain writes give the rest.
 */
#include "tests/unit/mnt.h"

#include "engine/calls/provider.h"
#include "engine/metrics/failures.h"

#define CACHE "chunk_size=64K,host_cache_size=4M," LEAST_TIMEOUT
#define HEAD  1000
#define MADE  (5 * CHUNK + 777)

static struct mnt m;
static char dir_path[PATH_MAX], want[HEAD + MADE], got[HEAD + MADE + 1];

/* --- the provider --- */

struct maker {
	struct provided owed;
	pthread_t thread;
	sem_t go;
	int fails; /* -errno, after half of the bytes; 0: it gives all of them */
};

static char byte_at(uint64_t off)
{
	return (char)(off * 11 + off / 253);
}

/* From the last piece to the first, each of an odd size. */
static void *make_bytes(void *maker)
{
	struct maker *mk = maker;
	struct content *ct = generation_content(mk->owed.generation);
	uint64_t at = mk->owed.promise.len;
	static char piece[7001];

	while (at) {
		size_t len = at < sizeof(piece) ? (size_t)at : sizeof(piece), i;

		if (mk->fails && at < mk->owed.promise.len / 2)
			break;
		sem_wait(&mk->go);
		at -= len;
		for (i = 0; i < len; i++)
			piece[i] = byte_at(mk->owed.promise.off + at + i);
		assert_int_equal(content_keep(ct, piece, len, mk->owed.promise.off + at), len);
	}
	if (mk->fails)
		provided_fail(&mk->owed, mk->fails, "the maker is broken");
	provided_end(&mk->owed);
	return NULL;
}

static int maker_begin(struct maker *mk, struct file *f)
{
	int err = provided_begin(&mk->owed, f->h->generation, f->key, HEAD, MADE);

	if (err)
		return err;
	provided_certain(&mk->owed, NULL);
	assert_int_equal(sem_init(&mk->go, 0, 0), 0);
	assert_int_equal(pthread_create(&mk->thread, NULL, make_bytes, mk), 0);
	return 0;
}

static void maker_go(struct maker *mk, unsigned pieces)
{
	while (pieces--)
		sem_post(&mk->go);
}

/* --- tests --- */

static void begin(struct file *f)
{
	size_t i;

	scratch_dir(dir_path);
	mnt_open(&m, dir_path, CACHE);
	mnt_start(&m);
	for (i = 0; i < sizeof(want); i++)
		want[i] = i < HEAD ? 'h' : byte_at(i);
	assert_int_equal(file_open(&m, f, "x.pt", O_RDWR), 0);
	assert_int_equal(content_write(generation_content(f->h->generation), want, HEAD, 0), HEAD);
}

/* On the backing. */
static bool is_there(const char *name)
{
	struct statx stx;

	return !statx(m.top, name, 0, STATX_INO, &stx);
}

static bool has_failed(const char *why)
{
	json_t *list = failures_to_json(m.en.failures, m.user.uid, true), *one;
	bool found = false;
	size_t i;

	json_array_foreach (list, i, one)
		found = found || strstr(json_string_value(json_object_get(one, "message")), why);
	json_decref(list);
	return found;
}

static void *read_all(void *content)
{
	struct content *ct = content;

	return (void *)(intptr_t)content_read(ct, ct->fd, got, sizeof(got), 0);
}

static void a_file_of_two_providers(void **state)
{
	struct maker mk = {.fails = 0};
	struct content *ct;
	pthread_t reader;
	struct file f;
	void *n;

	(void)state;
	begin(&f);
	ct = generation_content(f.h->generation);
	assert_int_equal(maker_begin(&mk, &f), 0);
	assert_int_equal(content_size(ct), sizeof(want)); /* at once */
	content_get(ct);
	assert_int_equal(pthread_create(&reader, NULL, read_all, ct), 0);
	assert_int_equal(file_close(&f), 0); /* does not wait either */
	assert_false(is_there("x.pt"));
	maker_go(&mk, MADE);
	assert_int_equal(pthread_join(reader, &n), 0);
	assert_int_equal((intptr_t)n, sizeof(want));
	assert_memory_equal(got, want, sizeof(want));
	assert_int_equal(pthread_join(mk.thread, NULL), 0);
	assert_int_equal(name_wait(&m, "x.pt"), 0);
	assert_true(is_there("x.pt"));
	content_put(ct);
	mnt_close(&m);
}

static void a_provider_that_fails(void **state)
{
	struct maker mk = {.fails = -ENODATA};
	struct content *ct;
	struct file f;

	(void)state;
	begin(&f);
	ct = generation_content(f.h->generation);
	content_get(ct);
	assert_int_equal(maker_begin(&mk, &f), 0);
	maker_go(&mk, MADE);
	assert_int_equal((intptr_t)read_all(ct), -ENODATA);
	assert_int_equal(pthread_join(mk.thread, NULL), 0);
	file_close(&f);
	assert_true(has_failed("the maker is broken"));
	assert_false(is_there("x.pt"));
	content_put(ct);
	mnt_close(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_of_two_providers),
		cmocka_unit_test(a_provider_that_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
