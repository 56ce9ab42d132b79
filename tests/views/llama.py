#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 1200
"""A small Llama, saved by four packages: transformers itself loads it from a view in the mount,
with the bits that the package's own converter gives, and the same logits. Then one that two ranks
of FSDP and tensor parallelism have saved, as slices for others."""

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/frameworks"))
from harness import enter

enter(
    "torch",
    "safetensors",
    "transformers",
    "megatron-core",
    alone=("torchtitan", "mbridge"),
)
import importlib.util
import subprocess
import types

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
import torch.nn.functional as F
from safetensors.torch import load_file
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from harness.mount import Mount, must

CONFIG = LlamaConfig(
    vocab_size=100,
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=4,
    num_attention_heads=8,
    num_key_value_heads=2,
    max_position_embeddings=64,
    tie_word_embeddings=False,
)
WORDS = torch.arange(20).unsqueeze(0) * 3
PADDED = 128  # of Megatron's vocabulary


def model():
    torch.manual_seed(1)
    return LlamaForCausalLM(CONFIG).eval()


def ranks(nr, function, *args):
    mp.spawn(function, (nr, *args), nprocs=nr)


def meet(rank, nr, top):
    os.environ.update(MASTER_ADDR="127.0.0.1", RANK=str(rank), WORLD_SIZE=str(nr))
    dist.init_process_group("gloo", rank=rank, world_size=nr, init_method=f"file://{top}.meet")


def save_torch(unit):
    torch.save({"model": model().state_dict(), "step": 5}, unit + "/all.pt")


def save_fsdp(rank, nr, unit):
    """FSDP and tensor parallelism over DCP, with the optimizer."""
    meet(rank, nr, unit)
    mesh = init_device_mesh("cpu", (2, nr // 2))
    state = {}
    for name, tensor in model().state_dict().items():
        across = Shard(1) if "o_proj" in name or "down_proj" in name else Shard(0)
        state[name] = distribute_tensor(
            tensor, mesh, [Shard(0), across if tensor.dim() > 1 else Replicate()]
        )
    dcp.save({"model": state, "optim": {"exp_avg": state}}, checkpoint_id=unit)
    dist.destroy_process_group()


def adapter():
    """torchtitan's own converter. What it is based on needs much that it does not."""
    spec = importlib.util.find_spec("torchtitan")
    path = os.path.join(os.path.dirname(spec.origin), "models/llama3/state_dict_adapter.py")
    base = types.ModuleType("torchtitan.protocols.state_dict_adapter")
    base.StateDictAdapter = type(
        "StateDictAdapter",
        (),
        {
            "__init__": lambda self, *_: None,
            "_validate_hf_rope_config": lambda self, _: None,
            "fqn_to_index_mapping": None,
        },
    )
    rope = types.ModuleType("torchtitan.models.common.rope")
    rope.ComplexRoPE = type("ComplexRoPE", (), {"Config": None})
    own = types.ModuleType("titan.model")
    own.Llama3Model = type("Llama3Model", (), {"Config": None})
    for one in (base, rope, own):
        sys.modules[one.__name__] = one
    for above in (
        "torchtitan",
        "torchtitan.protocols",
        "torchtitan.models",
        "torchtitan.models.common",
        "titan",
    ):
        sys.modules[above] = types.ModuleType(above)
    spec = importlib.util.spec_from_file_location("titan.state_dict_adapter", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    attention = types.SimpleNamespace(
        n_heads=CONFIG.num_attention_heads, n_kv_heads=CONFIG.num_key_value_heads, head_dim=None
    )
    config = types.SimpleNamespace(
        layers=[types.SimpleNamespace(attention=attention)],
        dim=CONFIG.hidden_size,
        enable_weight_tying=False,
    )
    return module.Llama3StateDictAdapter(config, None)


def save_titan(rank, nr, unit):
    """Under torchtitan's names, as its converter makes them of those of Hugging Face."""
    meet(rank, nr, unit)
    titan = adapter()
    state = titan.from_hf(model().state_dict())
    back = titan.to_hf(state)
    for name, tensor in model().state_dict().items():
        assert torch.equal(back[name], tensor), name
    mesh = init_device_mesh("cpu", (nr,))
    shared = {name: distribute_tensor(one, mesh, [Shard(0)]) for name, one in state.items()}
    dcp.save(shared, checkpoint_id=unit)
    dist.destroy_process_group()


def save_megatron(rank, nr, unit):
    """Megatron-core's GPTModel in the format torch_dist, filled by the converter of mbridge."""
    meet(rank, nr, unit)
    torch.cuda.current_device = lambda: "cpu"
    torch.cuda.synchronize = lambda *_: None
    from mbridge.core.bridge import Bridge
    from mbridge.models.llama import LLaMABridge
    from megatron.core import dist_checkpointing, parallel_state
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.models.gpt.gpt_model import GPTModel
    from megatron.core.transformer import TransformerConfig

    parallel_state.initialize_model_parallel(nr, 1)
    config = TransformerConfig(
        num_layers=CONFIG.num_hidden_layers,
        hidden_size=CONFIG.hidden_size,
        num_attention_heads=CONFIG.num_attention_heads,
        num_query_groups=CONFIG.num_key_value_heads,
        ffn_hidden_size=CONFIG.intermediate_size,
        tensor_model_parallel_size=nr,
        use_cpu_initialization=True,
        normalization="RMSNorm",
        gated_linear_unit=True,
        activation_func=F.silu,
        add_bias_linear=False,
    )
    gpt = GPTModel(
        config,
        get_gpt_layer_local_spec(normalization="RMSNorm"),
        vocab_size=PADDED,
        max_sequence_length=64,
        position_embedding_type="rope",
        share_embeddings_and_output_weights=False,
    )
    bridge = LLaMABridge.__new__(LLaMABridge)
    bridge.hf_config, bridge.dtype = CONFIG, None
    bridge.make_vocab_size_divisible_by, bridge.vocab_size = PADDED, CONFIG.vocab_size
    bridge.padded_vocab_size = PADDED
    whole = model().state_dict()
    for name, tensor in gpt.state_dict().items():
        if tensor is None or "_extra_state" in name:
            continue
        theirs = name.replace("input_layernorm.", "self_attention.linear_qkv.layer_norm_")
        theirs = theirs.replace("pre_mlp_layernorm.", "mlp.linear_fc1.layer_norm_")
        names = bridge._weight_name_mapping_mcore_to_hf(theirs)
        made = Bridge._weight_to_mcore_format(bridge, theirs, [whole[one] for one in names])
        tensor.copy_(part_of(name, made, tensor, rank, nr))
    dist_checkpointing.save(gpt.sharded_state_dict(), unit)
    dist.destroy_process_group()


def part_of(name, made, tensor, rank, nr):
    """What a rank of tensor parallelism has."""
    if made.shape == tensor.shape:
        return made
    if "linear_proj" in name or "linear_fc2" in name:
        return made.chunk(nr, 1)[rank]
    if "linear_fc1" in name:
        return torch.cat([half.chunk(nr)[rank] for half in made.chunk(2)])
    return made.chunk(nr)[rank]


def check(view):
    """As a stock program loads it."""
    wanted = model()
    subprocess.run(["ls", "-l", view], check=True, stdout=subprocess.DEVNULL)
    with open(view + "/why", encoding="utf-8") as file:
        why = file.read()
    found, told = AutoModelForCausalLM.from_pretrained(view, output_loading_info=True)
    assert not any(told.values()), (told, why)
    for name, tensor in wanted.state_dict().items():
        assert torch.equal(found.state_dict()[name], tensor), (view, name)
    with torch.no_grad():
        assert torch.equal(found.eval()(WORDS).logits, wanted(WORDS).logits)
    print(view, flush=True)


def check_slices(unit):
    """For two ranks of tensor parallelism, two stages and two replicas: as torch cuts them."""
    view = unit + "/.view/strip=model.,assets=llama,layout=llama,tp=2,pp=2,dp=2"
    for rank in range(8):
        tp, stage = rank % 2, rank // 4
        found = load_file(f"{view}/rank-{rank:05}.safetensors")
        nr = 0
        for name, tensor in model().state_dict().items():
            layer = int(name.split(".")[2]) if "layers" in name else None
            at = (
                0
                if "embed" in name
                else 1
                if layer is None
                else layer // (CONFIG.num_hidden_layers // 2)
            )
            if at != stage:
                continue
            if "norm" not in name:
                across = 1 if "o_proj" in name or "down_proj" in name else 0
                tensor = tensor.chunk(2, across)[tp]
            assert torch.equal(found[name], tensor), (rank, name)
            nr += 1
        assert nr == len(found), (rank, sorted(found))


def main():
    mount = Mount({})
    top = mount.mnt + "/run"
    os.makedirs(top + "/llama")
    CONFIG.save_pretrained(top + "/llama")
    for name in ("torch", "fsdp", "titan", "megatron"):
        os.mkdir(f"{top}/{name}-1")
    save_torch(top + "/torch-1")
    ranks(4, save_fsdp, top + "/fsdp-1")
    ranks(2, save_titan, top + "/titan-1")
    ranks(2, save_megatron, top + "/megatron-1")
    must("commit", top + "/megatron-1")
    mount.settled()
    check(f"{top}/torch-1/.view/strip=model.,assets=llama")
    check(f"{top}/fsdp-1/.view/strip=model.,max=50KB,assets=llama")
    check(f"{top}/titan-1/.view/map=torchtitan-llama,assets=llama")
    check(f"{top}/megatron-1/.view/map=megatron-llama,assets=llama")
    check_slices(top + "/fsdp-1")
    mount.umount()


if __name__ == "__main__":
    main()
