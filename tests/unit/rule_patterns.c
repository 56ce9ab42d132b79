/* SPDX-License-Identifier: MIT */
/* Pointers and links name units; patterns of evidence match paths and operations. */
#include "tests/unit/rule.h"

/* --- pointers --- */

static const struct {
	const char *name, *content, *unit;
} pointers[] = {
	{"latest", "global_step100", "global_step100"},
	{"latest", " global_step100\n", "global_step100"},
	{"latest", "", NULL},
	{"latest", "\n", NULL},
	{"latest", "a/b", NULL},
	{"latest", "a\nb", NULL},
	{"latest", ".", NULL},
	{"latest", "..", NULL},
	{"latest", "/", NULL},
	{"latest_checkpointed_iteration.txt", "100", "iter_0000100"},
	{"latest_checkpointed_iteration.txt", "100\n", "iter_0000100"},
	{"latest_checkpointed_iteration.txt", "12345678", "iter_12345678"},
	{"latest_checkpointed_iteration.txt", "release", "release"},
	{"checkpoint",
	 "model_checkpoint_path: \"ckpt-2\"\nall_model_checkpoint_paths: \"ckpt-1\"\n",
	 "ckpt-2.index"},
	{"checkpoint", "model_checkpoint_path: \"/ckpt/run/ckpt-2\"\n", "ckpt-2.index"},
	{"checkpoint", "model_checkpoint_path: \"sub/ckpt-2\"", NULL},
	{"checkpoint", "model_checkpoint_path: ", NULL},
	{"checkpoint", "weights of some other program", NULL},
	{"newest", "global_step100", NULL},
};

static void pointers_name_units(void **state)
{
	char out[NAME_MAX + 1], longest[NAME_MAX + 2];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(pointers) / sizeof(pointers[0]); i++) {
		bool known = rules_pointer_names(presets, pointers[i].name, pointers[i].content,
						 strlen(pointers[i].content), out);

		if (known != !!pointers[i].unit || (known && strcmp(out, pointers[i].unit)))
			fail_msg("'%s' in %s gave %s", pointers[i].content, pointers[i].name,
				 known ? out : "nothing");
	}
	assert_false(rules_pointer_names(presets, "latest", "a\0b", 3, out));
	memset(longest, 'n', sizeof(longest));
	assert_true(rules_pointer_names(presets, "latest", longest, NAME_MAX, out));
	assert_false(rules_pointer_names(presets, "latest", longest, NAME_MAX + 1, out));
	assert_true(rules_is_pointer(presets, "latest"));
	assert_true(rules_is_pointer(presets, "checkpoint"));
	assert_false(rules_is_pointer(presets, "latest.txt"));
	assert_false(rules_is_pointer(presets, "*"));
}

static void links_name_their_target(void **state)
{
	char out[NAME_MAX + 1];

	(void)state;
	assert_true(rules_link_names("step-100", out));
	assert_string_equal(out, "step-100");
	assert_true(rules_link_names("./step-100/", out));
	assert_string_equal(out, "step-100");
	assert_true(rules_link_names("/ckpt/run/last.ckpt", out));
	assert_string_equal(out, "last.ckpt");
	assert_false(rules_link_names("../other/step-100", out));
	assert_false(rules_link_names("..", out));
	assert_false(rules_link_names("/", out));
}

/* --- patterns of evidence --- */

static const struct {
	const char *pattern, *path;
	int rank; /* -2: does not match */
} matching[] = {
	{"latest", "latest", -1},
	{"latest", "a/latest", -2},
	{"*.json", "a/b.json", -2},
	{"*.json", ".json", -1},
	{".", ".", -1},
	{".", "a", -2},
	{"../latest", "../latest", -1},
	{"../{name}-x", "../u[1]*-x", -1},
	{"../{name}-x", "../u1*-x", -2},
	{"../{name%*}-x", "../u[1]-x", -1},
	{"../{name%.ckpt}-x", "../u[1]*-x", -2},
	{"{name}/{name}.a?", "u[1]*/u[1]*.ab", -1},
	{"rng_state_{rank}.pth", "rng_state_17.pth", 17},
	{"rng_state_{rank}.pth", "rng_state_007.pth", 7},
	{"rng_state_{rank}.pth", "rng_state_.pth", -2},
	{"rng_state_{rank}.pth", "rng_state_1a.pth", -2},
	{"rng_state_{rank}.pth", "sub/rng_state_1.pth", -2},
	{"rng_state_{rank}.pth", "rng_state_1234567890.pth", -2},
	{"s3_r{rank}_of_*", "s3_r5_of_8", 5},
	{"r{rank}/f{rank}.bin", "r3/f3.bin", 3},
	{"r{rank}/f{rank}.bin", "r3/f4.bin", -2},
};

static void patterns_match_paths(void **state)
{
	struct evidence none = {EVIDENCE_QUIET, NULL};
	char name[NAME_MAX + 1], path[NAME_MAX + 4];
	size_t i;
	int rank;

	(void)state;
	for (i = 0; i < sizeof(matching) / sizeof(matching[0]); i++) {
		struct evidence ev = {EVIDENCE_EVERY_RANK, matching[i].pattern};
		bool fits = evidence_matches(&ev, "u[1]*", matching[i].path, &rank);

		if (fits != (matching[i].rank != -2) || (fits && rank != matching[i].rank))
			fail_msg("%s and %s: %d, rank %d", matching[i].pattern, matching[i].path,
				 fits, rank);
	}
	assert_false(evidence_matches(&none, "u", "u", &rank));
	/* The longest name, all of it to be escaped. */
	memset(name, '*', NAME_MAX);
	name[NAME_MAX] = '\0';
	snprintf(path, sizeof(path), "../%s", name);
	assert_true(evidence_matches(&(struct evidence){EVIDENCE_UNLINK, "../{name}"}, name, path,
				     NULL));
	/* Ever longer: there can be no such path. */
	assert_false(evidence_matches(
		&(struct evidence){EVIDENCE_CLOSE, "{name}{name}{name}{name}{name}{name}{name}"
						   "{name}{name}{name}{name}{name}"},
		name, path, NULL));
}

static void data_is_what_every_save_writes(void **state)
{
	static const struct {
		const char *rule, *file;
		bool is;
	} files[] = {
		{"hf-trainer", "model.safetensors", true},
		{"hf-trainer", "rng_state_3.pth", true},
		{"hf-trainer", "global_step5/mp_rank_00_model_states.pt", true},
		{"hf-trainer", "trainer_state.json", false},
		{"hf-trainer", "config.json", false},
		{"sharded-export", "model-00001-of-00002.safetensors", true},
		{"sharded-export", "model.safetensors.index.json", false},
		{"torch-dcp", "__0_0.distcp", true}, /* as its files */
		{"torch-dcp", ".__0_0.distcp.Ab3dEf", true},
		{"torch-dcp", "notes.txt", false},
		{"nemo", "anything", true},
	};
	struct rules *rs = rules_of("[{\"name\": \"mine\", \"files\": [\"*.bin\", \"*.txt\"],"
				    "  \"data\": [\"*.bin\"], \"done\": [[\"quiet\"]]}]");
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (rule_is_data(rules_find(presets, files[i].rule), files[i].file) != files[i].is)
			fail_msg("%s: %s", files[i].rule, files[i].file);
	assert_true(rule_is_data(rules_find(rs, "mine"), "a.bin"));
	assert_false(rule_is_data(rules_find(rs, "mine"), "a.txt"));
	rules_destroy(rs);
}

static void operations_are_seen(void **state)
{
	const struct rule *r = rules_find(presets, "nemo");
	uint64_t seen = rule_seen(r, EVIDENCE_UNLINK, "a.ckpt", "../a-unfinished");

	(void)state;
	assert_int_equal(__builtin_popcountll(seen), 1);
	assert_string_equal(r->evidence[__builtin_ctzll(seen)].pattern,
			    "../{name%.ckpt}-unfinished");
	assert_int_equal(rule_seen(r, EVIDENCE_CLOSE, "a.ckpt", "../a-unfinished"), 0);
	assert_int_equal(rule_seen(r, EVIDENCE_UNLINK, "a.ckpt", "../b-unfinished"), 0);
	assert_int_equal(rule_seen(r, EVIDENCE_ASKED, "a.ckpt", "../a-unfinished"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pointers_name_units),
		cmocka_unit_test(links_name_their_target),
		cmocka_unit_test(patterns_match_paths),
		cmocka_unit_test(data_is_what_every_save_writes),
		cmocka_unit_test(operations_are_seen),
	};

	return cmocka_run_group_tests(tests, create_presets, destroy_presets);
}
