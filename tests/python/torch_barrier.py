#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 600
"""Captures are slow, and the next step comes at once. The barrier before each optimizer's step
stands in all ways to make one: every byte is that of the save. Without it each such run fails with
ESTALE, names a tensor, and commits nothing."""

import errno
import os

from lazily import Said, copy, fails, state_of

import torch
from torch import nn

from harness.digest import digest
from harness.mount import Mount, wait

import ckptfs
from ckptfs import hooks

torch.set_num_threads(1)
WIDTH = 400
mount = Mount({"host_cache_size": "64M", "capture_bw": "20M", "capture_check": "all"})
said = Said()


def model_of():
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH)
    )


def backward(model, scale=1):
    (model(torch.randn(8, WIDTH)).square().mean() * scale).backward()


class Way:
    """To train: once() changes model and optimizers."""

    def __init__(self, make):
        self.model = model_of()
        self.optimizers = [make(self.model.parameters())]

    def once(self):
        self.optimizers[0].zero_grad()
        backward(self.model)
        self.optimizers[0].step()


class Accumulating(Way):
    def once(self):
        self.optimizers[0].zero_grad()
        for _ in range(3):
            backward(self.model)
        self.optimizers[0].step()


class Scaled(Way):
    def __init__(self, make):
        super().__init__(make)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=4.0)

    def once(self):
        self.optimizers[0].zero_grad()
        self.scaler.scale(self.model(torch.randn(8, WIDTH)).square().mean()).backward()
        self.scaler.unscale_(self.optimizers[0])
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizers[0])
        self.scaler.update()


class Several(Way):
    def __init__(self, make):
        super().__init__(make)
        half = list(self.model.parameters())
        self.optimizers = [make(half[:2]), torch.optim.SGD(half[2:], lr=0.1, momentum=0.9)]

    def once(self):
        for o in self.optimizers:
            o.zero_grad()
        backward(self.model)
        for o in self.optimizers:
            o.step()


class InBackward(Way):
    """Each parameter has an optimizer, which steps as soon as there is a gradient."""

    def __init__(self, make):
        super().__init__(make)
        self.optimizers = []
        for p in self.model.parameters():
            self.optimizers.append(make([p]))
            p.register_post_accumulate_grad_hook(
                lambda p, o=self.optimizers[-1]: o.step() or o.zero_grad()
            )

    def once(self):
        backward(self.model)


class Compiled(Way):
    def __init__(self, make):
        super().__init__(make)
        self.step = torch.compile(self.optimizers[0].step, backend="eager")

    def once(self):
        self.optimizers[0].zero_grad()
        backward(self.model)
        self.step()


class CompiledWhole(Way):
    def __init__(self, make):
        super().__init__(make)

        @torch.compile(backend="eager")
        def step():
            self.optimizers[0].step()

        self.step = step

    def once(self):
        self.optimizers[0].zero_grad()
        backward(self.model)
        self.step()


class Closure(Way):
    def once(self):
        def closure():
            self.optimizers[0].zero_grad()
            loss = self.model(torch.randn(8, WIDTH)).square().mean()
            loss.backward()
            return loss

        self.optimizers[0].step(closure)


class Scheduled(Way):
    """With a learning rate that changes, and a mean of the weights, which no optimizer knows."""

    def __init__(self, make):
        super().__init__(make)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizers[0], 1)
        self.mean = torch.optim.swa_utils.AveragedModel(self.model)

    def once(self):
        super().once()
        self.schedule.step()
        self.mean.update_parameters(self.model)


class Own(torch.optim.Optimizer):
    """Of somebody else: what it keeps may change whenever it likes, so that is not lazy; its
    parameters are."""

    def __init__(self, params):
        super().__init__(params, {})

    @torch.no_grad()
    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            state = self.state.setdefault(p, {"sum": torch.zeros_like(p)})
            state["sum"].add_(p.grad)
            p.sub_(state["sum"], alpha=0.01)


adam = torch.optim.AdamW
ways = {
    "foreach": lambda: Way(lambda ps: adam(ps, foreach=True)),
    "one by one": lambda: Way(lambda ps: adam(ps, foreach=False)),
    "fused": lambda: Way(lambda ps: adam(ps, fused=True)),
    "momentum": lambda: Way(lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9)),
    "adagrad": lambda: Way(torch.optim.Adagrad),
    "accumulation": lambda: Accumulating(adam),
    "GradScaler": lambda: Scaled(adam),
    "two optimizers": lambda: Several(adam),
    "in backward": lambda: InBackward(adam),
    "compiled step": lambda: Compiled(adam),
    "compiled function": lambda: CompiledWhole(adam),
    "L-BFGS": lambda: Closure(lambda ps: torch.optim.LBFGS(ps, max_iter=3)),
    "schedule and mean": lambda: Scheduled(adam),
    "of somebody else": lambda: Way(Own),
}


def save(way, path):
    state = state_of(
        way.model,
        *way.optimizers,
        mean=getattr(way, "mean", way.model).state_dict(),
        random=torch.get_rng_state(),
    )
    want = digest(copy(state))
    ckptfs.save(state, path)
    return want


def with_barrier(name, way):
    directory = f"{mount.mnt}/{name.replace(' ', '-')}"
    os.mkdir(directory)
    way.once()
    session = ckptfs.session_of(directory)
    wanted = {}
    for step in range(3):
        path = f"{directory}/step-{step}.pt"
        before = session.stats().captures
        wanted[path] = save(way, path)
        assert session.stats().captures - before >= 2, (name, "nothing of it was lazy")
        assert session.stats().pending, (name, "it was captured before the step could change it")
        way.once()
        assert not session.pending
        for p in way.model.parameters():  # and by other means, which the barrier lets
            p.data.mul_(1.0001)
    ckptfs.barrier(landed=True)
    for path, want in wanted.items():
        assert digest(torch.load(path, weights_only=True)) == want, (
            name,
            path,
            "other bytes than those that were saved",
        )
        assert digest(torch.load(path, mmap=True)) == want, (name, path)


def without_barrier(name, way):
    path = f"{mount.mnt}/without-{name.replace(' ', '-')}.pt"
    way.once()
    hooks.remove()
    try:
        save(way, path)
        way.once()
        error = fails(ckptfs.barrier)
    finally:
        hooks.install()
    assert (
        error.errno == errno.ESTALE
        and "was changed before" in str(error)
        or "changed before it was captured" in str(error)
    ), error
    assert "model." in str(error) or "optimizers." in str(error), error
    wait(lambda: not os.path.exists(path))
    return os.path.basename(path)


def tensors(way):
    return [
        *way.model.parameters(),
        *(value for state in way.optimizers[0].state.values() for value in state.values()),
    ]


ckptfs.session_of(mount.mnt)
lost = []
for its_name, make_way in ways.items():
    with_barrier(its_name, make_way())
    lost.append(without_barrier(its_name, make_way()))
    print(its_name, flush=True)
assert not said.lines, said.lines

# What the hook meets is told by the next save, not by the step.
one = ways["foreach"]()
one.once()
save(one, mount.mnt + "/told.pt")
for tensor in tensors(one):
    tensor.data.mul_(0.5)
one.once()
assert (
    len(said.lines) == 1
    and "torch knows" not in said.lines[0]
    and "changed before it was captured" in said.lines[0]
), said.lines
told = fails(save, one, mount.mnt + "/not-made.pt")
assert told.errno == errno.ESTALE and not os.path.exists(mount.mnt + "/not-made.pt"), told
# With a version that torch counts, the tensor is named twice.
save(one, mount.mnt + "/told.pt")
with torch.no_grad():
    for tensor in tensors(one):
        tensor.mul_(0.5)
assert "torch knows that these were changed since: model.0.weight, " in str(fails(ckptfs.barrier))
lost += ["told.pt", "not-made.pt"]
save(one, mount.mnt + "/good.pt")
one.once()
ckptfs.session_of(mount.mnt).close()
mount.settled()
assert not [x for x in lost if os.path.exists(mount.back + "/" + x)]
assert os.path.exists(mount.back + "/good.pt")
mount.umount()
