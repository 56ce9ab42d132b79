#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 300
"""Files that libckptfs writes (ckptfs_file_*) are read by the stock safetensors library, by NumPy
from their bytes, and by PyTorch's Hugging Face storage, which puts the parts together; and what
these write, libckptfs reads. Of headers that are damaged in any way libckptfs takes none that
safetensors refuses."""

from harness import enter

enter("torch", "safetensors", "numpy")
import ctypes
import glob
import json
import os
import random
import struct
import subprocess

import numpy
import safetensors
import torch
from safetensors.numpy import load_file as load_numpy
from safetensors.torch import load_file, save_file
from torch.distributed import checkpoint
from torch.distributed.checkpoint.hf_storage import (
    HuggingFaceStorageReader,
    HuggingFaceStorageWriter,
)

from harness.environment import need_fuse
from harness.mount import Mount, must

ROWS, COLUMNS = 1000, 700
CUTS = {"by_row": (0, 600), "by_column": (1, 150)}  # dimension, and where it is split
WHOLE = {"by_row": numpy.arange(ROWS * COLUMNS, dtype="float32").reshape(ROWS, COLUMNS)}
WHOLE["by_column"] = -WHOLE["by_row"]
MUTANTS = 20000
DTYPES = {
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.bool: "BOOL",
    torch.uint8: "U8",
}


def part(name, file):
    dim, cut = CUTS[name]
    return numpy.split(WHOLE[name], [cut], dim)[file]


def blob(file):
    return numpy.array(
        [(i * 31 + i // 256) % 256 for i in range(100001 - file * 1000)], dtype="uint8"
    )


def by_hand(path):
    """NumPy, from the bytes of the file as the format is described."""
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__")
    types = {"F32": "<f4", "U8": "u1", "I64": "<i8"}
    return {
        name: numpy.frombuffer(
            content[8 + length :][slice(*entry["data_offsets"])], types[entry["dtype"]]
        ).reshape(entry["shape"])
        for name, entry in header.items()
    }


def expect_whole(directory):
    paths = sorted(glob.glob(directory + "/*.safetensors"))
    assert len(paths) == 2, paths
    for file, path in enumerate(paths):
        for load in (load_numpy, load_file, by_hand):
            got = {name: numpy.asarray(tensor) for name, tensor in load(path).items()}
            names = {"by_row", "by_column", f"object.{file}"} | ({"step"} if not file else set())
            assert set(got) == names, (load, names)
            for name in CUTS:
                assert got[name].dtype == "float32" and numpy.array_equal(
                    got[name], part(name, file)
                ), (load, name)
            assert numpy.array_equal(got[f"object.{file}"], blob(file)), load
            assert file or (got["step"].shape == () and got["step"] == 12), load
        with safetensors.safe_open(path, framework="pt") as opened:
            assert opened.metadata()["format"] == "pt" and opened.metadata()["step"] == "12"
    # Put together again, and as another number of ranks would want it.
    state = {name: torch.zeros(ROWS, COLUMNS) for name in CUTS}
    state.update(
        {
            "step": torch.zeros((), dtype=torch.int64),
            "object.1": torch.zeros(99001, dtype=torch.uint8),
        }
    )
    checkpoint.load(state, storage_reader=HuggingFaceStorageReader(path=directory))
    for name in CUTS:
        assert numpy.array_equal(state[name].numpy(), WHOLE[name]), name
    assert state["step"] == 12 and numpy.array_equal(state["object.1"].numpy(), blob(1))
    metadata = HuggingFaceStorageReader(path=directory).read_metadata().state_dict_metadata
    assert all(
        metadata[name].size == torch.Size((ROWS, COLUMNS)) and len(metadata[name].chunks) == 2
        for name in CUTS
    )


# --- libckptfs, by ctypes ---


class Entry(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_uint64)),
        ("shard_offset", ctypes.POINTER(ctypes.c_uint64)),
        ("global_shape", ctypes.POINTER(ctypes.c_uint64)),
        ("file_off", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("ndim", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


class ReadOp(ctypes.Structure):
    _fields_ = (
        [(name, ctypes.c_uint64) for name in ("file_off", "dst_off", "len")]
        + [("addr", ctypes.c_void_p)]
        + [(name, ctypes.c_uint64) for name in ("stream", "rows", "row_bytes", "pitch")]
        + [("memory", ctypes.c_uint32), ("reserved", ctypes.c_uint32)]
    )


library = ctypes.CDLL(os.environ["BUILD"] + "/lib/libckptfs.so.1")
library.ckptfs_index_find.restype = ctypes.POINTER(Entry)
library.ckptfs_error.restype = ctypes.c_char_p


def takes(path):
    index = ctypes.c_void_p()
    if library.ckptfs_index_open(path.encode(), ctypes.byref(index)):
        return False
    library.ckptfs_index_close(index)
    return True


def expect_read(path, state, offsets=None):
    """By libckptfs, what others wrote."""
    index = ctypes.c_void_p()
    assert not library.ckptfs_index_open(path.encode(), ctypes.byref(index)), library.ckptfs_error(
        None
    )
    for name, tensor in state.items():
        entry = library.ckptfs_index_find(index, name.encode()).contents
        assert entry.dtype.decode() == DTYPES[tensor.dtype] and entry.shape[: entry.ndim] == list(
            tensor.shape
        ), name
        assert (
            entry.shard_offset[: entry.ndim] == offsets[name] if offsets else not entry.shard_offset
        )
        got = numpy.empty(entry.bytes, dtype="uint8")
        op = ReadOp(file_off=entry.file_off, len=entry.bytes, addr=got.ctypes.data)
        assert not library.ckptfs_read(None, library.ckptfs_index_fd(index), ctypes.byref(op), 1, 3)
        assert got.tobytes() == tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes(), (
            name
        )
    library.ckptfs_index_close(index)


def mutated(text, rng):
    out = bytearray(text)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(out))
        kind = rng.randrange(4)
        if kind == 0:
            out[at] = rng.choice(b'{}[]",:0123456789.-eE\\u \n\xc3\xa9\x00ABs')
        elif kind == 1:
            del out[at : at + rng.randint(1, 4)]
        elif kind == 2:
            out[at:at] = out[rng.randrange(len(out)) :][: rng.randint(1, 12)]
        else:
            out[at:at] = bytes([rng.choice(b'{}[]",:0123456789 ')])
    return bytes(out)


def expect_no_more_than_safetensors_takes(path):
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack("<Q", content[:8])
    header, data = content[8 : 8 + length].rstrip(b" "), content[8 + length :]
    rng, counts = random.Random(5), {}
    for _ in range(MUTANTS):
        text = mutated(header, rng)
        whole = struct.pack("<Q", len(text)) + text + data
        with open("mutant.safetensors", "wb") as file:
            file.write(whole)
        try:
            safetensors.deserialize(whole)
            stock = True
        except safetensors.SafetensorError:
            stock = False
        ours = takes("mutant.safetensors")
        assert stock or not ours, (text, "is taken by libckptfs only")
        counts[stock, ours] = counts.get((stock, ours), 0) + 1
    print("damaged headers that (safetensors, libckptfs) take:", counts)
    # Those that only safetensors takes are few: its JSON may begin with a blank, and strings may
    # hold a NUL.
    assert counts[True, True] > counts.get((True, False), 0) * 4, counts


def main():
    need_fuse()
    mount = Mount({"host_cache_size": "64M", "quiet_s": 1})
    shards = os.environ["BUILD"] + "/tests/client/shards"
    subprocess.run([shards, "save", mount.mnt + "/one"], check=True)
    must("wait", "--timeout", "60", mount.mnt + "/one")
    expect_whole(mount.mnt + "/one")
    expect_whole(mount.back + "/one")
    mount.umount()
    expect_whole(mount.back + "/one")

    os.chdir(os.environ["TEST_TMP"])
    state = {
        "a.weight": torch.randn(33, 7),
        "b": torch.randn(5, 3).bfloat16(),
        "scalar": torch.tensor(7),
        "none": torch.zeros(0, 4),
        'm\u00fc"\\': torch.tensor([True, False, True]),
    }
    save_file(state, "stock.safetensors", metadata={"k": "v\n"})
    expect_read("stock.safetensors", state)
    del state['m\u00fc"\\']  # of which DCP has none
    checkpoint.save(
        state, storage_writer=HuggingFaceStorageWriter(path="dcp", save_distributed=True)
    )
    (written,) = glob.glob("dcp/*.safetensors")
    expect_read(written, state, {name: [0] * tensor.dim() for name, tensor in state.items()})
    save_file(
        {"a": torch.zeros(2, 3), "b\u00e9": torch.ones(3, dtype=torch.uint8)},
        "small.safetensors",
        metadata={"k": "v"},
    )
    expect_no_more_than_safetensors_takes("small.safetensors")


main()
