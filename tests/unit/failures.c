/* SPDX-License-Identifier: MIT */
/* The list of failures: bounded, equal ones counted, other users' left out. */
#include "tests/unit/unit.h"

#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/metrics/failures.h"

static int setup(void **state)
{
	*state = failures_create();
	return *state ? 0 : -1;
}

static int teardown(void **state)
{
	failures_destroy(*state);
	return 0;
}

static json_int_t count_of(const json_t *list, size_t i)
{
	return json_get_int(json_array_get(list, i), "count", -1);
}

static const char *path_of(const json_t *list, size_t i)
{
	return json_get_text(json_array_get(list, i), "path", "");
}

static void one_is_shown_whole(void **state)
{
	const json_t *entry;
	json_t *list;

	failures_add(*state, 1000, "write", "a/b", EIO, "it broke");
	list = failures_to_json(*state, 1000, false);
	assert_int_equal(json_array_size(list), 1);
	entry = json_array_get(list, 0);
	assert_string_equal(json_get_text(entry, "op", ""), "write");
	assert_string_equal(json_get_text(entry, "path", ""), "a/b");
	assert_string_equal(json_get_text(entry, "errno", ""), "EIO");
	assert_string_equal(json_get_text(entry, "message", ""), "it broke");
	assert_int_equal(json_get_int(entry, "uid", 0), 1000);
	assert_int_equal(count_of(list, 0), 1);
	assert_true(json_get_int(entry, "time_ns", 0) > 1600000000ll * 1000000000);
	json_decref(list);
}

static void equal_ones_are_counted(void **state)
{
	json_t *list;
	int i;

	for (i = 0; i < 1000; i++)
		failures_add(*state, 1, "write", "a", EIO, "x");
	failures_add(*state, 1, "read", "a", EIO, "x");
	failures_add(*state, 1, "write", "b", EIO, "x");
	failures_add(*state, 1, "write", "a", ENOSPC, "x");
	list = failures_to_json(*state, 1, false);
	assert_int_equal(json_array_size(list), 4);
	assert_int_equal(count_of(list, 0), 1000);
	assert_int_equal(count_of(list, 1), 1);
	assert_true(json_get_int(json_array_get(list, 0), "last_ns", 0) >=
		    json_get_int(json_array_get(list, 0), "time_ns", 0));
	assert_int_equal(failures_total(*state), 1003);
	json_decref(list);
}

static void the_newest_are_kept_oldest_first(void **state)
{
	char path[32], first[32], last[32];
	json_t *list;
	int i;

	for (i = 0; i < 3 * FAILURES_KEPT + 7; i++) {
		snprintf(path, sizeof(path), "file-%d", i);
		failures_add(*state, 0, "open", path, EIO, path);
		list = i % 100 ? NULL : failures_to_json(*state, 0, true);
		if (list)
			assert_int_equal(json_array_size(list),
					 i < FAILURES_KEPT ? i + 1 : FAILURES_KEPT);
		json_decref(list);
	}
	list = failures_to_json(*state, 0, true);
	snprintf(first, sizeof(first), "file-%d", i - FAILURES_KEPT);
	snprintf(last, sizeof(last), "file-%d", i - 1);
	assert_int_equal(json_array_size(list), FAILURES_KEPT);
	assert_string_equal(path_of(list, 0), first);
	assert_string_equal(path_of(list, FAILURES_KEPT - 1), last);
	assert_int_equal(failures_total(*state), 3 * FAILURES_KEPT + 7);
	json_decref(list);
	/* One that was pushed out begins anew. */
	failures_add(*state, 0, "open", "file-0", EIO, "again");
	list = failures_to_json(*state, 0, true);
	assert_string_equal(path_of(list, FAILURES_KEPT - 1), "file-0");
	assert_int_equal(count_of(list, FAILURES_KEPT - 1), 1);
	json_decref(list);
}

static void others_see_that_but_not_what(void **state)
{
	const json_t *entry;
	json_t *list;

	failures_add(*state, 1001, "open", "secret", EIO, "about secret");
	failures_add(*state, 1002, "open", "mine", EIO, "about mine");
	list = failures_to_json(*state, 1002, false);
	assert_int_equal(json_array_size(list), 2);
	entry = json_array_get(list, 0);
	assert_true(json_is_null(json_object_get(entry, "path")));
	assert_true(json_is_null(json_object_get(entry, "message")));
	assert_string_equal(json_get_text(entry, "op", ""), "open");
	assert_string_equal(path_of(list, 1), "mine");
	json_decref(list);
	list = failures_to_json(*state, 0, true);
	assert_string_equal(path_of(list, 0), "secret");
	json_decref(list);
}

static void paths_may_hold_any_byte(void **state)
{
	json_t *list;

	failures_add(*state, 1, "open", "a\xff\n\"b", EIO, "m\xc3");
	list = failures_to_json(*state, 1, false);
	assert_string_equal(path_of(list, 0), "a\xEF\xBF\xBD\n\"b");
	json_decref(list);
}

static void none_is_an_empty_list(void **state)
{
	json_t *list = failures_to_json(*state, 0, true);

	assert_true(json_is_array(list));
	assert_int_equal(json_array_size(list), 0);
	assert_int_equal(failures_total(*state), 0);
	json_decref(list);
	failures_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_is_shown_whole, setup, teardown),
		cmocka_unit_test_setup_teardown(equal_ones_are_counted, setup, teardown),
		cmocka_unit_test_setup_teardown(the_newest_are_kept_oldest_first, setup, teardown),
		cmocka_unit_test_setup_teardown(others_see_that_but_not_what, setup, teardown),
		cmocka_unit_test_setup_teardown(paths_may_hold_any_byte, setup, teardown),
		cmocka_unit_test_setup_teardown(none_is_an_empty_list, setup, teardown),
	};

	/* The log is not what is tested; "error" is always shown. */
	if (!freopen("/dev/null", "w", stderr))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
