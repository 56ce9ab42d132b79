/* SPDX-License-Identifier: MIT */
/*
 * Where tensors lie in a file: pieces become one, what is written over goes, and there is a bound.
 */
#include "tests/unit/unit.h"

#include "engine/content/tensors.h"

static struct tensor *tensor(const char *name)
{
	struct ckptfs_tensor layout = {.id = 1, .name_len = (__u32)strlen(name)};
	struct tensor *t = tensor_make(&layout, name);

	assert_non_null(t);
	return t;
}

static void add(struct tensor_places *ps, struct tensor *t, uint64_t at, uint64_t from,
		uint64_t bytes)
{
	places_add(ps, &(struct tensor_place){.at = at, .from = from, .bytes = bytes, .tensor = t});
}

/* As "AT+BYTES<FROM ..." */
static void expect(const struct tensor_places *ps, const char *wanted)
{
	char text[1024] = "";
	size_t i;

	for (i = 0; i < ps->nr; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%llu+%llu<%llu",
			 i ? " " : "", (unsigned long long)ps->list[i].at,
			 (unsigned long long)ps->list[i].bytes,
			 (unsigned long long)ps->list[i].from);
	assert_string_equal(text, wanted);
}

static void pieces_become_one(void **state)
{
	struct tensor *a = tensor("a"), *b = tensor("b");
	struct tensor_places ps = {0};

	(void)state;
	add(&ps, a, 100, 0, 10);
	add(&ps, a, 110, 10, 10);
	expect(&ps, "100+20<0");
	add(&ps, a, 120, 21, 10); /* not the next of it */
	add(&ps, b, 130, 31, 10); /* of another */
	add(&ps, a, 141, 31, 10); /* not there */
	expect(&ps, "100+20<0 120+10<21 130+10<31 141+10<31");
	add(&ps, b, 0, 0, 100);
	expect(&ps, "0+100<0 100+20<0 120+10<21 130+10<31 141+10<31");
	assert_int_equal(a->refs, 4);
	assert_int_equal(b->refs, 3);
	places_free(&ps);
	assert_int_equal(a->refs, 1);
	assert_int_equal(b->refs, 1);
	tensor_put(a);
	tensor_put(b);
}

static void what_is_written_over_goes(void **state)
{
	struct tensor *a = tensor("a");
	struct tensor_places ps = {0};
	unsigned i;

	(void)state;
	for (i = 0; i < 10; i++)
		add(&ps, a, i * 10, 0, 10);
	places_cut(&ps, 10, 0);
	places_cut(&ps, 100, 1000);
	assert_int_equal(ps.nr, 10);
	places_cut(&ps, 19, 2);
	expect(&ps, "0+10<0 30+10<0 40+10<0 50+10<0 60+10<0 70+10<0 80+10<0 90+10<0");
	add(&ps, a, 35, 0, 30);
	expect(&ps, "0+10<0 35+30<0 70+10<0 80+10<0 90+10<0");
	places_cut(&ps, 71, UINT64_MAX - 71);
	expect(&ps, "0+10<0 35+30<0");
	places_cut(&ps, 0, UINT64_MAX);
	expect(&ps, "");
	assert_int_equal(a->refs, 1);
	places_free(&ps);
	tensor_put(a);
}

/* Of one byte each: the bound is looked at when the list, which doubles, is full. */
#define SMALL_MAX (2 * PLACES_FREE)

static void large_ones_have_no_bound(void **state)
{
	struct tensor *a = tensor("a");
	struct tensor_places ps = {0};
	struct tensor_map *m;

	(void)state;
	for (uint64_t i = 0; i < 4 * PLACES_FREE; i++)
		add(&ps, a, i * 2 * PLACE_BYTES, 0, PLACE_BYTES);
	m = places_map(&ps);
	assert_int_equal(m->nr, 4 * PLACES_FREE);
	tensor_map_put(m);
	places_cut(&ps, 1, UINT64_MAX - 1);
	assert_int_equal(ps.bytes, 0);
	places_free(&ps);
	tensor_put(a);
}

static void there_is_a_bound(void **state)
{
	struct tensor *a = tensor("a");
	struct tensor_places ps = {0};
	struct tensor_map *m;
	uint64_t i;

	(void)state;
	for (i = 0; i < SMALL_MAX; i++)
		add(&ps, a, i * 2, 0, 1);
	m = places_map(&ps);
	assert_int_equal(m->nr, SMALL_MAX);
	add(&ps, a, i * 2, 0, 1);
	assert_null(places_map(&ps));
	add(&ps, a, 0, 0, 1); /* a part would be worse than nothing */
	places_cut(&ps, 1, UINT64_MAX - 1);
	assert_null(places_map(&ps));
	assert_int_equal(a->refs, 1 + SMALL_MAX); /* the map's */
	places_cut(&ps, 0, UINT64_MAX);
	add(&ps, a, 5, 0, 1);
	expect(&ps, "5+1<0");
	places_set(&ps, m);
	assert_int_equal(ps.nr, SMALL_MAX);
	places_free(&ps);
	tensor_map_put(m);
	assert_int_equal(a->refs, 1);
	tensor_put(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_become_one),
		cmocka_unit_test(what_is_written_over_goes),
		cmocka_unit_test(there_is_a_bound),
		cmocka_unit_test(large_ones_have_no_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
