/* SPDX-License-Identifier: MIT */
/* Where there is no CUDA driver, or not a whole one, that is said; errors have texts without it. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <string.h>

#include "client/cuda_driver.h"

static void a_missing_library_is_named(void **state)
{
	char why[CUDA_DRIVER_WHY_MAX];
	struct cuda_driver driver;

	(void)state;
	assert_int_equal(cuda_driver_load(&driver, "libnothing.so.7", why), -ENOENT);
	assert_non_null(strstr(why, "libnothing.so.7 cannot be loaded: "));
}

static void a_missing_function_is_named(void **state)
{
	char why[CUDA_DRIVER_WHY_MAX];
	struct cuda_driver driver;

	(void)state;
	assert_int_equal(cuda_driver_load(&driver, "libm.so.6", why), -ENOSYS);
	assert_string_equal(why, "libm.so.6 has no function cuInit");
}

static void either_there_is_a_driver_or_a_reason(void **state)
{
	(void)state;
	assert_int_equal(cuda_driver() == NULL, cuda_driver_missing()[0] != '\0');
	assert_ptr_equal(cuda_driver(), cuda_driver());
}

static CUresult name_two(CUresult error, const char **name)
{
	*name = error == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : NULL;
	return error == 2 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void errors_have_texts(void **state)
{
	struct cuda_driver driver = {.GetErrorName = NULL};
	char text[40], narrow[5];

	(void)state;
	assert_string_equal(cuda_error_text(NULL, 2, text, sizeof(text)), "CUDA error 2");
	assert_string_equal(cuda_error_text(&driver, 2, text, sizeof(text)), "CUDA error 2");
	driver.GetErrorName = name_two;
	assert_string_equal(cuda_error_text(&driver, 2, text, sizeof(text)),
			    "CUDA_ERROR_OUT_OF_MEMORY (2)");
	assert_string_equal(cuda_error_text(&driver, 3, text, sizeof(text)), "CUDA error 3");
	assert_string_equal(cuda_error_text(&driver, 2, narrow, sizeof(narrow)), "CUDA");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_missing_library_is_named),
		cmocka_unit_test(a_missing_function_is_named),
		cmocka_unit_test(either_there_is_a_driver_or_a_reason),
		cmocka_unit_test(errors_have_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
