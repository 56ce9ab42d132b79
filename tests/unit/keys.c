/* SPDX-License-Identifier: MIT */
/* The table of options: complete, consistent, and forgiving of typing errors. */
#include "tests/unit/unit.h"

#include "engine/config/config.h"
#include "engine/config/keys.h"

static void every_slot_is_filled_and_found(void **state)
{
	enum key k;

	(void)state;
	for (k = 0; k < NR_KEYS; k++) {
		assert_non_null(key_table[k].name);
		assert_int_equal(key_find(key_table[k].name), k); /* so no name twice */
	}
	assert_int_equal(key_find(""), NR_KEYS);
	assert_int_equal(key_find("no_such_key"), NR_KEYS);
	assert_int_equal(key_find("NODE"), NR_KEYS);
}

static void enum_and_table_agree(void **state)
{
	(void)state;
	assert_string_equal(key_table[OPT_HOST_CACHE_SIZE].name, "host_cache_size");
	assert_string_equal(key_table[OPT_FSYNC].name, "fsync");
	assert_string_equal(key_table[OPT_NODE].name, "node");
	assert_string_equal(key_table[OPT_RULES].name, "rules");
	assert_string_equal(key_table[OPT_LOG_LEVEL].name, "log_level");
	assert_string_equal(key_table[OPT_ALLOW_OTHER].name, "allow_other");
	assert_int_equal(OPT_ALLOW_OTHER, NR_KEYS - 1);
}

static void names_are_lower_case_words(void **state)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyz_";
	enum key k;

	(void)state;
	for (k = 0; k < NR_KEYS; k++) {
		const char *name = key_table[k].name;

		assert_int_equal(strspn(name, allowed), strlen(name));
		assert_true(strlen(name) < 64); /* the row of the edit distance */
		/* A unit in the name says what the number means. */
		if (key_table[k].type == KEY_SECONDS)
			assert_string_equal(name + strlen(name) - 2, "_s");
	}
}

static void help_is_one_line(void **state)
{
	enum key k;

	(void)state;
	for (k = 0; k < NR_KEYS; k++) {
		const char *help = key_table[k].help;

		assert_true(help && *help && strlen(help) <= 100);
		assert_null(strpbrk(help, "\n\t"));
		assert_true(help[strlen(help) - 1] != '.');
	}
}

static void defaults_are_valid(void **state)
{
	enum key k;
	uint64_t number;

	(void)state;
	for (k = 0; k < NR_KEYS; k++)
		if (key_table[k].value[0])
			assert_int_equal(
				config_parse_value(&key_table[k], key_table[k].value, &number), 0);
}

static void choices_belong_to_enums(void **state)
{
	char buf[128];
	enum key k;

	(void)state;
	for (k = 0; k < NR_KEYS; k++) {
		assert_int_equal(key_table[k].type == KEY_ENUM, key_table[k].choices != NULL);
		assert_true(strlen(key_expects(&key_table[k], buf, sizeof(buf))) > 3);
	}
	assert_string_equal(key_expects(&key_table[OPT_ON_FULL], buf, sizeof(buf)),
			    "fail|wait:SECONDS|delete_last");
}

/* A buffer that is too small is filled and no more. */
static void expects_stays_in_its_buffer(void **state)
{
	char buf[16];

	(void)state;
	memset(buf, 'x', sizeof(buf));
	key_expects(&key_table[OPT_ON_FULL], buf, 8);
	assert_int_equal(buf[7], '\0');
	assert_int_equal(buf[8], 'x');
}

/* One letter left out, one doubled, one wrong, two swapped: always the key that was
 * meant. */
static void nearest_mends_typing_errors(void **state)
{
	enum key k;

	(void)state;
	for (k = 0; k < NR_KEYS; k++) {
		const char *name = key_table[k].name;
		size_t len = strlen(name), i;

		assert_int_equal(key_meant(name), k);
		for (i = 0; i < len; i++) {
			char typo[80];

			snprintf(typo, sizeof(typo), "%.*s%s", (int)i, name, name + i + 1);
			assert_int_equal(key_meant(typo), k);
			snprintf(typo, sizeof(typo), "%.*s%s", (int)i + 1, name, name + i);
			assert_int_equal(key_meant(typo), k);
			snprintf(typo, sizeof(typo), "%s", name);
			typo[i] = 'Q';
			assert_int_equal(key_meant(typo), k);
			if (i + 1 < len && len > 4) {
				snprintf(typo, sizeof(typo), "%s", name);
				typo[i] = name[i + 1];
				typo[i + 1] = name[i];
				assert_int_equal(key_meant(typo), k);
			}
		}
	}
}

/*
 * What people type for a key that is called otherwise; and nothing that is no more than a little
 * alike.
 */
static void what_people_type_is_known(void **state)
{
	(void)state;
	assert_int_equal(key_meant("cache"), OPT_HOST_CACHE_SIZE);
	assert_int_equal(key_meant("cache_sise"), OPT_HOST_CACHE_SIZE);
	assert_int_equal(key_meant("sync"), OPT_FSYNC);
	assert_int_equal(key_meant("etcd"), OPT_COORD);
	assert_int_equal(key_meant("remount"), NR_KEYS);
	assert_int_equal(key_meant("rox"), NR_KEYS);
	assert_int_equal(key_meant("bogus"), NR_KEYS);
}

static void nearest_takes_any_text(void **state)
{
	char longest[5000];

	(void)state;
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(key_meant(longest), NR_KEYS);
	assert_int_equal(key_meant(""), NR_KEYS);
	assert_int_equal(key_meant("\xff\xfe"), NR_KEYS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_slot_is_filled_and_found),
		cmocka_unit_test(enum_and_table_agree),
		cmocka_unit_test(names_are_lower_case_words),
		cmocka_unit_test(help_is_one_line),
		cmocka_unit_test(defaults_are_valid),
		cmocka_unit_test(choices_belong_to_enums),
		cmocka_unit_test(expects_stays_in_its_buffer),
		cmocka_unit_test(nearest_mends_typing_errors),
		cmocka_unit_test(what_people_type_is_known),
		cmocka_unit_test(nearest_takes_any_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
