/* SPDX-License-Identifier: MIT */
/* Texts of any bytes become valid UTF-8, and what was valid stays. */
#include "tests/unit/unit.h"

#include "engine/base/json.h"

#define R "\xEF\xBF\xBD"

static void becomes(const char *in, const char *out)
{
	json_t *text = json_text(in);

	assert_non_null(text);
	assert_string_equal(json_string_value(text), out);
	json_decref(text);
}

static void valid_texts_stay(void **state)
{
	(void)state;
	becomes("", "");
	becomes("plain", "plain");
	becomes("kn\xc3\xb6t \xe2\x82\xac \xf0\x9f\x98\x80",
		"kn\xc3\xb6t \xe2\x82\xac \xf0\x9f\x98\x80");
	becomes("tab\tquote\"back\\slash\x01", "tab\tquote\"back\\slash\x01");
}

static void other_bytes_are_replaced_one_by_one(void **state)
{
	(void)state;
	becomes("\xff", R);
	becomes("a\xff\xfe"
		"b",
		"a" R R "b");
	becomes("\xc3", R);		      /* cut off at the end */
	becomes("\xc3(", R "(");	      /* continued wrongly */
	becomes("\xe2\x82", R R);	      /* cut off in the middle */
	becomes("\xc0\xaf", R R);	      /* longer than needed */
	becomes("\xed\xa0\x80", R R R);	      /* half of a UTF-16 pair */
	becomes("\xf4\x90\x80\x80", R R R R); /* above U+10FFFF */
	becomes("\xff\xf0\x9f\x98\x80", R "\xf0\x9f\x98\x80");
	becomes("\xff\xc3\xb6", R "\xc3\xb6"); /* a good one behind */
	becomes("\xc3\xb6\x80", "\xc3\xb6" R); /* and in front */
}

/* Random bytes, and random mixtures of good and bad sequences. */
static void any_bytes_make_a_string(void **state)
{
	static const char *const pieces[] = {"a",    "\xc3\xb6", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
					     "\xff", "\xc3",	 "\xe2\x82",	 "\xf0\x9f",
					     "\x80", "\x01"};
	uint64_t random = 4711;
	int i;

	(void)state;
	for (i = 0; i < 20000; i++) {
		char in[64] = "", *dump;
		size_t len = next_random(&random) % 40, n;
		json_t *text, *again;

		for (n = 0; n < len && i % 2; n++)
			in[n] = (char)(1 + next_random(&random) % 255);
		for (n = 0; n < 12 && !(i % 2); n++)
			strcat(in, pieces[next_random(&random) % 10]);
		text = json_text(in);
		assert_non_null(text);
		dump = json_dumps(text, JSON_ENCODE_ANY);
		assert_non_null(dump);
		again = json_loads(dump, JSON_DECODE_ANY, NULL);
		assert_true(json_equal(text, again));
		assert_true(json_string_length(text) <= 3 * strlen(in));
		becomes(json_string_value(text), json_string_value(text));
		json_decref(again);
		json_decref(text);
		free(dump);
	}
}

static void members_have_fallbacks(void **state)
{
	json_t *o = json_pack("{s:s, s:I, s:b}", "text", "x", "number", (json_int_t)7, "flag", 1);

	(void)state;
	assert_string_equal(json_get_text(o, "text", "-"), "x");
	assert_string_equal(json_get_text(o, "number", "-"), "-");
	assert_string_equal(json_get_text(o, "none", "-"), "-");
	assert_string_equal(json_get_text(NULL, "text", "-"), "-");
	assert_int_equal(json_get_int(o, "number", -1), 7);
	assert_int_equal(json_get_int(o, "text", -1), -1);
	assert_int_equal(json_get_int(o, "flag", -1), -1);
	assert_int_equal(json_get_int(NULL, "number", -1), -1);
	json_decref(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(valid_texts_stay),
		cmocka_unit_test(other_bytes_are_replaced_one_by_one),
		cmocka_unit_test(any_bytes_make_a_string),
		cmocka_unit_test(members_have_fallbacks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
