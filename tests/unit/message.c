/* SPDX-License-Identifier: MIT */
/* Messages: made once, bounded, and noted for the tests that ask which were provoked. */
#include "tests/unit/unit.h"

#include "engine/base/message.h"

static int fails(struct error *e)
{
	return FAIL(e, EBUSY, LABEL_IN_USE, "n1");
}

static void an_error_carries_number_and_text(void **state)
{
	struct error e = {0};

	(void)state;
	assert_int_equal(fails(&e), -EBUSY);
	assert_int_equal(e.err, EBUSY);
	assert_contains(e.text, "'n1' is in use");
}

static void errno_may_be_the_number(void **state)
{
	struct error e = {0};

	(void)state;
	errno = ENOTDIR;
	assert_int_equal(FAIL(&e, errno, BACKING_NOT_DIR, "/x"), -ENOTDIR);
	assert_int_equal(e.err, ENOTDIR);
}

static void long_arguments_are_cut(void **state)
{
	static char path[3 * MESSAGE_MAX];
	struct error e;
	char small[8];

	(void)state;
	memset(path, 'p', sizeof(path) - 1);
	FAIL(&e, EINVAL, NOT_A_MOUNT, path);
	assert_int_equal(strlen(e.text), MESSAGE_MAX - 1);
	MESSAGE(small, NOT_A_MOUNT, "/mnt");
	assert_string_equal(small, "/mnt is");
}

static void ids_are_noted(void **state)
{
	char path[PATH_MAX], name[PATH_MAX + 8], line[100], text[MESSAGE_MAX];
	const char *before = getenv("CKPTFS_MESSAGE_LOG");
	char *saved = before ? strdup(before) : NULL;
	FILE *f;

	(void)state;
	snprintf(name, sizeof(name), "%s/log", scratch_dir(path));
	setenv("CKPTFS_MESSAGE_LOG", name, 1);
	MESSAGE(text, NOT_A_MOUNT, "/mnt");
	MESSAGE(text, THREADS, "why");
	setenv("CKPTFS_MESSAGE_LOG", "/no/such/directory/log", 1);
	MESSAGE(text, NOT_A_MOUNT, "/mnt"); /* must not matter */
	f = fopen(name, "r");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	assert_string_equal(line, "NOT_A_MOUNT\n");
	assert_non_null(fgets(line, sizeof(line), f));
	assert_string_equal(line, "THREADS\n");
	assert_null(fgets(line, sizeof(line), f));
	fclose(f);
	unsetenv("CKPTFS_MESSAGE_LOG");
	if (saved)
		setenv("CKPTFS_MESSAGE_LOG", saved, 1);
	free(saved);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_error_carries_number_and_text),
		cmocka_unit_test(errno_may_be_the_number),
		cmocka_unit_test(long_arguments_are_cut),
		cmocka_unit_test(ids_are_noted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
