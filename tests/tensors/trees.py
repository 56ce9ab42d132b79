# SPDX-License-Identifier: MIT
"""Has a package write a checkpoint, and read it again: `trees.py KIND DIRECTORY` makes
DIRECTORY/tree, and DIRECTORY/expected.json with what the package itself reads of it: name ->
[shape, SHA-256 of the bytes]. Exit status 77: the package is not there, or too old."""

import hashlib
import json
import os
import sys

try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
except ImportError as error:
    print(error)
    sys.exit(77)

PORT = 29400
KINDS = {}


def kind(ranks=1):
    def note(make):
        KINDS[make.__name__] = (make, ranks)
        return make

    return note


def need(condition, reason):
    if not condition:
        print(reason)
        os._exit(77)


def digest(tensor):
    tensor = tensor.detach().cpu().contiguous().reshape(-1)
    return hashlib.sha256(tensor.view(torch.uint8).numpy().tobytes()).hexdigest()


def flat(value, name=""):
    """The tensors in it by their ways through it."""
    if isinstance(value, torch.Tensor):
        return {name: value}
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


@kind(ranks=2)
def dcp_hugging_face(path):
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
        writer = HuggingFaceStorageWriter(path=path, save_distributed=True)
    except TypeError as error:
        need(False, str(error))
    dcp.save(state, storage_writer=writer)
    return whole if dist.get_rank() == 0 else None


@kind(ranks=2)
def megatron(path):
    try:
        from megatron.core import dist_checkpointing
        from megatron.core.dist_checkpointing import ShardedTensor
    except ImportError as error:
        need(False, str(error))
    torch.cuda.current_device = lambda: "cpu"
    torch.cuda.synchronize = lambda *_: None
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(4)
    whole = {"decoder.weight": torch.randn(6, 4), "norm": torch.randn(5)}
    layers = torch.randn(2, 3, 4)
    parts = {
        "decoder.weight": ShardedTensor.from_rank_offsets(
            "decoder.weight", whole["decoder.weight"].chunk(world)[rank], (0, rank, world)
        ),
        "norm": ShardedTensor.from_rank_offsets("norm", whole["norm"], replica_id=rank),
        # stacked layers: an axis in front that no part has
        "layers": ShardedTensor.from_rank_offsets(
            "layers", layers[rank], (0, rank, world), prepend_axis_num=1
        ),
        "args": {"lr": 0.1},
    }
    os.makedirs(path, exist_ok=True)
    dist.barrier()
    dist_checkpointing.save(parts, path)
    dist.barrier()
    return dict(whole, layers=layers) if rank == 0 else None


# --- DeepSpeed ---


def deepspeed_zero(path, stage, **more):
    try:
        import deepspeed
    except ImportError as error:
        need(False, str(error))
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed("gloo", verbose=False)
    net = model()
    named = list(net.named_parameters())
    groups = [
        {"params": [p for n, p in named if "bias" not in n]},
        {"params": [p for n, p in named if "bias" in n], "weight_decay": 0.0},
    ]
    config = {
        "train_micro_batch_size_per_gpu": 2,
        "zero_allow_untested_optimizer": True,
        "steps_per_print": 1 << 30,
        "zero_optimization": {
            "stage": stage,
            "reduce_scatter": False,
            "stage3_param_persistence_threshold": 0,
        },
        **more,
    }
    engine = deepspeed.initialize(model=net, optimizer=torch.optim.AdamW(groups), config=config)[0]
    data = torch.randn(2, 5)
    for _ in range(2):
        loss = engine(data.bfloat16() if more else data).float().square().mean()
        engine.backward(loss)
        engine.step()
    engine.save_checkpoint(path)
    dist.barrier()
    if dist.get_rank():
        return None
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

    state = get_fp32_state_dict_from_zero_checkpoint(path)
    return {"fp32." + name: one for name, one in state.items()}


@kind(ranks=2)
def zero_1(path):
    return deepspeed_zero(path, 1)


@kind(ranks=3)
def zero_2(path):
    return deepspeed_zero(path, 2, bf16={"enabled": True})


@kind(ranks=3)
def zero_3(path):
    return deepspeed_zero(path, 3)


# --- the program ---


def rank_main(rank, name, directory):
    make, ranks = KINDS[name]
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1"
    )
    if ranks > 1:
        store = dist.FileStore(directory + "/store", ranks)
        if name.startswith("zero"):
            os.environ["MASTER_PORT"] = str(PORT + list(KINDS).index(name))
        else:
            dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    expected = make(directory + "/tree")
    if rank == 0:
        with open(directory + "/expected.json", "w", encoding="utf-8") as file:
            json.dump(
                {n: [list(t.shape), digest(t)] for n, t in sorted(expected.items())}, file, indent=1
            )
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
