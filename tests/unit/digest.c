/* SPDX-License-Identifier: MIT */
/*
 * The digest of a file is what ckptfs-format(5) says, however its bytes passed: in parts, out of
 * order, twice, cut off, changed. What did not pass in order is read again, and nothing else.
 */
#include "tests/unit/unit.h"

#include <malloc.h>
#include <pthread.h>
#include <xxhash.h>

#include "engine/content/digest.h"

#define PIECE DIGEST_PIECE
#define ROOM  (3 * PIECE + 100000)

/* A file in memory. */
struct file {
	unsigned char *data;
	uint64_t size;
	int error;	   /* what reading fails with */
	_Atomic int reads; /* calls */
};

static unsigned char room[ROOM], pattern[ROOM];

static ssize_t read_file(void *arg, void *buf, size_t len, uint64_t off)
{
	struct file *f = arg;

	f->reads++;
	if (f->error)
		return -f->error;
	if (off >= f->size)
		return 0;
	if (len > f->size - off)
		len = (size_t)(f->size - off);
	memcpy(buf, f->data + off, len);
	return (ssize_t)len;
}

static struct file make(uint64_t size)
{
	uint64_t i;

	for (i = 0; i < ROOM && !pattern[ROOM - 1]; i++)
		pattern[i] = (unsigned char)(i * 31 + (i >> 8) * 17 + (i >> 16));
	memcpy(room, pattern, ROOM);
	return (struct file){.data = room, .size = size};
}

static void hex_of(XXH128_hash_t hash, char hex[DIGEST_HEX])
{
	snprintf(hex, DIGEST_HEX, "%016llx%016llx", (unsigned long long)hash.high64,
		 (unsigned long long)hash.low64);
}

/* As ckptfs-format(5) defines it, in one go. */
static void naive(const struct file *f, char hex[DIGEST_HEX])
{
	XXH128_canonical_t pieces[4];
	uint64_t off;
	size_t nr = 0;

	if (f->size <= PIECE) {
		hex_of(XXH3_128bits(f->data, f->size), hex);
		return;
	}
	for (off = 0; off < f->size; off += PIECE) {
		uint64_t len = f->size - off < PIECE ? f->size - off : PIECE;

		XXH128_canonicalFromHash(&pieces[nr++], XXH3_128bits(f->data + off, len));
	}
	hex_of(XXH3_128bits(pieces, nr * 16), hex);
}

static void feed(struct digest *d, const struct file *f, uint64_t off, size_t len)
{
	digest_feed(d, off, f->data + off, len);
}

/* The digest is right, and so many pieces were read for it. */
static void finishes(struct digest *d, struct file *f, unsigned wanted)
{
	struct source src = {read_file, f};
	char hex[DIGEST_HEX], right[DIGEST_HEX];
	unsigned reread = 99;

	naive(f, right);
	assert_int_equal(digest_finish(d, f->size, &src, &reread, hex), 0);
	assert_string_equal(hex, right);
	assert_int_equal(reread, wanted);
}

static const struct {
	uint64_t size;
	const char *hex; /* made with xxhsum -H128, of each piece and then of their digests */
} known[] = {
	{0, "99aa06d3014798d86001c324468d497f"},
	{1, "a6cd5e9392000f6ac44bdff4074eecdb"},
	{1000, "0d981dcc7610966b7ddab5aaa1e52333"},
	{PIECE - 1, "20e3440c0e5d5714c8583cb9e6e267bd"},
	{PIECE, "b693df26db9c94e70ca27bebad3af744"},
	{PIECE + 1, "dec73687d76829519b7c4723d67fbe52"},
	{2 * PIECE, "1ab8e05ae800895b1f888ac65aab890d"},
	{2 * PIECE + 12345, "add398ca68adda92e8ffa306379242b4"},
};
#define NR_KNOWN (sizeof(known) / sizeof(known[0]))

static void known_files_have_the_known_digest(void **state)
{
	char hex[DIGEST_HEX];
	size_t i;

	(void)state;
	for (i = 0; i < NR_KNOWN; i++) {
		struct file f = make(known[i].size);
		struct source src = {read_file, &f};
		struct digest *d = digest_create();

		naive(&f, hex);
		assert_string_equal(hex, known[i].hex);
		assert_int_equal(digest_of_source(&src, f.size, 2, NULL, NULL, hex), 0);
		assert_string_equal(hex, known[i].hex);
		finishes(d, &f, (unsigned)((f.size + PIECE - 1) / PIECE)); /* nothing passed */
		assert_int_equal(digest_finish(d, f.size, &src, NULL, hex), 0);
		assert_string_equal(hex, known[i].hex);
		digest_destroy(d);
	}
}

static void what_passes_in_order_is_not_read(void **state)
{
	uint64_t seed = 7;
	size_t i;

	(void)state;
	for (i = 0; i < NR_KNOWN; i++) {
		struct file f = make(known[i].size);
		struct digest *d = digest_create();
		uint64_t off = 0;

		while (off < f.size) {
			uint64_t len = next_random(&seed) % (i % 2 ? 3000000 : 100000);

			if (len > f.size - off)
				len = f.size - off;
			feed(d, &f, off, len);
			off += len;
		}
		finishes(d, &f, 0);
		finishes(d, &f, 0);
		assert_int_equal(f.reads, 0);
		digest_destroy(d);
	}
}

static void one_part_may_span_pieces(void **state)
{
	struct file f = make(ROOM);
	struct digest *d = digest_create();

	(void)state;
	feed(d, &f, 0, ROOM);
	finishes(d, &f, 0);
	digest_destroy(d);
}

static void a_file_that_grows_is_digested_on(void **state)
{
	struct file f = make(1000);
	struct digest *d = digest_create();

	(void)state;
	feed(d, &f, 0, 1000);
	finishes(d, &f, 0);
	f.size = 1500;
	feed(d, &f, 1000, 500);
	finishes(d, &f, 0);
	f.size = PIECE + 1500;
	feed(d, &f, 1500, PIECE);
	finishes(d, &f, 0);
	digest_destroy(d);
}

/* Writers side by side in pieces of their own; the last is one too many. */
static void so_many_pieces_pass_at_a_time(void **state)
{
	enum { FAR = DIGEST_STREAMS + 1, PART = PIECE / 8 };
	static unsigned char big[FAR * PIECE];
	char hex[DIGEST_HEX], right[DIGEST_HEX];
	unsigned nr, reread, p;
	size_t off;

	(void)state;
	for (off = 0; off < sizeof(big); off++)
		big[off] = (unsigned char)(off * 7 + (off >> 12));
	for (nr = DIGEST_STREAMS; nr <= FAR; nr++) {
		struct file f = {.data = big, .size = nr * PIECE};
		struct source src = {read_file, &f};
		struct digest *d = digest_create();

		for (off = 0; off < PIECE; off += PART)
			for (p = 0; p < nr; p++)
				feed(d, &f, p * PIECE + off, PART);
		assert_int_equal(digest_of_source(&src, f.size, 1, NULL, NULL, right), 0);
		assert_int_equal(digest_finish(d, f.size, &src, &reread, hex), 0);
		assert_string_equal(hex, right);
		assert_int_equal(reread, nr < FAR ? 0 : 1);
		digest_destroy(d);
	}
}

static void a_stream_is_taken_from_the_piece_fed_least_recently(void **state)
{
	struct file f = make(3 * PIECE);
	struct digest *d = digest_create();
	uint64_t p;

	(void)state;
	/* Of pieces 1, 2 and two far away only the start passes; piece 0 goes on all the time. */
	feed(d, &f, PIECE, 10);
	feed(d, &f, 2 * PIECE, 10);
	for (p = 0; p < 16; p++) {
		feed(d, &f, p * PIECE / 16, PIECE / 16);
		digest_feed(d, (100 + p) * PIECE, "x", 1);
	}
	finishes(d, &f, 2);
	digest_destroy(d);
}

static void parts_out_of_order_are_read_again(void **state)
{
	struct file f = make(2 * PIECE + 300);
	struct digest *d = digest_create();

	(void)state;
	feed(d, &f, 1000, 1000);
	feed(d, &f, 0, 1000);
	feed(d, &f, 2000, PIECE - 2000);
	feed(d, &f, PIECE, PIECE);
	feed(d, &f, 2 * PIECE + 100, 200);
	feed(d, &f, 2 * PIECE, 100);
	finishes(d, &f, 2);
	finishes(d, &f, 0); /* what was read is remembered */
	digest_destroy(d);
}

static void a_gap_is_not_taken_for_content(void **state)
{
	struct file f = make(2000);
	struct digest *d = digest_create();

	(void)state;
	feed(d, &f, 0, 1000);
	feed(d, &f, 1500, 500);
	feed(d, &f, 2000, 500);
	finishes(d, &f, 1); /* 2000 bytes passed, but not these */
	digest_destroy(d);
}

static void rewritten_pieces_are_read_again(void **state)
{
	struct file f = make(3 * PIECE);
	struct digest *d = digest_create();

	(void)state;
	feed(d, &f, 0, 3 * PIECE);
	f.data[5] ^= 1; /* the header, at the end, as many formats do */
	feed(d, &f, 5, 1);
	finishes(d, &f, 1);
	f.data[2 * PIECE - 1] ^= 1;
	f.data[2 * PIECE] ^= 1;
	feed(d, &f, 2 * PIECE - 1, 2);
	finishes(d, &f, 2);
	/* In a piece that is still passing. */
	digest_spoil(d, 0, UINT64_MAX);
	feed(d, &f, 0, 1000);
	f.data[999] ^= 1;
	feed(d, &f, 999, 1);
	feed(d, &f, 1000, PIECE - 1000);
	feed(d, &f, PIECE, 2 * PIECE);
	finishes(d, &f, 1);
	/* The same bytes twice. */
	feed(d, &f, PIECE, PIECE);
	feed(d, &f, PIECE + 4096, 4096);
	finishes(d, &f, 1);
	digest_destroy(d);
}

static void a_piece_rewritten_from_its_start_passes_anew(void **state)
{
	struct file f = make(2 * PIECE + 5000);
	struct digest *d = digest_create();
	uint64_t i;

	(void)state;
	feed(d, &f, 0, f.size);
	for (i = 0; i < f.size; i++)
		f.data[i] ^= 0x55;
	feed(d, &f, 0, PIECE / 2); /* this stream begins again in its middle */
	feed(d, &f, 0, PIECE);
	feed(d, &f, PIECE, PIECE + 5000);
	finishes(d, &f, 0);
	digest_destroy(d);
}

static void another_size_needs_other_pieces(void **state)
{
	struct file f = make(3 * PIECE);
	struct digest *d = digest_create();

	(void)state;
	feed(d, &f, 0, 3 * PIECE);
	f.size = 2 * PIECE + 7;
	digest_spoil(d, f.size, UINT64_MAX);
	finishes(d, &f, 1);
	f.size = 2 * PIECE;
	digest_spoil(d, f.size, UINT64_MAX);
	finishes(d, &f, 0);
	f.size = PIECE - 1;
	digest_spoil(d, f.size, UINT64_MAX);
	finishes(d, &f, 1);
	/* Extended by zeros, which nobody fed. */
	memset(f.data + PIECE - 1, 0, 2 * PIECE);
	f.size = 2 * PIECE + 1;
	digest_spoil(d, PIECE - 1, PIECE + 2);
	finishes(d, &f, 3);
	f.size = 0;
	digest_spoil(d, 0, UINT64_MAX);
	finishes(d, &f, 0);
	digest_destroy(d);
}

static void cut_to_what_passed_nothing_is_read(void **state)
{
	struct file f = make(PIECE + 1000);
	struct digest *d = digest_create();

	(void)state;
	feed(d, &f, 0, f.size);
	digest_spoil(d, f.size, UINT64_MAX); /* space made beforehand, given back */
	finishes(d, &f, 0);
	f.size = 2 * PIECE; /* and its place written in order after all */
	feed(d, &f, PIECE + 1000, PIECE - 1000);
	finishes(d, &f, 0);
	digest_destroy(d);
}

static void spoiled_pieces_are_read_again(void **state)
{
	struct file f = make(3 * PIECE);
	struct digest *d = digest_create();

	(void)state;
	feed(d, &f, 0, 3 * PIECE);
	digest_spoil(d, 17, 0); /* nothing */
	finishes(d, &f, 0);
	f.data[PIECE] ^= 1;
	digest_spoil(d, PIECE, 1);
	finishes(d, &f, 1);
	f.data[PIECE - 1] ^= 1;
	digest_spoil(d, PIECE - 1, PIECE + 2);
	finishes(d, &f, 3);
	digest_spoil(d, 1, UINT64_MAX);
	finishes(d, &f, 3);
	/* Streams of pieces in and behind the hole. */
	digest_spoil(d, 0, UINT64_MAX);
	feed(d, &f, 0, 100);
	feed(d, &f, PIECE, 100);
	feed(d, &f, 2 * PIECE, 100);
	digest_spoil(d, 50, PIECE);
	feed(d, &f, 100, PIECE - 100);
	feed(d, &f, PIECE + 100, PIECE - 100);
	feed(d, &f, 2 * PIECE + 100, PIECE - 100);
	finishes(d, &f, 2);
	digest_destroy(d);
}

/* Bytes at the far end of a sparse file. */
static void far_pieces_take_no_memory(void **state)
{
	struct file f = make(PIECE);
	struct digest *d = digest_create();
	uint64_t far = (uint64_t)INT64_MAX - INT64_MAX % PIECE - PIECE;
	size_t before, after;

	(void)state;
	feed(d, &f, 0, PIECE);
	before = mallinfo2().uordblks + mallinfo2().hblkhd;
	digest_feed(d, 1000000 * PIECE, f.data, PIECE);
	after = mallinfo2().uordblks + mallinfo2().hblkhd;
	assert_in_range(after - before, 0, 1000000);
	digest_feed(d, far, f.data, PIECE);
	digest_feed(d, far - PIECE * 100000, f.data, PIECE);
	digest_feed(d, (uint64_t)INT64_MAX - 10, f.data, 10);
	digest_spoil(d, far, UINT64_MAX);
	digest_spoil(d, UINT64_MAX, UINT64_MAX);
	finishes(d, &f, 0);
	digest_destroy(d);
}

static void reading_may_fail(void **state)
{
	struct file f = make(2 * PIECE);
	struct source src = {read_file, &f};
	struct digest *d = digest_create();
	char hex[DIGEST_HEX];

	(void)state;
	feed(d, &f, 0, PIECE);
	f.error = ESTALE;
	assert_int_equal(digest_finish(d, 2 * PIECE, &src, NULL, hex), -ESTALE);
	assert_int_equal(digest_of_source(&src, 2 * PIECE, 3, NULL, NULL, hex), -ESTALE);
	f.error = 0;
	f.size--;
	assert_int_equal(digest_finish(d, 2 * PIECE, &src, NULL, hex), -EIO);
	assert_int_equal(digest_of_source(&src, 2 * PIECE, 3, NULL, NULL, hex), -EIO);
	f.size++;
	finishes(d, &f, 1); /* it can be tried again */
	digest_destroy(d);
	digest_destroy(NULL);
}

/*
 * A file is written, rewritten, cut and extended at random; now and then its digest is asked for.
 */
static void any_history_leads_to_the_right_digest(void **state)
{
	struct file f = make(0);
	struct source src = {read_file, &f};
	struct digest *d = digest_create();
	uint64_t seed = 42, off, len, i;
	char hex[DIGEST_HEX], right[DIGEST_HEX];
	int step;

	(void)state;
	for (step = 0; step < 400; step++) {
		uint64_t what = next_random(&seed) % 16;

		/* Often on the borders of pieces, and where the file ends. */
		off = what & 1 ? f.size : next_random(&seed) % ROOM;
		if (next_random(&seed) % 4 == 0)
			off = off / PIECE * PIECE;
		len = next_random(&seed) % (what & 2 ? 5000000 : 5000);
		if (len > ROOM - off)
			len = ROOM - off;
		if (what < 12) {
			if (off > f.size)
				memset(f.data + f.size, 0, off - f.size);
			memset(f.data + off, (int)(seed & 255), len);
			for (i = 0; i < len; i += 4096)
				f.data[off + i] = (unsigned char)(i >> 12);
			if (off > f.size && len)
				digest_spoil(d, f.size, off - f.size);
			if (off + len > f.size && len)
				f.size = off + len;
			feed(d, &f, off, len);
		} else if (what < 14) {
			if (off > f.size)
				memset(f.data + f.size, 0, off - f.size);
			digest_spoil(d, off < f.size ? off : f.size, UINT64_MAX);
			f.size = off;
		} else {
			naive(&f, right);
			assert_int_equal(digest_finish(d, f.size, &src, NULL, hex), 0);
			assert_string_equal(hex, right);
		}
	}
	digest_destroy(d);
}

/* --- threads --- */

struct worker {
	struct digest *d;
	struct file *f;
	unsigned piece;
};

static void *feed_piece(void *arg)
{
	struct worker *w = arg;
	size_t at, part = 40000;

	for (at = 0; at < PIECE; at += part) {
		if (part > PIECE - at)
			part = PIECE - at;
		feed(w->d, w->f, w->piece * PIECE + at, part);
		if (at % 7 == 0)
			digest_spoil(w->d, w->piece * PIECE + at, 1);
	}
	return NULL;
}

static void *finish_often(void *arg)
{
	struct worker *w = arg;
	struct source src = {read_file, w->f};
	char hex[DIGEST_HEX];
	int i;

	for (i = 0; i < 5; i++)
		digest_finish(w->d, w->f->size, &src, NULL, hex);
	return NULL;
}

static void threads_may_feed_and_finish_at_once(void **state)
{
	struct file f = make(3 * PIECE);
	struct worker w[5];
	struct digest *d = digest_create();
	pthread_t ids[5];
	unsigned i, reread;
	char hex[DIGEST_HEX], right[DIGEST_HEX];
	struct source src = {read_file, &f};

	(void)state;
	for (i = 0; i < 5; i++) {
		w[i] = (struct worker){d, &f, i};
		assert_int_equal(
			pthread_create(&ids[i], NULL, i < 3 ? feed_piece : finish_often, &w[i]), 0);
	}
	for (i = 0; i < 5; i++)
		pthread_join(ids[i], NULL);
	naive(&f, right);
	assert_int_equal(digest_finish(d, f.size, &src, &reread, hex), 0);
	assert_string_equal(hex, right);
	digest_destroy(d);
}

/* Changes the file, once, while a piece of it is read. */
struct changing {
	struct file *f;
	struct digest *d;
	bool changed;
};

static ssize_t read_and_change(void *arg, void *buf, size_t len, uint64_t off)
{
	struct changing *c = arg;
	ssize_t n = read_file(c->f, buf, len, off);

	if (!c->changed) {
		c->changed = true;
		c->f->data[3] ^= 1;
		feed(c->d, c->f, 3, 1);
	}
	return n;
}

static void what_changes_while_it_is_read_is_not_remembered(void **state)
{
	struct file f = make(2 * PIECE);
	struct digest *d = digest_create();
	struct changing c = {.f = &f, .d = d};
	struct source src = {read_and_change, &c};
	char hex[DIGEST_HEX];

	(void)state;
	feed(d, &f, PIECE, PIECE);
	assert_int_equal(digest_finish(d, f.size, &src, NULL, hex), 0);
	assert_true(c.changed);
	finishes(d, &f, 1);
	digest_destroy(d);
}

struct told {
	uint64_t last;
	unsigned calls;
};

static void note_progress(void *arg, uint64_t bytes)
{
	struct told *t = arg;

	assert_true(bytes > t->last);
	t->last = bytes;
	t->calls++;
}

static void threads_digest_a_file_and_tell_how_far(void **state)
{
	static const unsigned threads[] = {0, 1, 2, 3, 100};
	struct file f = make(ROOM);
	struct source src = {read_file, &f};
	char hex[DIGEST_HEX], right[DIGEST_HEX];
	size_t i;

	(void)state;
	naive(&f, right);
	for (i = 0; i < sizeof(threads) / sizeof(threads[0]); i++) {
		struct told t = {0, 0};

		assert_int_equal(digest_of_source(&src, f.size, threads[i], note_progress, &t, hex),
				 0);
		assert_string_equal(hex, right);
		assert_int_equal(t.last, f.size);
		assert_int_equal(t.calls, 4);
	}
}

/* --- records --- */

#define HEX "0123456789abcdef0123456789abcdef"

static void records_survive_the_round_trip(void **state)
{
	static const uint64_t numbers[] = {0, 1, 9, 10, 1234567890123456789ull, UINT64_MAX};
	char text[DIGEST_RECORD_MAX], hex[DIGEST_HEX];
	uint64_t size, mtime;
	size_t i;
	int len;

	(void)state;
	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		len = digest_record_format(text, sizeof(text), HEX, numbers[i], numbers[5 - i]);
		assert_int_equal(len, strlen(text));
		assert_int_equal(digest_record_parse(text, (size_t)len, hex, &size, &mtime), 0);
		assert_string_equal(hex, HEX);
		assert_true(size == numbers[i] && mtime == numbers[5 - i]);
	}
	len = digest_record_format(text, sizeof(text), HEX, 17, 4);
	assert_string_equal(text, HEX " 17 4");
	assert_int_equal(len, 37);
	assert_int_equal(digest_record_format(text, 37, HEX, 17, 4), -EINVAL);
	assert_int_equal(digest_record_format(text, 38, HEX, 17, 4), 37);
	assert_int_equal(digest_record_format(text, 38, HEX "0", 17, 4), -EINVAL);
	assert_int_equal(digest_record_format(text, 38, "", 17, 4), -EINVAL);
}

static void other_texts_are_no_record(void **state)
{
	static const char *const bad[] = {
		"",
		HEX,
		HEX " ",
		HEX " 1",
		HEX " 1 ",
		HEX " 1 2 ",
		HEX " 1 2\n",
		HEX " 1 2 3",
		HEX "  1 2",
		HEX " 01 2",
		HEX " 1 00",
		HEX " +1 2",
		HEX " -1 2",
		HEX " 1.0 2",
		HEX " 0x1 2",
		HEX " 1,2",
		HEX " 18446744073709551616 1",
		HEX " 1 99999999999999999999",
		" " HEX " 1 2",
		HEX "0 1 2",
		"0123456789abcdef0123456789abcde 1 2",
		"0123456789abcdef0123456789abcdeg 1 2",
		"0123456789ABCDEF0123456789ABCDEF 1 2",
	};
	char hex[DIGEST_HEX] = "same";
	uint64_t size = 5, mtime = 6;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (digest_record_parse(bad[i], strlen(bad[i]), hex, &size, &mtime) != -EINVAL)
			fail_msg("accepted: '%s'", bad[i]);
	/* With its NUL. */
	assert_int_equal(digest_record_parse(HEX " 1 2", 37, hex, &size, &mtime), -EINVAL);
	assert_string_equal(hex, "same");
	assert_true(size == 5 && mtime == 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_files_have_the_known_digest),
		cmocka_unit_test(what_passes_in_order_is_not_read),
		cmocka_unit_test(one_part_may_span_pieces),
		cmocka_unit_test(a_file_that_grows_is_digested_on),
		cmocka_unit_test(so_many_pieces_pass_at_a_time),
		cmocka_unit_test(a_stream_is_taken_from_the_piece_fed_least_recently),
		cmocka_unit_test(parts_out_of_order_are_read_again),
		cmocka_unit_test(a_gap_is_not_taken_for_content),
		cmocka_unit_test(rewritten_pieces_are_read_again),
		cmocka_unit_test(a_piece_rewritten_from_its_start_passes_anew),
		cmocka_unit_test(another_size_needs_other_pieces),
		cmocka_unit_test(cut_to_what_passed_nothing_is_read),
		cmocka_unit_test(spoiled_pieces_are_read_again),
		cmocka_unit_test(far_pieces_take_no_memory),
		cmocka_unit_test(reading_may_fail),
		cmocka_unit_test(any_history_leads_to_the_right_digest),
		cmocka_unit_test(threads_may_feed_and_finish_at_once),
		cmocka_unit_test(what_changes_while_it_is_read_is_not_remembered),
		cmocka_unit_test(threads_digest_a_file_and_tell_how_far),
		cmocka_unit_test(other_texts_are_no_record),
		cmocka_unit_test(records_survive_the_round_trip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
