/* SPDX-License-Identifier: MIT */
/* Which paths the built-in rules claim as units, and which they leave alone. */
#include "tests/unit/rule.h"

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
	};

	return cmocka_run_group_tests(tests, create_presets, destroy_presets);
}
