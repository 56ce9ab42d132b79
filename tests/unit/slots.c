/* SPDX-License-Identifier: MIT */
/* Numbers for things: no number twice, none from the past found. */
#include "tests/unit/unit.h"

#include "fs/slots.h"

#define LOWEST	0x100000000u
#define HIGHEST 0xFFFFFFFE00000000u /* the control directory's begin there */

static struct slots s;
static char things[3000]; /* to have numbers for */

static uint64_t take(void *what)
{
	uint64_t number;

	assert_true(slots_take(&s, what, &number));
	assert_true(number >= LOWEST);
	assert_true(number < HIGHEST);
	assert_ptr_equal(slots_find(&s, number), what);
	return number;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void assert_unique(uint64_t *numbers, size_t nr)
{
	size_t i;

	qsort(numbers, nr, sizeof(*numbers), compare);
	for (i = 1; i < nr; i++)
		assert_true(numbers[i] != numbers[i - 1]);
}

static void an_empty_table_finds_nothing(void **state)
{
	(void)state;
	slots_init(&s);
	assert_null(slots_find(&s, 0));
	assert_null(slots_find(&s, 1));
	assert_null(slots_find(&s, LOWEST));
	assert_null(slots_find(&s, UINT64_MAX));
	slots_finish(&s);
}

static void what_has_a_number_is_found_while_the_table_grows(void **state)
{
	static uint64_t numbers[sizeof(things)];
	uint32_t first_nr;
	size_t i;

	(void)state;
	slots_init(&s);
	numbers[0] = take(&things[0]);
	first_nr = s.nr;
	assert_true(first_nr < sizeof(things));
	for (i = 1; i < sizeof(things); i++)
		numbers[i] = take(&things[i]);
	assert_true(s.nr > first_nr);
	for (i = 0; i < sizeof(things); i++)
		assert_ptr_equal(slots_find(&s, numbers[i]), &things[i]);
	assert_unique(numbers, sizeof(things));
	slots_finish(&s);
}

static void numbers_from_the_past_are_not_found(void **state)
{
	uint64_t old, new;

	(void)state;
	slots_init(&s);
	old = take(&things[0]);
	slots_give_back(&s, old);
	assert_null(slots_find(&s, old));
	new = take(&things[1]); /* the same place */
	assert_int_equal((uint32_t) new, (uint32_t)old);
	assert_true(new != old);
	assert_null(slots_find(&s, old));
	slots_finish(&s);
}

static void numbers_never_seen_are_not_found(void **state)
{
	uint64_t number;

	(void)state;
	slots_init(&s);
	number = take(&things[0]);
	assert_null(slots_find(&s, (uint32_t)number));		       /* no generation */
	assert_null(slots_find(&s, number + 1));		       /* free */
	assert_null(slots_find(&s, number + LOWEST));		       /* to come */
	assert_null(slots_find(&s, (number & ~0xFFFFFFFFull) + s.nr)); /* behind the table */
	assert_null(slots_find(&s, number | 0xFFFFFFFFu));
	slots_finish(&s);
}

/* However they are taken and given back. */
static void no_number_comes_twice(void **state)
{
	enum { STEPS = 20000, HELD = 100 };
	static uint64_t all[STEPS];
	uint64_t held[HELD], seed = 1;
	size_t nr_all = 0, nr = 0, i, j;

	(void)state;
	slots_init(&s);
	for (i = 0; i < STEPS; i++) {
		if (nr == HELD || (nr && next_random(&seed) & 1)) {
			j = next_random(&seed) % nr;
			slots_give_back(&s, held[j]);
			assert_null(slots_find(&s, held[j]));
			held[j] = held[--nr];
		} else {
			all[nr_all++] = held[nr++] = take(&things[i % sizeof(things)]);
		}
	}
	assert_true(nr_all > STEPS / 3);
	assert_unique(all, nr_all);
	assert_true(s.nr < STEPS / 4); /* places are used again */
	slots_finish(&s);
}

static void a_place_whose_numbers_are_used_up_is_left_alone(void **state)
{
	uint64_t number;
	uint32_t place;
	int i, seen = 0;

	(void)state;
	slots_init(&s);
	place = (uint32_t)take(&things[0]);
	slots_give_back(&s, LOWEST + place);
	s.v[place].generation = 0xFFFFFFFC;
	for (i = 0; i < 10; i++) {
		number = take(&things[i]);
		seen += (uint32_t)number == place;
		slots_give_back(&s, number);
		assert_null(slots_find(&s, number));
	}
	assert_int_equal(seen, 2); /* with FFFFFFFC and FFFFFFFD */
	assert_null(slots_find(&s, 0xFFFFFFFE00000000ull + place));
	assert_null(slots_find(&s, place));
	slots_finish(&s);
}

/* All of them at once: the table grows instead. */
static void a_table_that_is_used_up_grows(void **state)
{
	uint64_t number;
	uint32_t i, nr;

	(void)state;
	slots_init(&s);
	take(&things[0]);
	nr = s.nr;
	for (i = 0; i < nr; i++)
		s.v[i].generation = 0xFFFFFFFD;
	slots_give_back(&s, 0xFFFFFFFDull << 32);
	for (i = 1; i < nr; i++)
		slots_give_back(&s, take(&things[1]));
	number = take(&things[2]);
	assert_true((uint32_t)number >= nr);
	assert_true(s.nr > nr);
	slots_finish(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_table_finds_nothing),
		cmocka_unit_test(what_has_a_number_is_found_while_the_table_grows),
		cmocka_unit_test(numbers_from_the_past_are_not_found),
		cmocka_unit_test(numbers_never_seen_are_not_found),
		cmocka_unit_test(no_number_comes_twice),
		cmocka_unit_test(a_place_whose_numbers_are_used_up_is_left_alone),
		cmocka_unit_test(a_table_that_is_used_up_grows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
