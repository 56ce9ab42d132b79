# SPDX-License-Identifier: MIT
"""Saves of one training loop, side by side: none, torch.save, DCP save, DCP async_save, ckptfs.

    side_by_side.py --kit DIR [--device cuda|cpu] [--params N] [--steps N] [--dir DIR] [--mount DIR]

A stack of linear layers and AdamW, saved after every step but the first. Of each way: how long a
step takes, and how long saving blocks the loop: in the call, and before the next update. Prints
JSON. With --mount DIR the files of ckptfs are in that mount; without, the daemon is one in this
process, and what it captures goes nowhere while times are taken (what the bytes are is looked at in
a save of its own). Status 77: PyTorch, or its CUDA, is not there.

--device cpu is for trying out this program; its numbers mean nothing.
"""

import argparse
import ctypes
import json
import os
import shutil
import statistics
import sys
import tempfile
import time

try:
    import torch
except ImportError:
    print(json.dumps({"skipped": "no PyTorch"}))
    sys.exit(77)

ALIGN = 4096
LANDED = 1  # CKPTFS_BARRIER_LANDED


class TensorInfo(ctypes.Structure):
    _fields_ = [
        ("id", ctypes.c_uint64),
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_int),
        ("memory", ctypes.c_int),
        ("dtype", ctypes.c_char_p),
        ("ndim", ctypes.c_uint),
        ("shapes", ctypes.c_uint64 * 24),
        ("bytes", ctypes.c_uint64),
        ("eager", ctypes.c_int),
    ]


class WriteOp(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "id",
            "file_off",
            "src_off",
            "len",
            "addr",
            "stream",
            "rows",
            "row_bytes",
            "pitch",
        )
    ]


class Ckptfs:
    """A session of libckptfs, with all tensors of the state registered."""

    def __init__(self, library, path, tensors):
        self.lib = library
        self.lib.ckptfs_error.restype = ctypes.c_char_p
        self.lib.ckptfs_error.argtypes = [ctypes.c_void_p]
        self.session = ctypes.c_void_p()
        self.check(
            self.lib.ckptfs_open(os.fsencode(path), None, ctypes.byref(self.session)), "ckptfs_open"
        )
        infos = (TensorInfo * len(tensors))()
        self.ops = (WriteOp * len(tensors))()
        at = 0
        for i, (name, t) in enumerate(tensors):
            size = t.numel() * t.element_size()
            infos[i] = TensorInfo(
                id=i + 1, name=name.encode(), kind=1, memory=2 if t.is_cuda else 0, bytes=size
            )
            self.ops[i] = WriteOp(
                id=i + 1, file_off=at, len=size, addr=t.data_ptr(), stream=stream_of(t)
            )
            at += (size + ALIGN - 1) // ALIGN * ALIGN
        self.check(
            self.lib.ckptfs_register(self.session, infos, ctypes.c_size_t(len(tensors))),
            "ckptfs_register",
        )

    def check(self, err, what):
        if err:
            text = self.lib.ckptfs_error(self.session if self.session else None).decode()
            raise RuntimeError(f"{what}: {err}: {text}")

    def write(self, fd):
        self.check(
            self.lib.ckptfs_write(self.session, fd, self.ops, ctypes.c_size_t(len(self.ops))),
            "ckptfs_write",
        )

    def barrier(self, stream=None, flags=0):
        streams = (ctypes.c_uint64 * 1)(stream or 0)
        n = 0 if stream is None else 1
        self.check(
            self.lib.ckptfs_barrier(
                self.session, streams, ctypes.c_size_t(n), flags, ctypes.c_uint64(0)
            ),
            "ckptfs_barrier",
        )

    def barrier_landed(self):
        self.barrier(flags=LANDED)

    def close(self):
        self.lib.ckptfs_close(self.session)


def stream_of(tensor):
    return torch.cuda.current_stream(tensor.device).cuda_stream if tensor.is_cuda else 0


def current_stream(device):
    """For a barrier; None on the host, which has none."""
    return torch.cuda.current_stream().cuda_stream if device == "cuda" else None


def wait_for(device):
    if device == "cuda":
        torch.cuda.synchronize()


class Training:
    def __init__(self, device, params, batch):
        width = max(64, int((params / 16) ** 0.5) // 64 * 64)
        torch.manual_seed(0)
        dtype = torch.bfloat16 if device == "cuda" else torch.float32
        self.device = device
        self.model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(16)]).to(
            device, dtype
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.input = torch.randn(batch, width, device=device, dtype=dtype)
        self.passes = 1
        self.before_update = lambda: None

    def forward_and_backward(self):
        for _ in range(self.passes):
            self.model(self.input).float().square().mean().backward()

    def step(self):
        self.forward_and_backward()
        self.before_update()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)

    def calibrate(self, seconds):
        """So many passes that a step takes so long."""
        self.step()
        wait_for(self.device)
        start = time.monotonic()
        self.step()
        wait_for(self.device)
        self.passes = max(1, round(seconds / (time.monotonic() - start)))

    def state(self):
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def tensors(self):
        found = []
        for name, p in self.model.named_parameters():
            found.append((name, p.data))
            found += [
                (f"{name}.{key}", t) for key, t in self.optimizer.state[p].items() if t.numel() > 1
            ]
        return found


# --- ways to save: save(step) and wait() before the update; both are timed ---


class Nothing:
    def __init__(self, training, directory):
        self.training, self.directory = training, directory

    def save(self, step):
        pass

    def wait(self):
        pass

    def end(self):
        pass

    def path(self, step):
        return os.path.join(self.directory, f"{type(self).__name__.lower()}-{step % 2}")


class TorchSave(Nothing):
    def save(self, step):
        torch.save(self.training.state(), self.path(step) + ".pt")


class DcpSave(Nothing):
    def save(self, step):
        import torch.distributed.checkpoint as dcp

        dcp.save(self.training.state(), checkpoint_id=self.path(step), no_dist=True)


class DcpAsyncSave(Nothing):
    future = None

    def save(self, step):
        import torch.distributed.checkpoint as dcp

        if self.future:
            self.future.result()
        self.future = dcp.async_save(
            self.training.state(), checkpoint_id=self.path(step), no_dist=True
        )

    def end(self):
        if self.future:
            self.future.result()


class PinnedCopy(Nothing):
    """The floor of whoever copies before it goes on."""

    def __init__(self, training, directory):
        super().__init__(training, directory)
        pin = training.device == "cuda"
        self.copies = [
            (torch.empty(t.shape, dtype=t.dtype, pin_memory=pin), t) for _, t in training.tensors()
        ]

    def save(self, step):
        for copy, t in self.copies:
            copy.copy_(t, non_blocking=True)
        wait_for(self.training.device)


class CkptfsLazy(Nothing):
    library, session_path, standin = None, None, False

    def __init__(self, training, directory):
        super().__init__(training, self.session_path)
        self.session = Ckptfs(self.library, self.session_path, training.tensors())
        self.stream = current_stream(training.device)

    def save(self, step):
        if self.standin:
            path = os.path.join(self.directory, f"step-{step}")
        else:
            os.makedirs(os.path.join(self.directory, f"step-{step}"), exist_ok=True)
            path = os.path.join(self.directory, f"step-{step}", "__0_0.distcp")
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            self.session.write(fd)
        finally:
            os.close(fd) if not self.standin else self.keep(fd)
        if not self.standin:
            temporary = os.path.join(os.path.dirname(path), ".metadata.tmp")
            with open(temporary, "w", encoding="ascii") as file:
                file.write(f"step {step}\n")
            os.rename(temporary, temporary[:-4])
        return path

    opened = ()

    def keep(self, fd):
        """The daemon of this process writes to the descriptor of a file until it is captured."""
        self.opened = (*self.opened, fd)

    def wait(self):
        self.session.barrier(self.stream)

    def end(self):
        self.session.barrier()
        self.session.close()
        for fd in self.opened:
            os.close(fd)

    def verify(self):
        """How many bytes of a save differ from the state; an update follows at once."""
        t = self.training
        expected = [tensor.detach().cpu().clone() for _, tensor in t.tensors()]
        if self.standin:
            self.library.standin_sink(0)
        path = self.save(1000000)
        self.wait()
        t.optimizer.step()
        self.session.barrier()
        wrong = 0
        with open(path, "rb") as file:
            for op, tensor in zip(self.session.ops, expected):
                file.seek(op.file_off)
                got = torch.frombuffer(bytearray(file.read(op.len)), dtype=torch.uint8)
                wrong += int((got != tensor.contiguous().view(-1).view(torch.uint8)).sum())
        if self.standin:
            self.library.standin_sink(1)
        return wrong


WAYS = {
    "none": Nothing,
    "torch.save": TorchSave,
    "dcp.save": DcpSave,
    "dcp.async_save": DcpAsyncSave,
    "pinned copy": PinnedCopy,
    "ckptfs": CkptfsLazy,
}


def measure(way, training, steps):
    blocked, took = [], []
    waited = 0.0

    def wait():
        nonlocal waited
        start = time.monotonic()
        way.wait()
        waited = time.monotonic() - start

    training.before_update = wait
    for step in range(steps + 1):
        start = time.monotonic()
        training.step()
        wait_for(training.device)
        saving = time.monotonic()
        way.save(step)
        saved = time.monotonic() - saving
        # the first save is not what a save costs later, and nothing was saved before its step
        if step:
            took.append(time.monotonic() - start)
            blocked.append(saved + waited)
        else:
            first = saved
    way.end()
    training.before_update = lambda: None
    return {
        "step_s": statistics.median(took),
        "blocked_s": statistics.median(blocked),
        "first_save_s": first,
    }


def ratios(found):
    def ratio(a, b, key):
        return (
            found[a][key] / found[b][key]
            if "error" not in found[a] and "error" not in found[b] and found[b][key]
            else None
        )

    return {
        "step_inflation": ratio("ckptfs", "none", "step_s"),
        "blocked_of_torch_save": ratio("ckptfs", "torch.save", "blocked_s"),
        "blocked_of_async_save": ratio("ckptfs", "dcp.async_save", "blocked_s"),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--kit", required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--params", type=float, default=5e8)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--step-seconds", type=float, default=2)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--dir")
    parser.add_argument("--mount")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        print(json.dumps({"skipped": "this PyTorch has no GPU"}))
        return 77

    directory = tempfile.mkdtemp(prefix="side-by-side-", dir=args.dir)
    CkptfsLazy.standin = not args.mount
    CkptfsLazy.library = ctypes.CDLL(
        os.path.join(args.kit, "libckptfs.so.1" if args.mount else "libstandin.so")
    )
    if args.mount:
        CkptfsLazy.session_path = args.mount
    else:
        CkptfsLazy.library.standin_begin.restype = ctypes.c_char_p
        CkptfsLazy.session_path = CkptfsLazy.library.standin_begin(8 << 20, 64).decode()
        CkptfsLazy.library.standin_sink(1)

    training = Training(args.device, args.params, args.batch)
    training.calibrate(args.step_seconds)
    result = {
        "torch": torch.__version__,
        "device": args.device,
        "daemon": "in this process" if CkptfsLazy.standin else "mount",
        "state_bytes": sum(t.numel() * t.element_size() for _, t in training.tensors()),
        "ways": {},
    }
    for name, kind in WAYS.items():
        try:
            result["ways"][name] = measure(kind(training, directory), training, args.steps)
        except Exception as error:
            result["ways"][name] = {"error": f"{type(error).__name__}: {error}"}
            training.before_update = lambda: None
        if CkptfsLazy.standin and name == "ckptfs":
            shutil.rmtree(CkptfsLazy.session_path, ignore_errors=True)
            CkptfsLazy.session_path = CkptfsLazy.library.standin_begin(8 << 20, 64).decode()
    way = CkptfsLazy(training, directory)
    result["wrong_bytes"] = way.verify()
    way.end()
    if CkptfsLazy.standin:
        shutil.rmtree(CkptfsLazy.session_path, ignore_errors=True)
    shutil.rmtree(directory, ignore_errors=True)
    result["ratios"] = ratios(result["ways"])
    print(json.dumps(result, indent=1))
    return (
        1 if result["wrong_bytes"] or any("error" in way for way in result["ways"].values()) else 0
    )


if __name__ == "__main__":
    sys.exit(main())
