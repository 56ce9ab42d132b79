# SPDX-License-Identifier: MIT
"""Has a package write a checkpoint, and read it again: `trees.py KIND DIRECTORY` makes
DIRECTORY/tree, and DIRECTORY/expected.json with what the package itself reads of it: a list of
{name, dtype, shape, sha256 of all bytes}, and of what is no such list, see entries(). Exit status
77: the package is not there, or too old."""

import hashlib
import json
import os
import re
import sys

try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
except ImportError as error:
    print(error)
    sys.exit(77)

KINDS = {}

# What `ckptfs tensors` says of what it does not describe.
NOT_ROW_MAJOR = "not in row-major order"
COMPRESSED = "compressed"

DTYPES = {"float": "F", "uint": "U", "int": "I", "bfloat": "BF", "complex": "C"}


def kind(ranks=1):
    def note(make):
        KINDS[make.__name__] = (make, ranks)
        return make

    return note


def need(condition, reason):
    if not condition:
        print(reason, flush=True)
        os._exit(77)


def dtype(tensor):
    """As safetensors has it: float32 is F32, float8_e4m3fn F8_E4M3."""
    name = str(tensor.dtype).removeprefix("torch.")
    if name == "bool":
        return "BOOL"
    kind, bits, more = re.fullmatch("([a-z]+)([0-9]+)(?:fn)?(.*)", name).groups()
    if more:
        bits, more = bits[0], more.removesuffix("fn")
    return DTYPES[kind] + bits + more.upper()


def digest(tensor):
    tensor = tensor.detach().resolve_conj().resolve_neg().flatten()
    tensor = tensor.clone(memory_format=torch.contiguous_format)
    return hashlib.sha256(tensor.view(torch.uint8).numpy().tobytes()).hexdigest()


class Not:
    """Stands for @tensor where `ckptfs tensors` does not describe it, but says @reason."""

    def __init__(self, tensor, reason):
        self.tensor, self.reason = tensor, reason


def entries(expected):
    """The list of expected.json. An entry with "alias" has the bytes of that tensor in the file.
    One with "opaque" is not described, for that reason."""
    found, first = [], {}
    for name, one in expected.items():
        tensor = one.tensor if isinstance(one, Not) else one
        name = name if isinstance(name, str) else name[1]  # else with what keeps it apart
        entry = {
            "name": name,
            "dtype": dtype(tensor),
            "shape": list(tensor.shape),
            "sha256": digest(tensor),
        }
        place = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if isinstance(one, Not):
            entry["opaque"] = one.reason
        elif tensor.numel() and first.setdefault(place, name) != name:
            entry["alias"] = first[place]
        found.append(entry)
    return sorted(found, key=lambda entry: (entry["name"], entry["shape"], entry["sha256"]))


def flat(value, name=""):
    """The tensors in it by their ways through it."""
    if isinstance(value, torch.Tensor):
        return {name: value}
    if isinstance(value, torch.nn.Module):
        value = value.__dict__
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, (list, tuple)):
        pairs = enumerate(value)
    else:
        return {}
    found = {}
    for key, one in pairs:
        found.update(flat(one, f"{name}.{key}" if name else str(key)))
    return found


def model():
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(5, 7), torch.nn.Linear(7, 3), torch.nn.LayerNorm(3), torch.nn.Linear(3, 1)
    )


def trained():
    net = model()
    optimizer = torch.optim.AdamW(net.parameters())
    net(torch.randn(4, 5)).square().mean().backward()
    optimizer.step()
    return net, optimizer


# --- torch.save and safetensors ---


@kind()
def torch_plain(path):
    os.mkdir(path)
    torch.save(model().state_dict(), path + "/model.pt")
    return flat(torch.load(path + "/model.pt", weights_only=True))


@kind()
def torch_nested(path):
    os.mkdir(path)
    net, optimizer = trained()
    base = torch.arange(24.0)
    state = {
        "model": net.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": 3,
        "rng": torch.get_rng_state(),
        "tied": net[0].weight,
        "view": base[5:11],
        "rows": base.view(4, 6)[1:3],
        "kinds": [
            torch.randn(3).to(torch.bfloat16),
            torch.randn(3).half(),
            torch.randn(3).double(),
            torch.tensor([True, False]),
            torch.tensor([1, -2], dtype=torch.int8),
            torch.tensor([1, 2], dtype=torch.uint8),
            torch.tensor([1, 2], dtype=torch.int16),
            torch.tensor([1, 2], dtype=torch.int32),
            torch.tensor([1, 2], dtype=torch.uint16),
            torch.randn(2, dtype=torch.complex64),
            torch.randn(4).to(torch.float8_e4m3fn),
            torch.tensor(7),
            torch.empty(0, 3),
        ],
        "parameter": torch.nn.Parameter(torch.ones(2)),
    }
    torch.save(state, path + "/all.pt")
    return flat(torch.load(path + "/all.pt", weights_only=False))


@kind()
def torch_views(path):
    """Of one storage; and what lies in it in another order than its elements have."""
    os.mkdir(path)
    base = torch.arange(60.0).reshape(3, 4, 5)
    complex_one = torch.complex(torch.arange(6.0), torch.ones(6)).reshape(3, 2)
    state = {
        "rows": [base[0], base[1:], base[2, 1], base[1, 1, 1]],
        "narrow": base[:1, 1:3],
        "one": base[:, :1, :1].narrow(0, 1, 1),
        "real": complex_one,
        "float8": [torch.ones(3).to(torch.float8_e5m2), torch.ones(2, 2).to(torch.float8_e4m3fn)],
        "none": [torch.empty(0), base[:0], base[:, 4:], torch.empty(2, 0, 3, dtype=torch.int8)],
        "columns": base[:, :, 2],
        "turned": base[0].t(),
        "same": torch.ones(1).expand(4),
        "images": torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last),
    }
    torch.save(state, path + "/views.pt")
    found = flat(torch.load(path + "/views.pt", weights_only=True))
    for name in ("columns", "turned", "same", "images"):
        assert not found[name].is_contiguous()
        found[name] = Not(found[name], NOT_ROW_MAJOR)
    return found


@kind()
def torch_conjugate(path):
    """What is saved as it was before, and a note that it is to be conjugated or negated."""
    os.mkdir(path)
    one = torch.complex(torch.arange(3.0), torch.ones(3))
    state = {"conjugate": one.conj(), "negative": one[:1].clone().conj().imag}
    torch.save(state, path + "/conjugate.pt")
    return flat(torch.load(path + "/conjugate.pt", weights_only=True))


@kind()
def torch_module(path):
    """A whole module: what is in its attributes."""
    os.mkdir(path)
    net = model()
    net[3].weight = torch.nn.Parameter(net[2].weight.detach().reshape(1, 3))
    net.register_buffer("count", torch.tensor(3))
    torch.save(net, path + "/module.pth")
    return flat(torch.load(path + "/module.pth", weights_only=False))


@kind()
def torch_old_form(path):
    """As before torch 1.6: no zip file."""
    os.mkdir(path)
    torch.save(model().state_dict(), path + "/old.pt", _use_new_zipfile_serialization=False)
    found = torch.load(path + "/old.pt", weights_only=True)
    return {name: Not(one, "it is a bare pickle") for name, one in found.items()}


@kind()
def torch_names(path):
    """Keys with dots, spaces, quotes and letters of other scripts, and numbers."""
    os.mkdir(path)
    keys = ["a.b", " c ", "gewicht.\u00e4\u6743", 7, -3, "x" * 900, '"quoted"\\n']
    state = {key: torch.full((2,), float(i)) for i, key in enumerate(keys)}
    state["tuple"] = (
        torch.ones(1),
        [torch.zeros(1), {"deep": torch.full((1,), 2.0)}],
        None,
        "text",
    )
    torch.save(state, path + "/names.bin")
    return flat(torch.load(path + "/names.bin", weights_only=True))


@kind()
def safetensors_one(path):
    from safetensors.torch import load_file, save_file

    os.mkdir(path)
    save_file(model().state_dict(), path + "/model.safetensors")
    return load_file(path + "/model.safetensors")


@kind()
def hugging_face_set(path):
    try:
        from transformers import LlamaConfig, LlamaForCausalLM
    except ImportError as error:
        need(False, str(error))
    config = LlamaConfig(
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        vocab_size=40,
    )
    net = LlamaForCausalLM(config)
    net.save_pretrained(path, max_shard_size="6KB")
    assert sum(name.endswith(".safetensors") for name in os.listdir(path)) > 1
    return LlamaForCausalLM.from_pretrained(path).state_dict()


@kind()
def hugging_face_bin(path):
    """As transformers wrote before 5: huggingface_hub still does."""
    try:
        from huggingface_hub import save_torch_state_dict
    except ImportError as error:
        need(False, str(error))
    os.mkdir(path)
    state = dict(model().state_dict(), count=torch.tensor(5), empty=torch.empty(0, 2))
    save_torch_state_dict(state, path, max_shard_size=100, safe_serialization=False)
    with open(path + "/pytorch_model.bin.index.json", encoding="utf-8") as file:
        files = json.load(file)["weight_map"]
    assert len(set(files.values())) > 1
    return {
        name: torch.load(f"{path}/{one}", weights_only=True)[name] for name, one in files.items()
    }


# --- torch.distributed.checkpoint ---


def read_dcp(path):
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    dcp_to_torch_save(path, path + "/../whole.pt")
    return flat(torch.load(path + "/../whole.pt", weights_only=False))


@kind()
def dcp_one(path):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict

    net, optimizer = get_state_dict(*trained())
    dcp.save({"model": net, "optim": optimizer, "step": 7}, checkpoint_id=path)
    return read_dcp(path)


@kind(ranks=3)
def dcp_fsdp(path):
    """Cut unevenly: 7 and 3 rows over 3 ranks, so that some have less, and some have nothing."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict
    from torch.distributed.device_mesh import init_device_mesh

    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError as error:
        need(False, str(error))
    need(tuple(map(int, torch.__version__.split(".")[:2])) > (2, 6), "its FSDP asks for a GPU")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    net = fully_shard(model(), mesh=mesh)
    optimizer = torch.optim.AdamW(net.parameters())
    net(torch.randn(4, 5)).square().mean().backward()
    optimizer.step()
    net, optimizer = get_state_dict(net, optimizer)
    dcp.save({"model": net, "optim": optimizer}, checkpoint_id=path)
    return read_dcp(path) if dist.get_rank() == 0 else None


@kind(ranks=2)
def dcp_columns(path):
    """A grid: rows over one dimension of the mesh, columns over the other, and replicas."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(2)
    state = {
        "columns": distribute_tensor(torch.randn(4, 7), mesh, [Shard(1)]),
        "deep": distribute_tensor(torch.randn(2, 3, 5).bfloat16(), mesh, [Shard(2)]),
        "same": distribute_tensor(torch.randn(3), mesh, [Replicate()]),
        "own": torch.randn(2, 2),
    }
    dcp.save(state, checkpoint_id=path)
    return read_dcp(path) if dist.get_rank() == 0 else None


@kind()
def dcp_odd(path):
    """Several types, no elements, no dimension, views, and tied ones."""
    import torch.distributed.checkpoint as dcp

    torch.manual_seed(5)
    base = torch.arange(60.0).reshape(3, 4, 5)
    kinds = [
        torch.randn(5).to(kind)
        for kind in (torch.bfloat16, torch.float16, torch.float64, torch.int8, torch.bool)
    ]
    state = {
        "kinds": kinds,
        "number": torch.tensor(3, dtype=torch.int16),
        "none": torch.empty(0, 3),
        "view": base[1:, 2],
        "tied": {"one": base, "two": base},
        "complex": torch.randn(3, dtype=torch.complex64),
        "scalar": 2.5,
        "parameter": torch.nn.Parameter(torch.randn(2, 2)),
    }
    dcp.save(state, checkpoint_id=path)
    found = read_dcp(path)
    found["tied.two"] = found["tied.two"].clone()  # each is saved
    return found


@kind()
def dcp_turned(path):
    """Tensors whose elements lie in another order, as weights of images may."""
    import torch.distributed.checkpoint as dcp

    torch.manual_seed(5)
    state = {
        "turned": torch.randn(4, 6).t(),
        "images": torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last),
        "usual": torch.randn(2, 2),
    }
    dcp.save(state, checkpoint_id=path)
    found = read_dcp(path)
    return {n: Not(t, NOT_ROW_MAJOR) if n != "usual" else t for n, t in found.items()}


@kind()
def dcp_zstd(path):
    import torch.distributed.checkpoint as dcp

    try:
        import zstandard  # noqa: F401
        from torch.distributed.checkpoint._extension import ZStandard

        writer = dcp.FileSystemWriter(path, _extensions=[ZStandard()])
    except (ImportError, TypeError, ValueError) as error:
        need(False, str(error))
    state = model().state_dict()
    dcp.save(state, storage_writer=writer)
    return {name: Not(one, COMPRESSED) for name, one in state.items()}


@kind(ranks=2)
def dcp_fsdp1(path):
    """FullyShardedDataParallel, the first of the two, which cuts flat vectors."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FullyShardedDataParallel

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    net = FullyShardedDataParallel(
        model(), device_mesh=mesh, device_id=torch.device("cpu"), use_orig_params=True
    )
    optimizer = torch.optim.AdamW(net.parameters())
    net(torch.randn(4, 5)).square().mean().backward()
    optimizer.step()
    net, optimizer = get_state_dict(net, optimizer)
    dcp.save({"model": net, "optim": optimizer}, checkpoint_id=path)
    return read_dcp(path) if dist.get_rank() == 0 else None


@kind(ranks=4)
def dcp_grid(path):
    """Rows and columns, over a mesh of two dimensions."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (2, 2))
    torch.manual_seed(6)
    state = {
        "grid": distribute_tensor(torch.randn(5, 7), mesh, [Shard(0), Shard(1)]),
        "twice": distribute_tensor(torch.randn(7, 3), mesh, [Shard(0), Shard(0)]),
        "hybrid": distribute_tensor(torch.randn(3, 5), mesh, [Replicate(), Shard(1)]),
        "few": distribute_tensor(torch.randn(1, 2), mesh, [Shard(0), Shard(0)]),
    }
    dcp.save(state, checkpoint_id=path)
    return read_dcp(path) if dist.get_rank() == 0 else None


@kind()
def dcp_safetensors_items(path):
    import torch.distributed.checkpoint as dcp

    try:
        from torch.distributed.checkpoint.filesystem import SerializationFormat

        writer = dcp.FileSystemWriter(
            path, serialization_format=SerializationFormat.SAFETENSORS, single_file_per_rank=False
        )
    except (ImportError, TypeError) as error:
        need(False, str(error))
    state = model().state_dict()
    dcp.save(state, storage_writer=writer)
    return state


def hugging_face_writer(path, **options):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    try:
        from torch.distributed.checkpoint import HuggingFaceStorageWriter
    except ImportError as error:
        need(False, str(error))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(3)
    whole = {"a": torch.randn(6, 3), "b": torch.randn(5), "c": torch.randn(4, 4).bfloat16()}
    state = {name: distribute_tensor(one, mesh, [Shard(0)]) for name, one in whole.items()}
    try:
        writer = HuggingFaceStorageWriter(path=path, save_distributed=True, **options)
    except TypeError as error:
        need(False, str(error))
    dcp.save(state, storage_writer=writer)
    return whole if dist.get_rank() == 0 else None


@kind(ranks=2)
def dcp_hugging_face(path):
    return hugging_face_writer(path)


@kind(ranks=2)
def dcp_hugging_face_whole(path):
    """Its parts stand in sharded/, beside the whole ones that it has made of them."""
    whole = hugging_face_writer(
        path, fqn_to_index_mapping={"a": 1, "b": 2, "c": 1}, enable_consolidation=True
    )
    return whole and {
        (place, name): one.clone() for name, one in whole.items() for place in ("whole", "parts")
    }


@kind(ranks=2)
def megatron(path):
    try:
        from megatron.core import dist_checkpointing
        from megatron.core.dist_checkpointing import ShardedObject, ShardedTensor
    except ImportError as error:
        need(False, str(error))
    torch.cuda.current_device = lambda: "cpu"
    torch.cuda.synchronize = lambda *_: None
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(4)
    whole = {"decoder.weight": torch.randn(6, 4), "norm": torch.randn(5)}
    layers, grid = torch.randn(2, 3, 4), torch.randn(3, 6).half()
    parts = {
        "decoder.weight": ShardedTensor.from_rank_offsets(
            "decoder.weight", whole["decoder.weight"].chunk(world)[rank], (0, rank, world)
        ),
        "norm": ShardedTensor.from_rank_offsets("norm", whole["norm"], replica_id=rank),
        # stacked layers: an axis in front that no part has
        "layers": ShardedTensor.from_rank_offsets(
            "layers", layers[rank], (0, rank, world), prepend_axis_num=1
        ),
        "grid": ShardedTensor.from_rank_offsets(
            "grid", grid.chunk(world, 1)[rank], (1, rank, world), replica_id=0
        ),
        "random": ShardedObject("random", [torch.ones(2), rank], (world,), (rank,)),
        "common": torch.arange(3),
        "args": {"lr": 0.1},
    }
    os.makedirs(path, exist_ok=True)
    dist.barrier()
    dist_checkpointing.save(parts, path)
    dist.barrier()
    read = dist_checkpointing.load_plain_tensors(path)
    if rank:
        return None
    assert all(torch.equal(read[name], one) for name, one in whole.items())
    return {
        **{name: read[name] for name in (*whole, "layers", "grid")},
        **flat(dist_checkpointing.load_common_state_dict(path)),
    }


# --- DeepSpeed ---


def by_engine(optimizer, stage, trained):
    """What the ranks have in memory, of which each has a part."""
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

    if stage < 3:  # it has linked the states after the step of the first group
        optimizer._hp_optimizer_states_linked = False
        optimizer._lazy_init_hp_params_optimizer_state()
    found = {}
    for name, one in trained.items():
        found["fp32." + name] = safe_get_full_fp32_param(one)
        for state in ("exp_avg", "exp_avg_sq"):
            found[f"{state}.{name}"] = safe_get_full_optimizer_state(one, state)
    return {name: one.detach().clone() for name, one in found.items()}


def by_order(step):
    """What zero_to_fp32.py reads, of the states of the optimizer, too."""
    from deepspeed.utils import zero_to_fp32

    files = [torch.load(one, weights_only=False) for one in zero_to_fp32.get_optim_files(step)]
    ranks = [one["optimizer_state_dict"] for one in files]
    states = [
        [group for _, group in sorted(r["base_optimizer_state"]["state"].items())] for r in ranks
    ]
    vectors = {"fp32": [r["single_partition_of_fp32_groups"] for r in ranks]}
    for name in ("exp_avg", "exp_avg_sq"):
        vectors[name] = [[group[name] for group in rank] for rank in states]
    found = {}
    for what, flats in vectors.items():
        whole = zero_to_fp32._get_fp32_state_dict_from_zero2_checkpoint(
            len(ranks),
            flats,
            zero_to_fp32.parse_model_states(zero_to_fp32.get_model_state_files(step)),
            False,
            ranks[0]["param_alignment_paddings"],
        )
        found.update({f"{what}.{name}": one.clone() for name, one in whole.items()})
    return found


def deepspeed_zero(path, stage, zero=None, freeze=(), tie=False, **more):
    try:
        import deepspeed
    except ImportError as error:
        need(False, str(error))
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed("gloo", verbose=False)
    net = model()
    if tie:
        net[2].bias = net[1].bias
    named = dict(net.named_parameters())
    for name in freeze:
        named[name].requires_grad_(False)
    trained = {n: p for n, p in named.items() if p.requires_grad}
    groups = [
        {"params": [p for n, p in trained.items() if "bias" not in n]},
        {"params": [p for n, p in trained.items() if "bias" in n], "weight_decay": 0.0},
    ]
    config = {
        "train_micro_batch_size_per_gpu": 2,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 1 << 30,
        "zero_optimization": {
            "stage": stage,
            "reduce_scatter": False,
            "stage3_param_persistence_threshold": 0,
            **(zero or {}),
        },
        **more,
    }
    engine = deepspeed.initialize(model=net, optimizer=torch.optim.AdamW(groups), config=config)[0]
    data = torch.randn(2, 5)
    for _ in range(2):
        loss = engine(data.bfloat16() if "bf16" in more else data).float().square().mean()
        engine.backward(loss)
        engine.step()
    engine.save_checkpoint(path)
    dist.barrier()
    step = f"{path}/global_step{engine.global_steps}"
    if (zero or {}).get("round_robin_gradients"):
        found = by_order(step)  # safe_get_full_* takes one parameter for another
    else:
        found = by_engine(engine.optimizer, stage, trained)
    if dist.get_rank():
        return None
    if "data_types" not in more:  # else it cannot read that
        from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

        for name, one in get_fp32_state_dict_from_zero_checkpoint(path).items():
            assert torch.equal(found.get("fp32." + name, one), one), name
    for file in sorted(os.listdir(step)):
        if file.endswith("_model_states.pt"):
            state = flat(torch.load(f"{step}/{file}", weights_only=False))
            found.update({(file, name): one for name, one in state.items()})
    return found


@kind(ranks=2)
def zero_1(path):
    return deepspeed_zero(path, 1)


@kind(ranks=2)
def zero_1_bf16(path):
    """An optimizer of its own, since gradients are added up as fp32."""
    return deepspeed_zero(path, 1, bf16={"enabled": True}, data_types={"grad_accum_dtype": "fp32"})


@kind(ranks=2)
def zero_1_aligned(path):
    """Each parameter begins at a multiple of 16 bytes."""
    return deepspeed_zero(path, 1, zero={"parameter_alignment": True})


@kind(ranks=3)
def zero_2(path):
    return deepspeed_zero(path, 2, bf16={"enabled": True})


@kind(ranks=2)
def zero_2_frozen(path):
    return deepspeed_zero(path, 2, freeze=("0.weight", "2.bias"))


@kind(ranks=2)
def zero_2_tied(path):
    return deepspeed_zero(path, 2, tie=True)


@kind(ranks=2)
def zero_2_round_robin(path):
    """Each rank has whole parameters where that is possible."""
    return deepspeed_zero(path, 2, zero={"round_robin_gradients": True})


@kind(ranks=3)
def zero_3(path):
    return deepspeed_zero(path, 3)


@kind(ranks=2)
def zero_3_sub_groups(path):
    return deepspeed_zero(path, 3, zero={"sub_group_size": 20}, bf16={"enabled": True})


@kind(ranks=2)
def zero_3_frozen(path):
    return deepspeed_zero(path, 3, freeze=("0.weight", "2.bias"))


@kind(ranks=2)
def zero_3_offload(path):
    return deepspeed_zero(path, 3, zero={"offload_optimizer": {"device": "cpu"}})


# --- torch_checkpointing ---


@kind(ranks=2)
def torch_checkpointing(path):
    try:
        from torch_checkpointing import CheckpointManager, ItemSpec, SyncCheckpointSaverConfig
        from torch_checkpointing.default_resharder import DefaultResharder
        from torch_checkpointing.metadata_manager import DefaultMetadataManager
        from torch_checkpointing.storage.filesystem import LocalFileSystemStorageConfig
    except ImportError as error:
        need(False, str(error))
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    def gather(_, data, process_group=None):
        """The original does so by tensors on a GPU."""
        gathered = [None] * dist.get_world_size(process_group)
        dist.all_gather_object(gathered, data, group=process_group)
        return dict(enumerate(gathered))

    DefaultMetadataManager._all_gather_pickled_data = gather
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(7)
    whole = {"a": torch.randn(5, 3), "b": torch.randn(4).bfloat16(), "c": torch.randn(1, 2)}
    state = {name: distribute_tensor(one, mesh, [Shard(0)]) for name, one in whole.items()}
    manager = CheckpointManager(
        CheckpointManager.Config(
            items={"model": ItemSpec(resharder=DefaultResharder())},
            save=SyncCheckpointSaverConfig(),
            storage_config=LocalFileSystemStorageConfig(use_direct_io=False),
        )
    )
    manager.save(path, {"model": state, "step": 3})
    dist.barrier()
    manager.close()
    return whole if not dist.get_rank() else None


# --- the program ---


def rank_main(rank, name, directory):
    make, ranks = KINDS[name]
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1"
    )
    if ranks > 1:
        store = dist.FileStore(directory + "/store", ranks)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    expected = make(directory + "/tree")
    if rank == 0:
        with open(directory + "/expected.json", "w", encoding="utf-8") as file:
            lines = ",\n".join(map(json.dumps, entries(expected)))
            file.write(f"[\n{lines}\n]\n")
    if ranks > 1:
        dist.barrier()
        dist.destroy_process_group()


def main(name, directory):
    ranks = KINDS[name][1]
    if ranks == 1:
        rank_main(0, name, directory)
        return
    try:
        mp.spawn(rank_main, args=(name, directory), nprocs=ranks)
    except mp.ProcessExitedException as error:
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main(*sys.argv[1:])
