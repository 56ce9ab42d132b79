/* SPDX-License-Identifier: MIT */
/* Rules: what the built-in ones claim and leave alone, every end that they know, words, and errors. */
#include "tests/unit/unit.h"

#include "engine/rule/rule.h"

static struct rules *rules_of(const char *own)
{
	json_t *json = own ? json_loads(own, JSON_REJECT_DUPLICATES, NULL) : NULL;
	struct error e = {0};
	struct rules *rs;
	int err;

	assert_true(!own || json);
	err = rules_create(&rs, json, "test.json", &e);
	if (err)
		fail_msg("%s", e.text);
	json_decref(json);
	return rs;
}

static struct rules *presets;

static int create_presets(void **state)
{
	(void)state;
	presets = rules_of(NULL);
	return 0;
}

static int destroy_presets(void **state)
{
	(void)state;
	rules_destroy(presets);
	return 0;
}

static const char *name_of(const struct rule *r)
{
	return r ? r->name : "none";
}

/* --- which paths are units --- */

/* @arg: the only name that is there. */
static bool is_beside(void *arg, const char *name)
{
	return arg && !strcmp(arg, name);
}

static const struct {
	const char *path, *file, *beside, *rule; /* NULL: none */
} claims[] = {
	{"run/step-100", "__0_0.distcp", NULL, "torchtitan"},
	{"run/step-100", ".metadata.tmp", NULL, "torchtitan"},
	{"out", "__12_3.distcp", NULL, "torch-dcp"},
	{"a/b/c", "__0.metadata.tmp", NULL, "torch-dcp"},
	{"out", ".metadata", NULL, "torch-dcp"},
	{"out", ".metadata.json", NULL, NULL},
	{"out", "__init__.py", NULL, NULL},
	{"out", "model/__0_0.distcp", NULL, NULL}, /* below, not this one */
	{"run/step-100", "notes.txt", NULL, NULL},

	{"global_step100", "mp_rank_00_model_states.pt", NULL, "deepspeed"},
	{"any", "bf16_zero_pp_rank_3_mp_rank_01_optim_states.pt", NULL, "deepspeed"},
	{"any", "layer_03-model_00-model_states.pt", NULL, "deepspeed"},
	{"any", "zero_to_fp32.py", NULL, NULL},
	{"save", "global_step100/mp_rank_00_model_states.pt", NULL, NULL},

	{"iter_0000100", "__0_0.distcp", NULL, "megatron"},
	{"iter_0000100", "common.pt", NULL, "megatron"},
	{"iter_0000100", "mp_rank_00_001/model_optim_rng.pt", NULL, "megatron"},
	{"release", "mp_rank_00/model_optim_rng.pt", NULL, "megatron"},
	{"iter_0000100", "picture.png", NULL, NULL},
	{"release", "README.md", NULL, NULL},
	{"save", "iter_0000100/common.pt", NULL, NULL},

	{"out/checkpoint-500", "config.json", NULL, "hf-trainer"},
	{"out/checkpoint-500", "model-00001-of-00002.safetensors", NULL, "hf-trainer"},
	{"out/checkpoint-500", "rng_state_3.pth", NULL, "hf-trainer"},
	{"out/checkpoint-500", "pytorch_model_fsdp_0/__0_0.distcp", NULL, "hf-trainer"},
	{"out/checkpoint-500", "global_step500/mp_rank_00_model_states.pt", NULL, "hf-trainer"},
	{"out/tmp-checkpoint-500", "config.json", NULL, "hf-trainer"},
	{"out/checkpoint-500", "__0_0.distcp", NULL, "torch-dcp"},
	{"out/checkpoint-500", "frames.npz", NULL, NULL},
	{"out/checkpoint-best", "config.json", NULL, NULL},
	{"out", "checkpoint-500/config.json", NULL, NULL},

	{"out/checkpoints/checkpoint_3", "model.safetensors", NULL, "accelerate"},
	{"step_3", "random_states_1.pkl", NULL, "accelerate"},
	{"epoch_0", "pytorch_model_fsdp_0/__0_0.distcp", NULL, "accelerate"},
	{"step_3", "log.txt", NULL, NULL},

	{"epoch=1-step=2.ckpt", "__0_0.distcp", NULL, "lightning"},
	{"last.ckpt", "checkpoint/mp_rank_00_model_states.pt", NULL, "lightning"},
	{"last.ckpt", "notes.txt", NULL, NULL},

	{"step=2", "weights/__0_0.distcp", "step=2-unfinished", "nemo"},
	{"step=2.ckpt", "weights/.metadata", "step=2-unfinished", "nemo"},
	{"step=2-EMA", "x", "step=2-unfinished", "nemo"},
	{"step=2-EMA.ckpt", "x", "step=2-unfinished", "nemo"},
	{"results", "step=2/weights/__0_0.distcp", "step=2-unfinished", NULL},

	{"3.orbax-checkpoint-tmp-17", "anything", NULL, "orbax"},
	{"3.orbax-checkpoint-tmp", "default/d/1", NULL, "orbax"},
	{"3", "default/manifest.ocdbt", NULL, "orbax-in-place"},
	{"3", "_CHECKPOINT_METADATA", NULL, "orbax-in-place"},
	{"run", "3/default/manifest.ocdbt", NULL, NULL},

	{"llama", "model-00001-of-00004.safetensors", NULL, "sharded-export"},
	{"llama", "pytorch_model-00001-of-00004.bin", NULL, "sharded-export"},
	{"llama", "sharded/shard-00001-model-00001-of-00004.safetensors", NULL, "sharded-export"},
	{"llama", "model.safetensors.index.json", NULL, "sharded-export"},
	{"llama", "model.safetensors", NULL, NULL},
	{"data", "train-00000-of-00010.parquet", NULL, NULL},
	{"data", "train-00000-of-00010.bin", NULL, NULL},
	{"data", "part.tfrecord-00000-of-00010", NULL, NULL},
	{"tf", "ckpt-1.data-00000-of-00001", NULL, NULL},

	/* Under the names that rsync gives them until they are whole. */
	{"out", ".metadata.Ab3dEf", NULL, "torch-dcp"},
	{"out", ".__0_0.distcp.Ab3dEf", NULL, "torch-dcp"},
	{"out/checkpoint-500", "global_step500/.a_model_states.pt.Ab3dEf", NULL, "hf-trainer"},
	{"out", ".notes.txt.Ab3dEf", NULL, NULL},
	{"out", ".metadata.Ab3d-f", NULL, NULL},

	{"runs", "events.out.tfevents.1", NULL, NULL},
	{"data", "train.bin", NULL, NULL},
	{"checkpoints", "model.bin", NULL, NULL},
	{"checkpoints", "epoch_3.pt", NULL, NULL},
	{"wandb", "run-1/files/config.yaml", NULL, NULL},
	{"", "__0_0.distcp", NULL, NULL}, /* the mount itself */
};

static void directories_are_claimed_by_their_files(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(claims) / sizeof(claims[0]); i++) {
		const struct rule *r = rules_claim(presets, claims[i].path, claims[i].file,
						   is_beside, (void *)claims[i].beside);
		const char *want = claims[i].rule ? claims[i].rule : "none";

		if (strcmp(name_of(r), want))
			fail_msg("%s/%s is of %s, not of %s", claims[i].path, claims[i].file,
				 name_of(r), want);
		assert_true(!r || r->kind == RULE_DIR);
	}
}

static const struct {
	const char *path, *suggested, *single;
} names[] = {
	{"a/step-100", "torchtitan", NULL},
	{"checkpoint-1", "hf-trainer", NULL},
	{"tmp-checkpoint-1", "hf-trainer", NULL},
	{"checkpoint_1", "accelerate", NULL},
	{"iter_0000001", "megatron", NULL},
	{"3.orbax-checkpoint-tmp-1", "orbax", NULL},
	{"a.ckpt", "lightning", "single-file"},
	{"a/b/model.pt", NULL, "single-file"},
	{"model.pth", NULL, "single-file"},
	{"m.safetensors", NULL, "single-file"},
	{"m.keras", NULL, "single-file"},
	{"m.keras.tmp", NULL, "single-file"},
	{".hidden.pt", NULL, "single-file"},
	{".tmpaZ09xx", NULL, "single-file"},
	{".tmpaZ09x", NULL, NULL},
	{".tmpaZ09x-", NULL, NULL},
	{".pt", NULL, NULL},
	{"model.bin", NULL, "hugging-face"},
	{"pytorch_model.bin", NULL, "hugging-face"},
	{"adapter_model.bin", NULL, "hugging-face"},
	{"random_states_0.pkl", NULL, "hugging-face"},
	{"data.bin", NULL, NULL},
	{"train.pkl", NULL, NULL},
	{"tmp_step-10", "torch-checkpointing", NULL},
	{"tmp_7", NULL, NULL},
	{"tmp_ckpt", NULL, NULL},
	{"tmp_ckpt-200", "torch-checkpointing", NULL},
	{"tmp_output", NULL, NULL},
	{"model.pt.bak", NULL, NULL},
	{"tf/ckpt-1.index", NULL, "tensorflow"},
	{"tf/ckpt-1.data-00000-of-00001", NULL, "tensorflow"},
	{"tf/ckpt-1_temp/part-00000-of-00001.index", NULL, "tensorflow"},
	{"tf/ckpt-1.index.tempstate123", NULL, "tensorflow"},
	{"tf/checkpoint", NULL, NULL},
	{"runs", NULL, NULL},
	{"data", NULL, NULL},
	{"checkpoints", NULL, NULL},
	{"checkpoint", NULL, NULL},
	{"step", NULL, NULL},
	{"step-last", NULL, NULL},
	{"checkpoint-1/inner", NULL, NULL},
};

static void names_alone_suggest(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *suggested = name_of(rules_suggest(presets, names[i].path));
		const char *single = name_of(rules_single(presets, names[i].path));

		if (strcmp(suggested, names[i].suggested ? names[i].suggested : "none"))
			fail_msg("%s suggests %s", names[i].path, suggested);
		if (strcmp(single, names[i].single ? names[i].single : "none"))
			fail_msg("%s is a file of %s", names[i].path, single);
	}
}

static void temp_names_are_known(void **state)
{
	const struct rule *orbax = rules_find(presets, "orbax");
	const struct rule *hf = rules_find(presets, "hf-trainer");
	const struct rule *file = rules_find(presets, "single-file");
	const struct rule *tf = rules_find(presets, "tensorflow");

	(void)state;
	assert_true(rule_is_temp(orbax, "3.orbax-checkpoint-tmp-17"));
	assert_false(rule_is_temp(orbax, "3"));
	assert_true(rule_is_temp(hf, "tmp-checkpoint-3"));
	assert_false(rule_is_temp(hf, "checkpoint-3"));
	assert_true(rule_is_temp(file, "a.pt.tmp"));
	assert_true(rule_is_temp(file, ".tmp123456"));
	assert_false(rule_is_temp(file, "a.pt"));
	assert_true(rule_is_temp(tf, "part-00000-of-00001.index"));
	assert_true(rule_is_temp(tf, "part-00000-of-00001.data-00000-of-00001"));
	assert_false(rule_is_temp(tf, "ckpt-1.index"));
	assert_false(rule_is_temp(rules_find(presets, "torch-dcp"), "out.tmp"));
	assert_null(rules_find(presets, "no-such-rule"));
}

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

/* --- when they are done --- */

static const char *const words[NR_EVIDENCE_KINDS] = {
	"close",	"rename",   "unlink", "every rank", "file",  "all closed",
	"next sibling", "exited 0", "quiet",  "lone",	    "asked",
};

/* @arg: what holds, with " + " between. */
static bool is_told(void *arg, const struct evidence *ev)
{
	char want[300], text[2048];

	snprintf(want, sizeof(want), " + %s%s%s + ", words[ev->kind], ev->pattern ? " " : "",
		 ev->pattern ? ev->pattern : "");
	snprintf(text, sizeof(text), " + %s + ", (const char *)arg);
	return strstr(text, want) != NULL;
}

static const struct {
	const char *rule, *holds, *done; /* NULL: the same as holds; "": not */
} ends[] = {
	{"torch-dcp", "rename .metadata", NULL},
	{"torch-dcp", "all closed + quiet + next sibling + exited 0", ""},
	{"torch-dcp", "every rank __{rank}.metadata", NULL},
	{"torch-dcp", "every rank __{rank}.metadata + lone", ""},
	{"torchtitan", "rename .metadata", NULL},
	{"deepspeed", "close ../latest", ""},
	{"deepspeed", "close ../latest + all closed + quiet", ""},
	{"deepspeed", "close ../latest + every rank *optim_states.pt", NULL},
	{"deepspeed", "close ../latest + every rank *optim_states.pt + lone", ""},
	{"deepspeed", "close ../latest + every rank *optim_states.pt + lone + all closed", ""},
	{"deepspeed", "close ../latest + every rank *optim_states.pt + lone + all closed + quiet",
	 "close ../latest + every rank *optim_states.pt"},
	{"deepspeed", "close ../latest + next sibling", NULL},
	{"deepspeed", "close ../latest + exited 0", NULL},
	{"deepspeed", "next sibling", ""},
	{"megatron", "close ../latest_checkpointed_iteration.txt", NULL},
	{"megatron", "rename .metadata + all closed + quiet", ""},
	{"hf-trainer", "close trainer_state.json", ""},
	{"hf-trainer", "close trainer_state.json + every rank rng_state_{rank}.pth", NULL},
	{"hf-trainer", "close trainer_state.json + next sibling", NULL},
	{"hf-trainer", "close trainer_state.json + exited 0", NULL},
	{"hf-trainer", "close trainer_state.json + all closed + quiet", ""},
	{"hf-trainer", "close trainer_state.json + lone + all closed", ""},
	{"hf-trainer", "close trainer_state.json + all closed + quiet + lone", NULL},
	{"hf-trainer", "every rank rng_state_{rank}.pth + next sibling + exited 0", ""},
	{"hf-trainer", "every rank random_states_{rank}.pkl + quiet", NULL},
	{"hf-trainer", "every rank random_states_{rank}.pkl + next sibling", NULL},
	{"hf-trainer", "file random_states_0.pkl + next sibling", ""},
	{"hf-trainer", "file random_states_0.pkl + next sibling + lone", NULL},
	{"hf-trainer", "file random_states_0.pkl + exited 0", ""},
	{"hf-trainer", "every rank random_states_{rank}.pkl + exited 0", NULL},
	{"hf-trainer", "file random_states_0.pkl + exited 0 + lone", NULL},
	{"accelerate", "every rank random_states_{rank}.pkl", ""},
	{"accelerate", "every rank random_states_{rank}.pkl + quiet", NULL},
	{"accelerate", "every rank random_states_{rank}.pkl + quiet + lone", ""},
	{"accelerate", "next sibling + exited 0", ""},
	{"accelerate", "every rank random_states_{rank}.pkl + next sibling", NULL},
	{"accelerate", "file random_states_0.pkl + next sibling", ""},
	{"accelerate", "file random_states_0.pkl + next sibling + lone", NULL},
	{"accelerate", "file random_states_0.pkl + exited 0", ""},
	{"accelerate", "every rank random_states_{rank}.pkl + exited 0", NULL},
	{"accelerate", "file random_states_0.pkl + exited 0 + lone", NULL},
	{"lightning", "close meta.pt", NULL},
	{"lightning", "rename meta.pt", NULL},
	{"lightning", "close latest", ""},
	{"lightning", "close latest + every rank checkpoint/*optim_states.pt", NULL},
	{"lightning", "close latest + next sibling", NULL},
	{"lightning", "close latest + exited 0", NULL},
	{"lightning", "rename .metadata + quiet", ""},
	{"nemo", "unlink ../{name}-unfinished", NULL},
	{"nemo", "unlink ../{name%.ckpt}-unfinished", NULL},
	{"nemo", "unlink ../{name%-EMA}-unfinished", NULL},
	{"nemo", "unlink ../{name%-EMA.ckpt}-unfinished", NULL},
	{"nemo", "all closed + quiet", ""},
	{"orbax", "rename .", NULL},
	{"orbax", "close commit_success.txt", NULL},
	{"orbax", "all closed + quiet", ""},
	{"orbax-in-place", "close commit_success.txt", NULL},
	{"sharded-export", "close *.index.json", ""},
	{"sharded-export", "close *.index.json + all closed", NULL},
	{"single-file", "all closed", NULL},
	{"single-file", "quiet + exited 0", ""},
	{"tensorflow", "all closed", NULL},
	/* Of every rule, whatever else it says. */
	{"torch-dcp", "asked", NULL},
	{"torch-dcp", "all closed + exited 0 + quiet", ""},
	{"torch-dcp", "all closed + exited 0 + quiet + lone", NULL},
	{"hf-trainer", "all closed + exited 0 + quiet + lone", NULL},
};

static void ends_are_those_of_the_frameworks(void **state)
{
	char done[RULE_WORDS_MAX], missing[RULE_WORDS_MAX];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		const struct rule *r = rules_find(presets, ends[i].rule);
		const char *want = ends[i].done ? ends[i].done : ends[i].holds;
		int alternative;

		assert_non_null(r);
		alternative = rule_ended(r, is_told, (void *)ends[i].holds);
		done[0] = '\0';
		if (alternative >= 0)
			rule_evidence(r, alternative, done, sizeof(done));
		if (strcmp(done, want))
			fail_msg("%s with %s: '%s', not '%s'", ends[i].rule, ends[i].holds, done,
				 want);
		rule_missing(r, is_told, (void *)ends[i].holds, missing, sizeof(missing));
		assert_int_equal(!missing[0], alternative >= 0);
	}
}

static bool is_in_mask(void *arg, const struct evidence *ev)
{
	const struct rule *r = ((const void **)arg)[0];
	uint64_t held = *((const uint64_t **)arg)[1];

	return held >> (ev - r->evidence) & 1;
}

/* Whatever the rule: all of an alternative is enough, and nothing of it can be left out. */
static void every_piece_counts(void **state)
{
	const char *last = "";
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		const struct rule *r = rules_find(presets, ends[i].rule);
		unsigned a, bit;

		if (!strcmp(last, r->name))
			continue;
		last = r->name;
		for (a = 0; a < r->nr_alternatives; a++) {
			uint64_t held = r->alternatives[a];
			const void *arg[] = {r, &held};

			assert_true(rule_ended(r, is_in_mask, arg) >= 0);
			for (bit = 0; bit < r->nr_evidence; bit++) {
				held = r->alternatives[a] & ~(1ull << bit);
				if (held != r->alternatives[a])
					assert_true(rule_ended(r, is_in_mask, arg) != (int)a);
			}
		}
	}
}

static const char *missing_of(const char *rule, const char *holds)
{
	static char buf[RULE_WORDS_MAX];

	rule_missing(rules_find(presets, rule), is_told, (void *)holds, buf, sizeof(buf));
	return buf;
}

static void what_is_missing_is_said(void **state)
{
	char small[12];

	(void)state;
	assert_string_equal(missing_of("torch-dcp", ""),
			    "the rename to .metadata; or __N.metadata of every rank; or "
			    "`ckptfs commit`");
	/* The nearest first; none that needs all of another and more. */
	assert_string_equal(missing_of("deepspeed", "close ../latest + all closed"),
			    "*optim_states.pt of every rank; or the next checkpoint beside it; or "
			    "the exit of every writer with status 0; or `ckptfs commit`");
	assert_string_equal(
		missing_of("accelerate", "all closed"),
		"random_states_N.pkl of every rank and a while without writes "
		"(quiet_s); or random_states_N.pkl of every rank and the next "
		"checkpoint beside it; or random_states_N.pkl of every rank and the exit of "
		"every writer with status 0; or `ckptfs commit`");
	assert_string_equal(
		missing_of("sharded-export", "lone"),
		"the close of *.index.json and the close of every file; or the close of "
		"every file and the exit of every writer with status 0 and a while "
		"without writes (quiet_s); or `ckptfs commit`");
	/* In a world of one the files are there, but there may come more. */
	assert_contains(missing_of("deepspeed", "lone + close ../latest + all closed + "
						"every rank *optim_states.pt"),
			"a while without writes (quiet_s); or the next");
	assert_contains(missing_of("orbax", ""), "the rename to its final name");
	assert_contains(missing_of("nemo", ""), "the removal of {name}-unfinished beside it");
	assert_contains(missing_of("hf-trainer", ""),
			"random_states_N.pkl of every rank and the next");
	assert_string_equal(missing_of("torch-dcp", "asked"), "");
	rule_missing(rules_find(presets, "torch-dcp"), is_told, (void *)"", small, sizeof(small));
	assert_string_equal(small, "the rename ");
	rule_evidence(rules_find(presets, "torch-dcp"), 0, small, sizeof(small));
	assert_string_equal(small, "rename .met");
}

static const struct wait {
	const char *rule, *holds, *begun; /* @begun: of some ranks only */
	enum rule_wait waits;
} waits[] = {
	{"torch-dcp", "all closed", "", RULE_WAITS},
	{"torch-dcp", "all closed + exited 0", "", RULE_WAITS},
	{"torch-dcp", "all closed", "every rank __{rank}.metadata", RULE_WAITS_FOR_PARTS},
	{"torch-dcp", "exited 0", "every rank __{rank}.metadata", RULE_WAITS_FOR_PARTS},
	{"deepspeed", "all closed", "every rank *optim_states.pt", RULE_WAITS},
	{"deepspeed", "close ../latest", "every rank *optim_states.pt", RULE_WAITS_FOR_JOB},
	{"hf-trainer", "close trainer_state.json", "", RULE_WAITS_FOR_JOB},
	{"hf-trainer", "close trainer_state.json + lone", "", RULE_WAITS_FOR_JOB},
	{"hf-trainer", "close trainer_state.json + lone + all closed", "", RULE_WAITS_FOR_TIME},
	{"hf-trainer", "", "every rank rng_state_{rank}.pth", RULE_WAITS},
	{"accelerate", "all closed", "", RULE_WAITS},
	{"accelerate", "", "every rank random_states_{rank}.pkl", RULE_WAITS_FOR_PARTS},
	{"accelerate", "every rank random_states_{rank}.pkl", "every rank random_states_{rank}.pkl",
	 RULE_WAITS_FOR_TIME},
	{"sharded-export", "close *.index.json", "", RULE_WAITS_FOR_PARTS},
	{"sharded-export", "all closed", "", RULE_WAITS},
};

static bool wait_holds(void *wait, const struct evidence *ev)
{
	return is_told((void *)((const struct wait *)wait)->holds, ev);
}

static bool wait_begun(void *wait, const struct evidence *ev)
{
	return wait_holds(wait, ev) || is_told((void *)((const struct wait *)wait)->begun, ev);
}

static void who_is_waited_for(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		enum rule_wait got = rule_waits(rules_find(presets, waits[i].rule), wait_holds,
						wait_begun, (void *)&waits[i]);

		if (got != waits[i].waits)
			fail_msg("%s with %s, %s: %d, not %d", waits[i].rule, waits[i].holds,
				 waits[i].begun, (int)got, (int)waits[i].waits);
	}
}

/* --- own rules --- */

static void own_rules_come_first(void **state)
{
	struct rules *rs = rules_of(
		"[{\"name\": \"mine\", \"match\": [\"runs/*/save-*\"], \"temp\": [\"*.partial\"],"
		"  \"pointers\": [{\"name\": \"newest\", \"names\": \"save-{content:03}.x\"}],"
		"  \"done\": [[{\"close\": \"index/done\"}, \"all_closed\"]]},"
		" {\"name\": \"dcp-of-mine\", \"files\": [\"__0_0.distcp\"],"
		"  \"done\": [[\"asked\"]]},"
		" {\"name\": \"single-file\", \"kind\": \"file\", \"match\": [\"*.weights\"],"
		"  \"done\": [[\"all_closed\"]]}]");
	char text[RULE_WORDS_MAX], out[NAME_MAX + 1];
	const struct rule *r;

	(void)state;
	r = rules_suggest(rs, "runs/a/save-1");
	assert_string_equal(name_of(r), "mine");
	rule_evidence(r, 0, text, sizeof(text));
	assert_string_equal(text, "close index/done + all closed");
	assert_ptr_equal(rules_claim(rs, "runs/a/save-1", "x/y", is_beside, NULL), r);
	assert_ptr_equal(rules_claim(rs, "any/save.partial", "x/y", is_beside, NULL), r);
	assert_null(rules_suggest(rs, "runs/a/b/save-1"));
	assert_null(rules_suggest(rs, "save-1"));
	assert_string_equal(name_of(rules_claim(rs, "a", "__0_0.distcp", is_beside, NULL)),
			    "dcp-of-mine");
	assert_string_equal(name_of(rules_claim(rs, "a", "__0_1.distcp", is_beside, NULL)),
			    "torch-dcp");
	/* The own one took the place of the built-in one. */
	assert_non_null(rules_single(rs, "a.weights"));
	assert_null(rules_single(rs, "a.pt"));
	assert_true(rules_pointer_names(rs, "newest", "7\n", 2, out));
	assert_string_equal(out, "save-007.x");
	assert_false(rules_pointer_names(rs, "newest", "seven", 5, out));
	assert_false(rules_pointer_names(rs, "newest", "1234567890123456789", 19, out));
	rules_destroy(rs);
	rules_destroy(NULL);
}

#define RULE(keys) "[{\"name\": \"mine\", " keys "}]"
#define DONE	   "\"done\": [[\"quiet\"]]"
#define MATCH	   "\"match\": [\"m\"], "

static const struct {
	const char *own, *says;
} broken[] = {
	{"{}", "test.json: key rules is not valid: expected a list"},
	{"[1]", "a list of objects"},
	{"[{}]", "rule 1 of the list: key name"},
	{"[{\"name\": \"a b\"}]", "rule 1 of the list: key name"},
	{"[{\"name\": \"\"}]", "letters, digits"},
	{"[{\"name\": 7}]", "letters, digits"},
	{RULE(MATCH DONE ", \"mach\": []"), "rule 'mine' has the unknown key 'mach'; did you mean "
					    "'match'?"},
	{"[{\"nam\": \"x\"}]", "rule 1 of the list has the unknown key 'nam'; did you mean 'name'"},
	{RULE(MATCH DONE ", \"kind\": \"tree\""), "key kind"},
	{RULE(MATCH DONE ", \"kind\": 1"), "key kind"},
	{RULE(DONE), "key match is not valid: expected at least one of"},
	{RULE("\"temp\": [\"t\"], " DONE), "key match is not valid: expected at least one of"},
	{RULE("\"files\": [\"m\"], \"kind\": \"file\", " DONE), "key files"},
	{RULE("\"beside\": [\"m\"], \"kind\": \"file\", " DONE), "key beside"},
	{RULE("\"temp\": [\"m\"], \"kind\": \"file\", " DONE), "key match"},
	{RULE("\"match\": \"m\", " DONE), "key match"},
	{RULE("\"match\": [], " DONE), "key match"},
	{RULE("\"match\": [1], " DONE), "key match"},
	{RULE("\"match\": [\"\"], " DONE), "key match"},
	{RULE("\"match\": [\"/m\"], " DONE), "key match"},
	{RULE("\"match\": [\"m/\"], " DONE), "key match"},
	{RULE("\"match\": [\"m//n\"], " DONE), "key match"},
	{RULE("\"match\": [\"../m\"], " DONE), "key match"},
	{RULE("\"match\": [\"m/../n\"], " DONE), "key match"},
	{RULE("\"match\": [\"m/.\"], " DONE), "key match"},
	{RULE("\"match\": [\".\"], " DONE), "key match"},
	{RULE("\"match\": [\"m\\u0001\"], " DONE), "key match"},
	{RULE("\"match\": [\"{name}\"], " DONE), "key match"},
	{RULE("\"match\": [\"m}\"], " DONE), "key match"},
	{RULE("\"match\": [\"{m\"], " DONE), "key match"},
	{RULE("\"temp\": [\"a/b\"], " MATCH DONE), "key temp"},
	{RULE("\"beside\": [\"*\"], " MATCH DONE), "key beside"},
	{RULE("\"beside\": [\"{step}\"], " MATCH DONE), "key beside"},
	{RULE("\"beside\": [\"{name%}\"], " MATCH DONE), "key beside"},
	{RULE("\"beside\": [\"{name%{name}}\"], " MATCH DONE), "key beside"},
	{RULE("\"beside\": [\"../{name}\"], " MATCH DONE), "key beside"},
	{RULE("\"match\": [\"m\"]"), "key done"},
	{RULE(MATCH "\"done\": []"), "key done"},
	{RULE(MATCH "\"done\": [[]]"), "key done"},
	{RULE(MATCH "\"done\": [\"quiet\"]"), "key done"},
	{RULE(MATCH "\"done\": [[7]]"), "key done"},
	{RULE(MATCH "\"done\": [[{}]]"), "key done"},
	{RULE(MATCH "\"done\": [[{\"close\": \"a\", \"rename\": \"b\"}]]"), "key done"},
	{RULE(MATCH "\"done\": [[\"al_closed\"]]"), "rule 'mine': unknown evidence 'al_closed' in "
						    "done; did you mean 'all_closed'?"},
	{RULE(MATCH "\"done\": [[{\"clos\": \"a\"}]]"), "did you mean 'close'?"},
	{RULE(MATCH "\"done\": [[\"close\"]]"), "{\"close\": PATTERN}"},
	{RULE(MATCH "\"done\": [[{\"quiet\": \"a\"}]]"), "\"quiet\" without a pattern"},
	{RULE(MATCH "\"done\": [[{\"close\": \".\"}]]"), "key done"},
	{RULE(MATCH "\"done\": [[{\"close\": \"..\"}]]"), "key done"},
	{RULE(MATCH "\"done\": [[{\"close\": \"../\"}]]"), "key done"},
	{RULE(MATCH "\"done\": [[{\"close\": \"../../a\"}]]"), "key done"},
	{RULE(MATCH "\"done\": [[{\"close\": \"a{rank}\"}]]"), "key done"},
	{RULE(MATCH "\"done\": [[{\"every_rank\": \"../{rank}\"}]]"), "key done"},
	{RULE(MATCH "\"done\": [[{\"close\": 7}]]"), "key done"},
	{RULE(MATCH DONE ", \"pointers\": []"), "key pointers"},
	{RULE(MATCH DONE ", \"pointers\": [7]"), "key pointers"},
	{RULE(MATCH DONE ", \"pointers\": [{\"name\": \"l\"}]"), "key pointers"},
	{RULE(MATCH DONE ", \"pointers\": [{\"name\": \"l*\", \"names\": \"{content}\"}]"),
	 "key pointers"},
	{RULE(MATCH DONE ", \"pointers\": [{\"name\": \"l\", \"names\": \"x\"}]"), "key pointers"},
	{RULE(MATCH DONE ", \"pointers\": [{\"name\": \"l\", \"names\": \"{content}{content}\"}]"),
	 "key pointers"},
	{RULE(MATCH DONE ", \"pointers\": [{\"name\": \"l\", \"names\": \"{content:7}\"}]"),
	 "key pointers"},
	{RULE(MATCH DONE ", \"pointers\": [{\"name\": \"l\", \"names\": \"{content:019}\"}]"),
	 "key pointers"},
	{RULE(MATCH DONE ", \"pointers\": [{\"name\": \"l\", \"names\": \"{content:0+7}\"}]"),
	 "key pointers"},
	{RULE(MATCH DONE ", \"pointers\": [{\"name\": \"l\", \"names\": \"{content:0}\"}]"),
	 "key pointers"},
	{RULE(MATCH DONE ", \"pointers\": [{\"name\": \"l\", \"names\": \"{content}\", "
			 "\"after\": 7}]"),
	 "key pointers"},
	{RULE(MATCH DONE ", \"pointers\": [{\"name\": \"l\", \"name_\": \"x\"}]"),
	 "unknown key 'name_'; did you mean 'name'?"},
	{"[{\"name\": \"x\", \"match\": [\"m\"], " DONE
	 "}, {\"name\": \"x\", \"match\": [\"n\"], " DONE "}]",
	 "two rules have the name 'x'"},
};

static void refused(json_t *own, const char *says)
{
	struct error e = {0};
	struct rules *rs = presets;
	int err;

	assert_non_null(own);
	err = rules_create(&rs, own, "test.json", &e);
	json_decref(own);
	if (err != -EINVAL || rs)
		fail_msg("rules for '%s' were taken", says);
	assert_int_equal(e.err, EINVAL);
	assert_contains(e.text, "test.json: ");
	assert_contains(e.text, says);
}

static void broken_rules_are_told(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(broken) / sizeof(broken[0]); i++)
		refused(json_loads(broken[i].own, 0, NULL), broken[i].says);
}

static json_t *rule_with(const char *key, json_t *value)
{
	json_t *own = json_loads(RULE(MATCH DONE), 0, NULL);

	assert_int_equal(json_object_set_new(json_array_get(own, 0), key, value), 0);
	return own;
}

static json_t *many(json_t *value, size_t nr)
{
	json_t *list = json_array();

	while (nr--)
		assert_int_equal(json_array_append(list, value), 0);
	json_decref(value);
	return list;
}

static void accepted(json_t *own)
{
	struct error e = {0};
	struct rules *rs;

	assert_int_equal(rules_create(&rs, own, "test.json", &e), 0);
	rules_destroy(rs);
	json_decref(own);
}

static void everything_has_a_limit(void **state)
{
	json_t *rule = json_loads(RULE(MATCH DONE), 0, NULL), *list = json_array(), *done;
	char text[257], name[66];
	size_t i, j;

	(void)state;
	for (i = 0; i < RULES_MAX + 1; i++) {
		json_t *copy = json_deep_copy(json_array_get(rule, 0));

		if (i == RULES_MAX)
			accepted(json_deep_copy(list));
		snprintf(name, sizeof(name), "r%zu", i);
		json_object_set_new(copy, "name", json_string(name));
		json_array_append_new(list, copy);
	}
	refused(list, "at most 64 rules");
	json_decref(rule);

	memset(text, 't', sizeof(text));
	text[256] = '\0';
	refused(rule_with("match", json_pack("[s]", text)), "key match");
	accepted(rule_with("match", json_pack("[s]", text + 1)));
	memset(name, 'n', sizeof(name));
	name[65] = '\0';
	refused(rule_with("name", json_string(name)), "rule 1 of the list");
	accepted(rule_with("name", json_string(name + 1)));

	accepted(rule_with("files", many(json_string("f"), 32)));
	refused(rule_with("files", many(json_string("f"), 33)), "key files");
	accepted(rule_with("done", many(many(json_string("quiet"), 8), 14)));
	refused(rule_with("done", many(many(json_string("quiet"), 1), 15)), "key done");
	refused(rule_with("done", many(many(json_string("quiet"), 9), 1)), "key done");

	done = json_array();
	for (i = 0; i < 8; i++) {
		json_t *alternative = json_array();

		for (j = 0; j < 8; j++) {
			snprintf(name, sizeof(name), "f%zu%zu", i, j);
			json_array_append_new(alternative, json_pack("{s:s}", "close", name));
		}
		json_array_append_new(done, alternative);
	}
	refused(rule_with("done", done), "59 different ones");
}

static void copies_are_known(void **state)
{
	(void)state;
	assert_true(rules_is_copy(".model.pt.Ab3dEf", "model.pt"));
	assert_true(rules_is_copy(".metadata.Ab3dEf", ".metadata")); /* its own dot is enough */
	assert_true(rules_is_copy(".metadata.Ab3dEf", "metadata"));
	assert_false(rules_is_copy("metadata.Ab3dEf", "metadata"));
	assert_false(rules_is_copy(".metadata.Ab3dE", ".metadata"));
	assert_false(rules_is_copy(".metadata.tmp", ".metadata"));
	assert_false(rules_is_copy("..Ab3dEf", ""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(directories_are_claimed_by_their_files),
		cmocka_unit_test(names_alone_suggest),
		cmocka_unit_test(temp_names_are_known),
		cmocka_unit_test(copies_are_known),
		cmocka_unit_test(pointers_name_units),
		cmocka_unit_test(links_name_their_target),
		cmocka_unit_test(patterns_match_paths),
		cmocka_unit_test(data_is_what_every_save_writes),
		cmocka_unit_test(operations_are_seen),
		cmocka_unit_test(ends_are_those_of_the_frameworks),
		cmocka_unit_test(every_piece_counts),
		cmocka_unit_test(what_is_missing_is_said),
		cmocka_unit_test(who_is_waited_for),
		cmocka_unit_test(own_rules_come_first),
		cmocka_unit_test(broken_rules_are_told),
		cmocka_unit_test(everything_has_a_limit),
	};

	return cmocka_run_group_tests(tests, create_presets, destroy_presets);
}
