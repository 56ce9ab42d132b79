#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 1200
"""Tensors that torch.distributed.checkpoint has saved from random meshes, or that a commit file
lists in random flat ranges of random boxes: `ckptfs export` puts each together as it was, in the
very bytes of safetensors's own file. CKPTFS_TEST_SEEDS=N does N of each, CKPTFS_TEST_SEED=N the
first."""

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/frameworks"))
from harness import enter

enter("torch", "safetensors")
sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/tensors"))

import random
import shutil
import subprocess

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from safetensors import safe_open
from safetensors.torch import save_file
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from commits import commit_file

SEEDS = int(os.environ.get("CKPTFS_TEST_SEEDS", "40"))
FIRST = int(os.environ.get("CKPTFS_TEST_SEED", "0"))
# The ranks, and how they may be laid out.
WORLDS = {1: [(1,)], 2: [(2,)], 3: [(3,)], 4: [(4,), (2, 2)], 6: [(6,), (2, 3), (3, 2)]}
KINDS = [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.uint8]


def state_of(seed):
    """The same on all ranks."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    state = {}
    for n in range(draw.randrange(1, 7)):
        shape = [draw.randrange(1, 12) for _ in range(draw.randrange(1, 4))]
        kind = draw.choice(KINDS)
        state[f"layer.{n}.weight"] = (torch.randn(shape) * 100).to(kind)
    return state, draw


def placed(draw, tensor, mesh):
    """Rows or columns over each dimension of the mesh, or replicas; not one dimension twice."""
    left, how = list(range(tensor.dim())), []
    for _ in range(mesh.ndim):
        if left and draw.random() < 0.8:
            how.append(Shard(left.pop(draw.randrange(len(left)))))
        else:
            how.append(Replicate())
    return distribute_tensor(tensor, mesh, how)


def save_all(rank, world, top):
    os.environ.update(MASTER_ADDR="127.0.0.1", RANK=str(rank), WORLD_SIZE=str(world))
    dist.init_process_group(
        "gloo", rank=rank, world_size=world, init_method=f"file://{top}/meet{world}"
    )
    for seed in range(FIRST, FIRST + SEEDS):
        state, draw = state_of(seed)
        mesh = init_device_mesh("cpu", draw.choice(WORLDS[world]))
        spread = {name: placed(draw, one, mesh) for name, one in state.items()}
        dcp.save(spread, checkpoint_id=f"{top}/{world}-{seed}")
    dist.destroy_process_group()


def same(a, b):
    return (
        a.dtype == b.dtype
        and a.shape == b.shape
        and torch.equal(
            a.contiguous().flatten().view(torch.uint8), b.contiguous().flatten().view(torch.uint8)
        )
    )


def export(unit, spec="safetensors"):
    shutil.rmtree("out", ignore_errors=True)
    subprocess.run([os.environ["CKPTFS"], "export", f"{unit}/.view/{spec}", "out"], check=True)


def look(unit, state, draw):
    export(unit)
    # The bytes are those that safetensors itself writes.
    save_file(state, "own.safetensors", metadata={"format": "pt"})
    with open("own.safetensors", "rb") as own, open("out/model.safetensors", "rb") as ours:
        assert own.read() == ours.read(), unit
    with safe_open("out/model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"} and set(file.keys()) == set(state)
        for name, tensor in state.items():
            assert same(file.get_tensor(name), tensor), (unit, name)
            begin = draw.randrange(tensor.shape[0])
            assert same(file.get_slice(name)[begin:], tensor[begin:]), (unit, name)
    export(unit, f"strip=layer.,dtype=bf16,max={draw.choice([1, 100, 1000])}")
    found = {}
    for one in os.listdir("out"):
        if one.endswith(".safetensors"):
            with safe_open("out/" + one, "pt") as file:
                found.update({name: file.get_tensor(name) for name in file.keys()})
    for name, tensor in state.items():
        to = torch.bfloat16 if tensor.is_floating_point() else tensor.dtype
        assert same(found.pop(name.removeprefix("layer.")), tensor.to(to)), (unit, name)
    assert not found


def boxes_of(draw, shape, depth=4):
    """A box is offsets and lengths; several make up the whole."""
    boxes, done = [([0] * len(shape), list(shape))], []
    for _ in range(depth):
        offset, length = boxes.pop(draw.randrange(len(boxes)))
        d = draw.randrange(len(shape))
        if length[d] < 2:
            done.append((offset, length))
        else:
            at = draw.randrange(1, length[d])
            boxes.append((offset, length[:d] + [at] + length[d + 1 :]))
            boxes.append(
                (
                    offset[:d] + [offset[d] + at] + offset[d + 1 :],
                    length[:d] + [length[d] - at] + length[d + 1 :],
                )
            )
        if not boxes:
            break
    return boxes + done


TYPES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16", "float64": "F64"}
TYPES.update({"int64": "I64", "uint8": "U8"})


def save_ranges(unit, state, draw):
    """As ranks would that have registered any ranges: a commit file says where these are."""
    os.mkdir(unit)
    lines, files = [], {f"rank{n}.data": bytearray() for n in range(4)}
    for name, tensor in state.items():
        for offset, length in boxes_of(draw, list(tensor.shape)):
            box = tensor[tuple(slice(o, o + n) for o, n in zip(offset, length))].contiguous()
            data = box.flatten().view(torch.uint8).numpy().tobytes()
            start = 0
            while start < len(data):
                n = draw.randrange(1, len(data) - start + 1)
                path = draw.choice(sorted(files))
                files[path] += bytes(draw.randrange(9))
                line = {"name": name, "dtype": TYPES[str(tensor.dtype)[6:]]}
                line |= {"shape": list(tensor.shape), "offset": offset, "length": length}
                line |= {"path": path, "at": len(files[path]), "bytes": n}
                lines.append(line | ({"from": start} if start else {}))
                files[path] += data[start : start + n]
                start += n
    for path, data in files.items():
        with open(f"{unit}/{path}", "wb") as file:
            file.write(data)
    with open(unit + "/.ckptfs-commit.json", "w", encoding="utf-8") as file:
        file.write(commit_file(lines))


def main():
    os.chdir(os.environ["TEST_TMP"])
    for seed in range(FIRST, FIRST + 5 * SEEDS):
        state, draw = state_of(seed)
        save_ranges(f"ranges-{seed}", state, draw)
        look(f"ranges-{seed}", state, draw)
        shutil.rmtree(f"ranges-{seed}")
    print(f"{5 * SEEDS} checkpoints in ranges", flush=True)
    for world in WORLDS:
        mp.spawn(save_all, (world, os.getcwd()), nprocs=world)
        for seed in range(FIRST, FIRST + SEEDS):
            look(f"{world}-{seed}", *state_of(seed))
            shutil.rmtree(f"{world}-{seed}")
        print(f"{world} ranks: {SEEDS} meshes", flush=True)


if __name__ == "__main__":
    main()
