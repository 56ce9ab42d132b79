#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 900
"""Checkpoints that other numbers of ranks load: FSDP of 8 on 6 and back, on replicas and from
them, as DCP's own reader loads them, to the bit, also after more training. Then tensors of a view:
slices for another tensor parallelism, in place, with progress; and what is refused."""

import os

from lazily import TMP, fails

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed import checkpoint
from torch.distributed.checkpoint import FileSystemReader
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor

from harness.mount import Mount

import ckptfs

WIDTH = 60


def local(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


class Trained:
    """A model that is sharded over a mesh, and its optimizer."""

    def __init__(self, mesh):
        torch.manual_seed(3)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(WIDTH, 77), torch.nn.Tanh(), torch.nn.Linear(77, WIDTH, bias=False)
        )
        fully_shard(self.model, mesh=mesh)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.step(0)  # so that the optimizer has a state

    def step(self, seed):
        torch.manual_seed(seed)
        self.model(torch.randn(16, WIDTH)).square().mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def state(self):
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optim": optimizer}

    def load(self, reader):
        state = self.state()
        checkpoint.load(state, storage_reader=reader)
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optim"],
        )

    def parts(self):
        found = dict(self.model.named_parameters())
        for name, parameter in self.model.named_parameters():
            for key, value in self.optimizer.state[parameter].items():
                found[f"{name}.{key}"] = value
        return {name: local(one.detach()) for name, one in found.items()}


def same(a, b):
    a, b = a.parts(), b.parts()
    assert set(a) == set(b) and len(a) == 12
    for name, one in a.items():
        assert torch.equal(one, b[name]), name


def join(rank, world, phase):
    os.environ.update(MASTER_ADDR="127.0.0.1", RANK=str(rank), WORLD_SIZE=str(world))
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", rank=rank, world_size=world, init_method=f"file://{TMP}/meet{phase}"
    )


def train(rank, world, phase, shape, old, new):
    """Loads @old by both readers, trains both, and saves @new."""
    join(rank, world, phase)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("replica", "part")[-len(shape) :])
    trained = Trained(mesh)
    if old:
        by_torch = Trained(mesh)
        by_torch.load(FileSystemReader(old))
        trained.load(ckptfs.dcp.Reader(old))
        same(trained, by_torch)
        for n in range(3):
            trained.step(n)
            by_torch.step(n)
        same(trained, by_torch)
    checkpoint.save(trained.state(), storage_writer=ckptfs.dcp.Writer(new))
    dist.destroy_process_group()


def save_rows(rank, world, unit):
    """Four ranks of tensor parallelism."""
    join(rank, world, "rows")
    mesh = init_device_mesh("cpu", (world,))
    state = {
        name: distribute_tensor(tensor, mesh, [Shard(1 if name.startswith("out") else 0)])
        for name, tensor in whole().items()
    }
    checkpoint.save(state, checkpoint_id=unit)
    dist.destroy_process_group()


def whole():
    torch.manual_seed(7)
    return {
        "in.0.w": torch.randn(40, 6),
        "out.0.w": torch.randn(6, 40).bfloat16(),
        "in.1.w": torch.randn(8, 700_000),
        "out.1.w": torch.randn(3, 8),
    }


def load_rows(rank, world, unit):
    """Two ranks of it, twice."""
    join(rank, world, "loaded")
    told = []
    found = ckptfs.load(
        unit, layout="two", tp=2, progress=lambda done, total: told.append((done, total))
    )
    wanted = {
        name: tensor.chunk(2, 1 if name.startswith("out") else 0)[rank % 2]
        for name, tensor in whole().items()
    }
    assert set(found) == set(wanted)
    for name, tensor in wanted.items():
        assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor), name
    assert told == sorted(told) and told[-1][0] == told[-1][1] > 4 * 700_000 * 4
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))["tp"]
    mine = {
        name: distribute_tensor(
            torch.zeros_like(tensor), mesh, [Shard(1 if name.startswith("out") else 0)]
        )
        for name, tensor in whole().items()
    }
    mine["out.1.w"] = torch.zeros(4, 3, dtype=torch.float64).t()
    assert ckptfs.load(unit, layout="two", tp=2, into=mine) is mine
    for name, tensor in wanted.items():
        assert torch.equal(local(mine[name]), tensor.to(mine[name].dtype)), name
    dist.destroy_process_group()


def main():
    mount = Mount({})
    top = mount.mnt + "/run"
    os.mkdir(top)
    steps = [None] + [f"{top}/step-{n}" for n in range(1, 5)]
    for phase, shape in enumerate(((8,), (6,), (2, 4), (3,))):
        world = shape[0] * (shape[1] if len(shape) > 1 else 1)
        mp.spawn(train, (world, phase, shape, steps[phase], steps[phase + 1]), nprocs=world)
        mount.settled()

    unit = top + "/rows-1"
    mp.spawn(save_rows, (4, unit), nprocs=4)
    mount.settled()
    with open(top + "/two.json", "w", encoding="utf-8") as file:
        file.write(
            '{"tensors": [{"match": "in.*", "tp": 0, "pp": "layer"},'
            ' {"match": "out.*", "tp": 1, "pp": "layer"}]}'
        )
    mp.spawn(load_rows, (4, unit), nprocs=4)
    last = ckptfs.load(unit, layout="two", tp=2, pp=2, rank=3)
    assert sorted(last) == ["in.1.w", "out.1.w"]
    assert torch.equal(last["in.1.w"], whole()["in.1.w"][4:])
    one = ckptfs.load(unit, view="only=in.0.w,dtype=bf16")
    assert list(one) == ["in.0.w"]
    assert torch.equal(one["in.0.w"], whole()["in.0.w"].bfloat16())

    for arguments, text in (
        ({"layout": "too"}, "there is no layout too.json"),
        ({"layout": "two", "tp": 3}, "cannot share its axis equally"),
        ({"layout": "two", "rank": 1}, "it has no rank 1, but 1 ranks"),
        ({"view": "prat=all"}, "Is 'part' meant?"),
        ({"view": "only=in.0.w", "into": {"x": whole()["in.0.w"]}}, "2 names differ"),
        ({"view": "only=in.0.w", "into": {"in.0.w": torch.zeros(1)}}, "[1] is wanted"),
    ):
        error = fails(ckptfs.load, unit, **arguments)
        assert text in str(error), (arguments, error)
    assert "with view= or layout=" in str(fails(ckptfs.load, unit))
    assert "lies in no mount" in str(fails(ckptfs.load, TMP, view="part=all"))
    os.mkdir(top + "/step-9")
    with open(top + "/step-9/__0_0.distcp", "wb"):
        pass
    assert "is being saved" in str(fails(ckptfs.load, top + "/step-9", view="part=all"))
    ckptfs.abandon(top + "/step-9")
    mount.umount()


if __name__ == "__main__":
    main()
