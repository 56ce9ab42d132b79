/* SPDX-License-Identifier: MIT */
/* The digests of stretches of a file that is being written. */
#include "tests/unit/unit.h"

#include "engine/content/spans.h"

#define BYTES  4096
#define ROUNDS 20000

static unsigned char file[BYTES];

static void feed(struct spans *s, uint64_t off, size_t len)
{
	spans_feed(s, off, file + off, len);
}

/* True if the digest of these bytes is known; then it must be right. */
static bool known(const struct spans *s, uint64_t at, uint64_t bytes)
{
	XXH128_canonical_t digest, wanted;

	if (!spans_known(s, at, bytes, &digest))
		return false;
	XXH128_canonicalFromHash(&wanted, XXH3_128bits(file + at, bytes));
	assert_memory_equal(&digest, &wanted, sizeof(digest));
	return true;
}

static void what_passes_in_order_is_known(void **state)
{
	struct spans s = {0};

	(void)state;
	for (size_t i = 0; i < BYTES; i++)
		file[i] = (unsigned char)(i * 7);
	spans_expect(&s, 100, 50);
	spans_expect(&s, 150, 1000);
	spans_expect(&s, 2000, 10);
	feed(&s, 0, 120); /* a part of the first */
	assert_false(known(&s, 100, 50));
	feed(&s, 120, 500); /* the rest, and a part of the next */
	assert_true(known(&s, 100, 50));
	assert_false(known(&s, 150, 1000));
	assert_int_equal(s.open, 1);
	feed(&s, 620, BYTES - 620);
	assert_true(known(&s, 150, 1000) && known(&s, 2000, 10));
	assert_false(known(&s, 100, 49) || known(&s, 101, 49) || known(&s, 1300, 5));
	assert_int_equal(s.open, 0);
	spans_free(&s);
}

static void what_does_not_pass_in_order_is_unknown(void **state)
{
	struct spans s = {0};

	(void)state;
	spans_expect(&s, 0, 100);
	spans_expect(&s, 100, 100);
	spans_expect(&s, 200, 100);
	feed(&s, 50, 50); /* the start has not passed */
	feed(&s, 0, 50);
	assert_false(known(&s, 0, 100));
	feed(&s, 100, 100);
	file[150]++; /* a part is written again */
	feed(&s, 150, 10);
	assert_false(known(&s, 100, 100));
	feed(&s, 100, 100); /* all of it */
	assert_true(known(&s, 100, 100));
	feed(&s, 200, 100);
	spans_spoil(&s, 299, 5000);
	assert_false(known(&s, 200, 100));
	assert_true(known(&s, 100, 100));
	spans_free(&s);
}

static void a_later_one_takes_the_place(void **state)
{
	struct spans s = {0};

	(void)state;
	spans_expect(&s, 0, 100);
	spans_expect(&s, 200, 100);
	feed(&s, 0, 300);
	spans_expect(&s, 50, 200);
	assert_false(known(&s, 0, 100) || known(&s, 200, 100));
	spans_expect(&s, 400, 0);
	assert_int_equal(s.nr, 1);
	spans_free(&s);
}

static void few_are_open_at_a_time(void **state)
{
	struct spans s = {0};
	unsigned nr = 0;

	(void)state;
	for (unsigned i = 0; i < 64; i++)
		spans_expect(&s, i * 64, 64);
	for (unsigned half = 0; half < 2; half++)
		for (unsigned i = 0; i < 64; i++)
			feed(&s, i * 64 + half * 32, 32);
	for (unsigned i = 0; i < 64; i++)
		nr += known(&s, i * 64, 64);
	assert_in_range(nr, 1, 63);
	assert_int_equal(s.open, 0);
	spans_free(&s);
}

/* Whatever happens to the file: what is known is right. */
static void any_history_leads_to_right_digests(void **state)
{
	struct spans s = {0};
	unsigned nr = 0;

	(void)state;
	srand(1);
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t at = (uint64_t)rand() % BYTES, len = 1 + (uint64_t)rand() % 300;

		len = len < BYTES - at ? len : BYTES - at;
		if (rand() % 8 == 0) {
			spans_expect(&s, at, len);
			continue;
		}
		for (uint64_t k = at; k < at + len; k++)
			file[k] = (unsigned char)rand();
		if (rand() % 8 == 0) {
			spans_spoil(&s, at, at + len);
			continue;
		}
		feed(&s, at, len / 2);
		feed(&s, at + len / 2, len - len / 2);
		for (uint64_t k = 0; k < BYTES; k += 16)
			for (uint64_t n = 1; n < 300 && k + n <= BYTES && i % 64 == 0; n++)
				nr += known(&s, k, n);
	}
	assert_true(nr);
	spans_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_passes_in_order_is_known),
		cmocka_unit_test(what_does_not_pass_in_order_is_unknown),
		cmocka_unit_test(a_later_one_takes_the_place),
		cmocka_unit_test(few_are_open_at_a_time),
		cmocka_unit_test(any_history_leads_to_right_digests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
