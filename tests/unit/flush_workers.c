/* SPDX-License-Identifier: MIT */
/* timeout: 120 */
/*
 * Several workers of the flush digest at once, chunks of one file too. What they record is what one
 * worker records, and nothing is hashed twice. A hash_update of our own holds one of them up.
 */
#include "tests/unit/flush_faults.h"

#include "engine/content/hash.h"

#define PIECE DIGEST_PIECE

static atomic_int armed;     /* so many calls wait for `go` */
static sem_t held, go;	     /* held: a call waits */
static atomic_size_t hashed; /* bytes */

void hash_update(XXH3_state_t *state, const void *data, size_t len)
{
	bool content = len > sizeof(XXH128_canonical_t); /* not the digest of a piece */

	if (content && atomic_load(&armed) > 0 && atomic_fetch_sub(&armed, 1) > 0) {
		sem_post(&held);
		sem_wait(&go);
	}
	XXH3_128bits_update(state, data, len);
	if (content)
		atomic_fetch_add(&hashed, len);
}

/* As struct source wants it. */
static ssize_t read_memory(void *arg, void *buf, size_t len, uint64_t off)
{
	memcpy(buf, (char *)arg + off, len);
	return (ssize_t)len;
}

static void hold_calls(int nr)
{
	sem_init(&held, 0, 0);
	sem_init(&go, 0, 0);
	atomic_store(&hashed, 0);
	atomic_store(&armed, nr);
}

/* Two pieces of x.pt are due when the workers come to them. Then one is held up in one piece. */
static void fill_two_pieces(struct file *file)
{
	struct file first;

	hold_calls(2);
	open_for(&first, "first.pt");
	assert_int_equal(file_fill(&first, ANOTHER, CHUNK), 0);
	sem_wait(&held);
	assert_int_equal(file_fill(file, NEW, 2 * PIECE), 0);
	sem_post(&go);
	assert_int_equal(file_close(&first), 0);
	sem_wait(&held);
}

/* While a worker is held up in one piece, the other digests all of the other. */
static void chunks_of_one_file_are_digested_at_once(void **state)
{
	struct file file;

	(void)state;
	begin("chunk_size=64K,host_cache_size=24M,io_retry_s=600,parser_threads=2");
	open_for(&file, "x.pt");
	fill_two_pieces(&file);
	WAIT_FOR(atomic_load(&hashed) == CHUNK + PIECE);
	sem_post(&go);
	assert_int_equal(file_close(&file), 0);
	assert_int_equal(name_wait(&m, "x.pt"), 0);
	assert_int_equal(atomic_load(&hashed), CHUNK + 2 * PIECE); /* each byte once */
	assert_on_backing(NEW);
	end();
}

/*
 * The digest of a tensor that lies in two pieces is known: its chunks passed in order, although one
 * was held up and others waited.
 */
static void a_file_with_tensors_is_digested_in_order(void **state)
{
	__cleanup_free char *data = bytes_of(NEW, 2 * PIECE);
	char hex[DIGEST_HEX], right[DIGEST_HEX];
	struct content *ct;
	struct file file;

	(void)state;
	begin("chunk_size=64K,host_cache_size=24M,io_retry_s=600,parser_threads=4");
	open_for(&file, "x.pt");
	ct = generation_content(file.h->generation);
	ct->by_handle = true;
	digest_expect(ct->digest, PIECE / 2, PIECE);
	fill_two_pieces(&file);
	sem_post(&go);
	assert_int_equal(content_write_back(ct), 0);
	assert_true(digest_of_expected(ct->digest, PIECE / 2, PIECE, hex));
	assert_int_equal(digest_of_source(&(struct source){read_memory, data + PIECE / 2}, PIECE, 1,
					  NULL, NULL, right),
			 0);
	assert_string_equal(hex, right);
	assert_int_equal(file_close(&file), 0);
	end();
}

static void assert_written(struct file *file, const char *data, uint64_t len, uint64_t off)
{
	assert_int_equal(file_write(file, data + off, len, off), len);
}

/* Bytes that grow, are cut, and are written over while they are flushed. Saved as x.pt. */
static void save_by_chance(uint64_t seed, char *data, size_t room)
{
	uint64_t size = 0;
	struct file file;
	unsigned i;

	open_for(&file, "x.pt");
	for (i = 0; i < 400; i++) {
		uint64_t at = next_random(&seed) % (size + 1);
		uint64_t len = next_random(&seed) % 200000 + 1, what = next_random(&seed) % 20;

		if (what == 0) {
			at = size - (size - at) / 16;
			assert_int_equal(file_truncate(&file, at), 0);
			memset(data + at, 0, size - at);
			size = at;
			continue;
		}
		if (what == 1)
			content_hurry(generation_content(file.h->generation));
		if (what > 4)
			at = size;
		if (at + len > room)
			continue;
		memset(data + at, (int)next_random(&seed), len);
		assert_written(&file, data, len, at);
		size = at + len > size ? at + len : size;
	}
	assert_int_equal(file_close(&file), 0);
	assert_int_equal(name_wait(&m, "x.pt"), 0);
	assert_true(has_digest(m.top, "x.pt"));
	assert_int_equal(digest_of_source(&(struct source){read_memory, data}, size, 1, NULL, NULL,
					  data + room),
			 0);
}

/* has_digest finds the record true to the file; the file is what was written. */
static void many_workers_record_what_one_does(void **state)
{
	enum { ROOM = 3 * PIECE };
	__cleanup_free char *data = malloc(ROOM + DIGEST_HEX);
	char path[PATH_MAX + 8], record[DIGEST_RECORD_MAX], options[128];
	uint64_t seed;
	unsigned workers;

	(void)state;
	assert_non_null(data);
	for (seed = 1; seed <= 4; seed++) {
		for (workers = 1; workers <= 4; workers += 3) {
			snprintf(options, sizeof(options),
				 "chunk_size=64K,host_cache_size=4M,io_retry_s=600,"
				 "parser_threads=%u",
				 workers);
			begin(options);
			if (!feature(m.en.backing.features, FEATURE_XATTR))
				skip();
			memset(data, 0, ROOM);
			save_by_chance(seed, data, ROOM);
			snprintf(path, sizeof(path), "%s/x.pt", dir_path);
			assert_true(getxattr(path, DIGEST_XATTR, record, sizeof(record)) > 0);
			assert_memory_equal(record, data + ROOM, DIGEST_HEX - 1);
			end();
		}
	}
}

/* --- the digest alone --- */

struct feed {
	struct digest *d;
	const char *data;
};

static void *feed_main(void *arg)
{
	struct feed *f = arg;

	digest_feed(f->d, 0, f->data, CHUNK);
	return NULL;
}

/* So the digest reads the piece again. */
static void a_change_while_bytes_are_hashed_forgets_them(void **state)
{
	__cleanup_free char *data = bytes_of(NEW, PIECE);
	struct source src = {read_memory, data};
	struct feed f = {.d = digest_create(), .data = data};
	char hex[DIGEST_HEX], right[DIGEST_HEX];
	unsigned reread;
	pthread_t thread;

	(void)state;
	hold_calls(1);
	assert_int_equal(pthread_create(&thread, NULL, feed_main, &f), 0);
	sem_wait(&held);
	digest_spoil(f.d, 5, 1);
	sem_post(&go);
	pthread_join(thread, NULL);
	data[5] ^= 1;
	digest_feed(f.d, CHUNK, data + CHUNK, PIECE - CHUNK);
	assert_int_equal(digest_finish(f.d, PIECE, &src, &reread, hex), 0);
	assert_int_equal(digest_of_source(&src, PIECE, 1, NULL, NULL, right), 0);
	assert_string_equal(hex, right);
	assert_int_equal(reread, 1);
	digest_destroy(f.d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chunks_of_one_file_are_digested_at_once),
		cmocka_unit_test(a_file_with_tensors_is_digested_in_order),
		cmocka_unit_test(many_workers_record_what_one_does),
		cmocka_unit_test(a_change_while_bytes_are_hashed_forgets_them),
	};
	const char *only = getenv("CKPTFS_TEST_ONLY");

	umask(0);
	writer_judge(getpid()); /* keeps /proc open from now on */
	if (only)
		cmocka_set_test_filter(only);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
