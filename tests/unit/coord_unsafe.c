/* SPDX-License-Identifier: MIT */
/* A mount of a backing that is not fit for several nodes says so, and works. */
#include "tests/unit/mnt.h"

#include "engine/save/units.h"
#include "tests/backing/faults.h"

static void it_is_told(void **state)
{
	struct mnt m;
	struct faults *f;
	struct error e;
	char path[PATH_MAX];
	json_t *told;

	(void)state;
	mnt_open(&m, scratch_dir(path), SMALL_CACHE);
	f = faults_attach(&m.en.backing);
	faults_add(f, &(struct fault){.calls = CALL_LINK, .err = EOPNOTSUPP});
	assert_int_equal(engine_meet(&m.en, "n", path, NULL, NULL, &e), 0);
	told = engine_coord(&m.en);
	assert_string_equal(json_string_value(json_object_get(told, "state")), "unsafe");
	assert_string_equal(json_string_value(json_object_get(told, "lease")), "held");
	assert_contains(json_string_value(json_object_get(told, "why")), "no hard links");
	json_decref(told);
	mnt_start(&m);
	assert_int_equal(save(&m, "file", 1, 5000, false), 0);
	faults_detach(f);
	mnt_close(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
