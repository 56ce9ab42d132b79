/* SPDX-License-Identifier: MIT */
/*
 * The built-in rules, with comments, in the form of the config file. The first rule that claims a
 * directory has it. So a framework whose files contain another's comes first: the inside of
 * Lightning's directory looks like plain torch-dcp. A pattern names only files that the framework
 * surely writes, since the end of a directory claimed by mistake might never be seen.
 *
 * "after_all" is no evidence. It says that the framework reaches the evidence beside it only after
 * all ranks are done. So a rank that dies has done its part if that evidence is there (V3 of
 * gen/verdict.h). The word stands where the framework's source has all ranks pass a barrier, or
 * report to one rank, between their last write and the end. The comments name the function, as of
 * DeepSpeed 0.19, Lightning 2.6, Megatron-LM core 0.16, NeMo 3.0 and Orbax 0.12. The word is left
 * out where there is no barrier, or where that depends on the program. Then a death may fail a
 * whole checkpoint, which is the lesser evil.
 */
#include "engine/rule/internal.h"

/* clang-format off */
#define TEXT(...) #__VA_ARGS__
const char presets_json[] = TEXT([

/*
 * Hosts write below a temporary name. After a barrier one host renames the directory. The barrier:
 * _src/checkpointers/checkpointer.py, Checkpointer.save: sync_global_processes
 * ('Checkpointer:save') precedes atomicity.on_commit_callback, which has one host finalize;
 * async_checkpointer.py, _background_wait_for_commit_futures: 'async_write_complete' precedes it.
 */
{"name": "orbax", "match": ["*.orbax-checkpoint-tmp*"], "temp": ["*.orbax-checkpoint-tmp*"],
 "done": [[{"rename": "."}, "after_all"], [{"close": "commit_success.txt"}, "after_all"]]},

/*
 * The same framework, configured without the rename; the same callback ends it. Items are named
 * default or state, or there is only one.
 */
{"name": "orbax-in-place",
 "files": ["_CHECKPOINT_METADATA", "_METADATA", "_sharding", "manifest.ocdbt", "ocdbt.process_*/*",
	   "ocdbt.process_*/d/*", "default/_METADATA", "default/_sharding",
	   "default/manifest.ocdbt", "default/ocdbt.process_*/*", "default/ocdbt.process_*/d/*",
	   "state/_METADATA", "state/_sharding", "state/manifest.ocdbt", "state/ocdbt.process_*/*",
	   "state/ocdbt.process_*/d/*"],
 "done": [[{"close": "commit_success.txt"}, "after_all"]]},

/*
 * The marker exists before the data, and goes when all ranks have passed a barrier:
 * utils/callbacks/nemo_model_checkpoint.py, remove_checkpoint_unfinished_marker, which
 * _save_checkpoint and its finalize callback call with barrier_before.
 */
{"name": "nemo",
 "beside": ["{name}-unfinished", "{name%.ckpt}-unfinished", "{name%-EMA}-unfinished",
	    "{name%-EMA.ckpt}-unfinished"],
 "done": [[{"unlink": "../{name}-unfinished"}, "after_all"],
	  [{"unlink": "../{name%.ckpt}-unfinished"}, "after_all"],
	  [{"unlink": "../{name%-EMA}-unfinished"}, "after_all"],
	  [{"unlink": "../{name%-EMA.ckpt}-unfinished"}, "after_all"]]},

/*
 * A barrier precedes the tracker file, whose text is the iteration or the word release:
 * megatron/training/checkpointing.py, save_checkpoint: "Wait so everyone is done". For an async
 * save core/dist_checkpointing/strategies/async_utils.py, AsyncCaller.sync_all_async_calls, reduces
 * over all ranks whether their writers are done, before iter_finalize_fn writes the file.
 */
{"name": "megatron", "match": ["iter_[0-9]*", "release"],
 "files": ["__[0-9]*_[0-9]*.distcp", ".metadata", ".metadata.tmp", "metadata.json", "common.pt",
	   "*/.zarray", "mp_rank_[0-9]*/model_optim_rng.pt", "mp_rank_[0-9]*/distrib_optim.pt"],
 "pointers": [{"name": "latest_checkpointed_iteration.txt", "names": "iter_{content:07}"},
	      {"name": "latest_checkpointed_iteration.txt", "names": "{content}"}],
 "done": [[{"close": "../latest_checkpointed_iteration.txt"}, "after_all"]]},

/*
 * No barrier precedes trainer_state.json, and none follows. In a world of one the random state has
 * no rank in its name. Programs that use accelerate write into directories of the same names;
 * random_states are theirs. Nothing is after_all: transformers/trainer.py, _save_checkpoint, has no
 * barrier. The next checkpoint begins after the collectives of some training step, which proves
 * little.
 */
{"name": "hf-trainer", "match": ["checkpoint-[0-9]*"], "temp": ["tmp-checkpoint-[0-9]*"],
 "files": ["*.json", "*.safetensors", "pytorch_model*.bin", "adapter_model.bin", "README.md",
	   "training_args.bin", "optimizer.*", "scheduler.*", "scaler.pt", "rng_state*.pth",
	   "global_step[0-9]*/*", "pytorch_model_fsdp_[0-9]*/*", "optimizer_[0-9]*/*",
	   "*/config.json", "random_states_*.pkl"],
 "data": ["*.safetensors", "pytorch_model*.bin", "adapter_model.bin", "optimizer.*", "scheduler.*",
	  "scaler.pt", "rng_state*.pth", "random_states_*.pkl", "global_step[0-9]*/*",
	  "pytorch_model_fsdp_[0-9]*/*", "optimizer_[0-9]*/*"],
 "done": [[{"close": "trainer_state.json"}, {"every_rank": "rng_state_{rank}.pth"}],
	  [{"close": "trainer_state.json"}, "next_sibling"],
	  [{"close": "trainer_state.json"}, "exited_0"],
	  [{"close": "trainer_state.json"}, "lone", "all_closed", "quiet"],
	  [{"every_rank": "random_states_{rank}.pkl"}, "quiet"],
	  [{"every_rank": "random_states_{rank}.pkl"}, "next_sibling"],
	  [{"file": "random_states_0.pkl"}, "lone", "next_sibling"],
	  [{"every_rank": "random_states_{rank}.pkl"}, "exited_0"],
	  [{"file": "random_states_0.pkl"}, "lone", "exited_0"]]},

/*
 * Nothing marks the end, and each rank has another last file. A rank may be killed before it writes
 * anything, or its part may belong to a failed checkpoint of this name. That the writers exit well,
 * or go on, says nothing about such a rank. Nothing is after_all: accelerator.py, save_state, lets
 * each rank write its random_states without waiting.
 */
{"name": "accelerate", "match": ["checkpoint_[0-9]*", "step_[0-9]*", "epoch_[0-9]*"],
 "files": ["model*.safetensors", "pytorch_model*.bin", "optimizer*.bin", "scheduler*.bin",
	   "sampler*.bin", "dl_state_dict*.bin", "scaler.pt", "random_states_*.pkl",
	   "custom_checkpoint_*.pkl", "pytorch_model/*", "pytorch_model_fsdp_[0-9]*/*",
	   "optimizer_[0-9]*/*"],
 "done": [[{"every_rank": "random_states_{rank}.pkl"}, "quiet"],
	  [{"every_rank": "random_states_{rank}.pkl"}, "next_sibling"],
	  [{"file": "random_states_0.pkl"}, "lone", "next_sibling"],
	  [{"every_rank": "random_states_{rank}.pkl"}, "exited_0"],
	  [{"file": "random_states_0.pkl"}, "lone", "exited_0"]]},

/*
 * Sharded: torch-dcp and then meta.pt (renamed if TMPDIR is in the same mount), or DeepSpeed with
 * its latest inside. The last rule claims a *.ckpt that is a file. strategies/fsdp.py and
 * model_parallel.py, save_checkpoint: rank 0 writes meta.pt after _distributed_checkpoint_save,
 * torch-dcp's save, which returns after its gather; strategies/deepspeed.py calls DeepSpeed's own.
 */
{"name": "lightning", "match": ["?*.ckpt"],
 "files": ["__[0-9]*_[0-9]*.distcp", ".metadata", ".metadata.tmp", "meta.pt",
	   "checkpoint/*model_states.pt", "checkpoint/*optim_states.pt", "latest",
	   "zero_to_fp32.py"],
 "done": [[{"close": "meta.pt"}, "after_all"], [{"rename": "meta.pt"}, "after_all"],
	  [{"close": "latest"}, {"every_rank": "checkpoint/*optim_states.pt"}],
	  [{"close": "latest"}, "next_sibling", "after_all"],
	  [{"close": "latest"}, "exited_0"]]},

/*
 * No barrier precedes latest. One follows, so a rank that goes on, or exits well, knows that all
 * have written. File names have no rank in the world, only one among the data-parallel ranks.
 * runtime/engine.py, save_checkpoint: rank 0 writes latest when its own files are done, then all
 * ranks pass dist.barrier(). So any rank that begins the next checkpoint knows that all were done
 * with this one. _commit_decoupled_checkpoint has the same order, and precedes the next save.
 */
{"name": "deepspeed", "files": ["*model_states.pt", "*optim_states.pt"],
 "pointers": [{"name": "latest", "names": "{content}"}],
 "done": [[{"close": "../latest"}, {"every_rank": "*optim_states.pt"}],
	  [{"close": "../latest"}, "next_sibling", "after_all"],
	  [{"close": "../latest"}, "exited_0"]]},

/*
 * All ranks are synchronised before the rename; without collectives each rank has a .metadata.
 * torch/distributed/checkpoint/state_dict_saver.py, _save_state_dict: all_reduce("write", ...) of
 * utils.py, _DistWrapper, gathers what each rank has written, and then the coordinator runs
 * finish_checkpoint; filesystem.py, finish, renames .metadata there. torchtitan
 * (components/checkpoint.py) saves by dcp.save and dcp.async_save.
 *
 * torchtitan has the files and ends of torch-dcp, and its own directory names. By `match` ckptfs
 * knows such a directory at its mkdir, before a file is in it (rules_suggest). A directory of
 * torch-dcp may have any name, so its first file alone tells.
 */
{"name": "torchtitan", "match": ["step-[0-9]*"],
 "files": ["__[0-9]*_[0-9]*.distcp", ".metadata", ".metadata.tmp", "__[0-9]*.metadata",
	   "__[0-9]*.metadata.tmp"],
 "done": [[{"rename": ".metadata"}, "after_all"], [{"every_rank": "__{rank}.metadata"}]]},
{"name": "torch-dcp",
 "files": ["__[0-9]*_[0-9]*.distcp", ".metadata", ".metadata.tmp", "__[0-9]*.metadata",
	   "__[0-9]*.metadata.tmp"],
 "done": [[{"rename": ".metadata"}, "after_all"], [{"every_rank": "__{rank}.metadata"}]]},

/*
 * torch_checkpointing, the successor of torch-dcp (0.1.1, checkpoint_writer.py): each rank writes
 * KEY_RANK.pt below tmp_NAME, rank 0 writes metadata.pkl, all ranks pass a barrier
 * (execute_barrier), and rank 0 renames the directory. The rule claims only names with a step and
 * files of the default layout: a user's directory that is never renamed would never commit.
 * Unclaimed checkpoints lose little, since each file is whole before the framework renames them
 * all.
 */
{"name": "torch-checkpointing",
 "match": ["tmp_*step*[0-9]", "tmp_iter*[0-9]", "tmp_epoch*[0-9]", "tmp_checkpoint[-_]*[0-9]",
	   "tmp_ckpt[-_]*[0-9]"],
 "temp": ["tmp_*step*[0-9]", "tmp_iter*[0-9]", "tmp_epoch*[0-9]", "tmp_checkpoint[-_]*[0-9]",
	  "tmp_ckpt[-_]*[0-9]"],
 "files": ["metadata.pkl", "model_[0-9]*.pt", "optimizer_[0-9]*.pt", "other_[0-9]*.pt",
	   "checkpoint_[0-9]*.pt", "rank_[0-9]*/*.pt"],
 "done": [[{"rename": "."}, "after_all"]]},

/*
 * Weights only: data sets have such names too, without an index. Many programs write these, each in
 * its own order, so nothing is after_all, and no file is of every rank.
 */
{"name": "sharded-export",
 "files": ["*-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9].safetensors",
	   "*model-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9].bin",
	   "*model-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9].h5",
	   "*model-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9].msgpack",
	   "sharded/*-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9].safetensors",
	   "*.safetensors.index.json", "*.bin.index.json", "*.h5.index.json",
	   "*.msgpack.index.json"],
 "data": ["*-[0-9]*-of-[0-9]*.*"],
 "done": [[{"close": "*.index.json"}, "all_closed"]]},

/*
 * Many checkpoints lie in one directory, with logs that stay open, so each file is a unit. The data
 * comes first, then the index, then the state file.
 */
{"name": "tensorflow", "kind": "file",
 "match": ["?*.data-[0-9]*-of-[0-9]*", "?*.index"],
 "temp": ["?*.tempstate*", "part-[0-9]*-of-[0-9]*.data-[0-9]*", "part-[0-9]*-of-[0-9]*.index"],
 "pointers": [{"name": "checkpoint", "after": "model_checkpoint_path: ",
	       "names": "{content}.index"}],
 "done": [["all_closed"]]},

/* Names of Hugging Face's libraries. Their endings, .bin and .pkl, are too common for a rule. */
{"name": "hugging-face", "kind": "file",
 "match": ["pytorch_model*.bin", "adapter_model*.bin", "diffusion_pytorch_model*.bin",
	   "pytorch_lora_weights*.bin", "model*.bin", "optimizer*.bin", "scheduler*.bin",
	   "sampler*.bin", "training_args.bin", "random_states_*.pkl", "tf_model*.h5",
	   "flax_model*.msgpack"],
 "temp": ["pytorch_model*.bin.tmp", "adapter_model*.bin.tmp", "model*.bin.tmp",
	  "optimizer*.bin.tmp", "scheduler*.bin.tmp"],
 "done": [["all_closed"]]},

{"name": "single-file", "kind": "file",
 "match": ["?*.pt", "?*.pth", "?*.ckpt", "?*.safetensors", "?*.keras"],
 "temp": ["?*.pt.tmp", "?*.pth.tmp", "?*.ckpt.tmp", "?*.safetensors.tmp", "?*.keras.tmp",
	  ".tmp[A-Za-z0-9][A-Za-z0-9][A-Za-z0-9][A-Za-z0-9][A-Za-z0-9][A-Za-z0-9]",
	  "tmp[a-z0-9_][a-z0-9_][a-z0-9_][a-z0-9_][a-z0-9_][a-z0-9_][a-z0-9_][a-z0-9_]"],
 "done": [["all_closed"]]}

]);
