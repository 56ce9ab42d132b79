# SPDX-License-Identifier: MIT
"""Lazy saves of a PyTorch training in the ways that people train: are the saved bytes right?

    modes.py --kit DIR [--device cuda|cpu] [--mode NAME] [--params N] [--steps N] [--dir DIR]
             [--mount DIR] [--control]

Each mode runs in a process of its own, saves after every step, and updates at once. Then what was
saved is compared with copies that the device made in the same order. With --mount DIR the Python
package of ckptfs saves, whose hooks place the barriers; without, libckptfs with a daemon in this
process, and this program calls the barrier. Prints JSON. Status 1: something is wrong; 77: PyTorch,
or its CUDA, is not there.

--control compares with copies of one step later: all saves must look wrong then.
--device cpu is for trying out this program: no mode is then more than a loop on the host.
"""

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../../../client/python")]

from side_by_side import Ckptfs, current_stream, torch, wait_for

TINY, TINY_ELEMENTS = 10000, 4096
LIMIT_S = 120  # of a mode
# The environment that a mode needs; the allocator reads it when CUDA is first used.
MODES = {
    "eager": {},
    "expandable segments": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    "cudaMallocAsync": {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"},
    "CUDA graphs": {},
    "FSDP2": {},
    "torch.compile": {},
    "10^4 tensors": {},
}


class Skipped(Exception):
    """A mode that cannot run here; says why."""


def model_of(params, device):
    width = max(64, int((params / 8) ** 0.5) // 64 * 64)
    torch.manual_seed(0)
    return torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(8)]).to(device)


class Tiny(torch.nn.Module):
    """As many tensors as a large model has, and more."""

    def __init__(self, device):
        super().__init__()
        self.all = torch.nn.ParameterList(
            torch.full((TINY_ELEMENTS,), float(i), device=device) for i in range(TINY // 3)
        )

    def forward(self, x):
        return torch.stack(torch._foreach_norm(list(self.all))).sum() * x.mean()


class Training:
    """.replay() is a step: work on the device that ends with an update."""

    def __init__(self, mode, device, params):
        self.device = device
        self.model = Tiny(device) if mode == "10^4 tensors" else model_of(params, device)
        if mode == "FSDP2":
            shard(self.model, device)
        cuda = {"capturable": True} if device == "cuda" else {}
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, **cuda)
        width = self.model[0].in_features if isinstance(self.model, torch.nn.Sequential) else 64
        self.input = torch.randn(64, width, device=device)
        self.called = torch.compile(self.model) if mode == "torch.compile" else self.model
        self.step()
        self.replay = self.graphed() if mode == "CUDA graphs" else self.step

    def step(self):
        self.called(self.input).square().mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)

    def graphed(self):
        if self.device != "cuda":
            return self.step
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        return lambda: graph.replay()

    def tensors(self):
        """What is saved, by name; of a sharded tensor, this rank's part."""
        found = {}
        for name, p in self.model.named_parameters():
            found[name] = p
            found.update(
                {f"{name}.{key}": t for key, t in self.optimizer.state[p].items() if t.numel() > 1}
            )
        return {name: local(t.detach()) for name, t in found.items()}

    def state(self):
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}


def local(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def shard(model, device):
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard

    backend = "nccl" if device == "cuda" else "gloo"
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    for layer in model:
        fully_shard(layer)
    fully_shard(model)


# --- ways to save: save(step); before_replay(); bytes_of(step) of each tensor, when all is over ---


class ByPackage:
    """The hooks of the package stand before updates, and before replays of graphs."""

    def __init__(self, directory):
        import ckptfs

        self.ckptfs, self.directory = ckptfs, directory
        self.session = ckptfs.session_of(directory)  # before a graph is captured

    def use(self, training):
        self.training = training

    def path(self, step):
        return os.path.join(self.directory, f"step-{step}.pt")

    def save(self, step):
        self.ckptfs.save(self.training.tensors(), self.path(step))

    def before_replay(self):
        pass

    def barrier(self):
        self.ckptfs.barrier()

    def end(self):
        self.ckptfs.barrier(landed=True)

    def saved(self, step):
        self.ckptfs.wait(self.path(step), timeout=LIMIT_S)
        return torch.load(self.path(step), map_location="cpu", weights_only=True)

    def captures(self):
        return self.session.stats().captures

    def close(self):
        self.session.close()


class ByDcp(ByPackage):
    def path(self, step):
        return os.path.join(self.directory, f"step-{step}")

    def save(self, step):
        import torch.distributed.checkpoint as dcp

        import ckptfs.dcp

        dcp.save(self.training.state(), storage_writer=ckptfs.dcp.Writer(self.path(step)))

    def saved(self, step):
        import torch.distributed.checkpoint as dcp

        self.ckptfs.wait(self.path(step), timeout=LIMIT_S)
        dcp.load(self.training.state(), checkpoint_id=self.path(step))  # in place
        wait_for(self.training.device)
        return {name: t.cpu().clone() for name, t in self.training.tensors().items()}


class ByLibrary:
    """The barrier is this program's own."""

    def __init__(self, kit):
        self.library = ctypes.CDLL(os.path.join(kit, "libstandin.so"))
        self.library.standin_begin.restype = ctypes.c_char_p
        self.directory = self.library.standin_begin(8 << 20, 64).decode()
        self.files = []

    def use(self, training):
        self.training = training
        self.session = Ckptfs(self.library, self.directory, list(training.tensors().items()))
        if training.replay == training.step:
            training.optimizer.register_step_pre_hook(lambda *_: self.barrier())
        else:
            self.before_replay = self.barrier

    def barrier(self):
        self.session.barrier(current_stream(self.training.device))

    def save(self, step):
        path = os.path.join(self.directory, f"step-{step}")
        self.files.append(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC))
        self.session.write(self.files[-1])

    def before_replay(self):
        pass

    def end(self):
        self.session.barrier_landed()

    def saved(self, step):
        found = {}
        for op, (name, tensor) in zip(self.session.ops, self.training.tensors().items()):
            data = bytearray(os.pread(self.files[step], op.len, op.file_off))
            found[name] = torch.frombuffer(data, dtype=tensor.dtype).view(tensor.shape)
        return found

    def captures(self):
        return len(self.files) * len(self.session.ops)

    def close(self):
        self.session.close()


# --- a mode ---


def wrong_bytes(expected, saved):
    if set(saved) != set(expected):
        return sum(t.nbytes for t in expected.values())
    return sum(
        int((local(saved[name]).view(torch.uint8) != t.cpu().view(torch.uint8)).sum())
        for name, t in expected.items()
    )


def seconds_of(call, device):
    wait_for(device)
    start = time.monotonic()
    call()
    wait_for(device)
    return time.monotonic() - start


def run(mode, args):
    if not args.mount and mode == "10^4 tensors":
        raise Skipped("the daemon in this process knows fewer tensors")
    way = (
        ByLibrary(args.kit)
        if not args.mount
        else ByDcp(args.mount)
        if mode == "FSDP2"
        else ByPackage(args.mount)
    )
    training = Training(mode, args.device, args.params)
    way.use(training)
    expected = []

    def train(saves):
        for step in range(args.steps):
            way.before_replay()
            training.replay()
            if saves:
                way.save(step)
                if args.control:
                    way.barrier()
                    training.step()
                expected.append({name: t.clone() for name, t in training.tensors().items()})
        way.end()

    train_s = seconds_of(lambda: train(False), args.device)
    saved_s = seconds_of(lambda: train(True), args.device)
    wrong = [wrong_bytes(expected[step], way.saved(step)) for step in range(args.steps)]
    captures = way.captures()
    way.close()
    return {
        "saves": len(wrong),
        "tensors": len(expected[0]),
        "captured_lazily": captures,
        "bytes": sum(t.nbytes for t in expected[0].values()),
        "wrong_bytes": sum(wrong),
        "step_s": train_s / args.steps,
        "step_with_save_s": saved_s / args.steps,
    }


def in_process(mode, args):
    with tempfile.TemporaryDirectory(prefix="mode-", dir=args.mount or args.dir) as directory:
        command = [
            *(sys.executable, os.path.realpath(__file__), "--mode", mode, "--kit", args.kit),
            *("--device", args.device, "--params", str(args.params), "--steps", str(args.steps)),
            *(("--mount", directory) if args.mount else ()),
            *(("--control",) if args.control else ()),
        ]
        try:
            done = subprocess.run(
                command,
                env={**os.environ, **MODES[mode]},
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"error": f"took more than {LIMIT_S} s"}
    try:
        return json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return {"error": (done.stderr.strip() or f"status {done.returncode}")[-2000:]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--kit", required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--mode", choices=list(MODES))
    parser.add_argument("--params", type=float, default=5e7)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--dir")
    parser.add_argument("--mount")
    parser.add_argument("--control", action="store_true")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        print(json.dumps({"skipped": "this PyTorch has no GPU"}))
        return 77
    os.environ.setdefault("CKPTFS_LIB", args.kit)
    if args.mode:
        try:
            print(json.dumps(run(args.mode, args)))
        except Skipped as reason:
            print(json.dumps({"skipped": str(reason)}))
        return 0
    modes = {mode: in_process(mode, args) for mode in MODES}
    print(json.dumps({"torch": torch.__version__, "device": args.device, "modes": modes}, indent=1))
    return int(any("error" in one or one.get("wrong_bytes") for one in modes.values()))


if __name__ == "__main__":
    sys.exit(main())
