# SPDX-License-Identifier: MIT
"""One process of a training job, as far as its files go: does what it is told, a JSON list [call,
arguments...] a line on standard input, and answers each by a line: null, or the error. Its rank is
in its environment since exec."""

import contextlib
import json
import os
import random
import shutil
import sys

fds = {}


def data(seed, size):
    """As that of units.py, so that what was written is known there."""
    return random.Random(seed).randbytes(size)


def tensors(seed, size):
    """A whole safetensors file."""
    header = json.dumps({"t": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + data(seed, size)


def tensors_of(size, seed):
    """One that is that long with its header."""
    length = 92 if size > 100 else 84
    header_ = json.dumps(
        {"t": {"dtype": "U8", "shape": [size - 8 - length], "data_offsets": [0, size - 8 - length]}}
    )
    return (
        length.to_bytes(8, "little")
        + header_.ljust(length).encode()
        + data(seed, size - 8 - length)
    )


def create(path, flags=0):
    fds[path] = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | flags, 0o644)


def append(path, text):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(fd, text.encode())
    os.close(fd)


def write(path, size, seed):
    put(path, data(seed, size))


def put(path, part):
    while part:
        part = part[os.write(fds[path], part) :]


def close(path):
    os.close(fds.pop(path))


def file(path, size=3000, seed=0, sync=False):
    """As torch.save and json.dump do it."""
    create(path)
    if path.endswith(".safetensors"):
        os.write(fds[path], tensors(seed, size))
    else:
        write(path, size, seed)
    if sync:
        os.fsync(fds[path])
    close(path)


def text(path, content):
    create(path)
    os.write(fds[path], content.encode())
    close(path)


def exclusive(path, size=3000, seed=0):
    """As tar, safetensors and tempfile make files."""
    fds[path] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    write(path, size, seed)
    close(path)


def refill(path, at, size, seed=0, flags=0):
    """A file that was closed is opened again and written on."""
    fd = os.open(path, os.O_RDWR | flags)
    os.pwrite(fd, data(seed, size), at)
    os.close(fd)


def header(path, size):
    """The beginning of a safetensors file whose tensor of that size comes later. Returns nothing;
    it is 100 bytes long."""
    create(path)
    text_ = (
        json.dumps({"t": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}})
        .ljust(92)
        .encode()
    )
    os.write(fds[path], len(text_).to_bytes(8, "little") + text_)
    close(path)


def metadata(directory, seed=0, name=".metadata"):
    """As torch.distributed.checkpoint ends a save."""
    temp = directory + "/" + name + ".tmp"
    file(temp, 1400, seed, True)
    if os.path.exists(directory + "/" + name):
        os.unlink(directory + "/" + name)
    os.rename(temp, directory + "/" + name)


def through_temp(path, size=3000, seed=0):
    """As safetensors from 0.8 on: the rename comes before the close."""
    temp = os.path.dirname(path) + "/.tmpAb3dEf"
    fd = os.open(temp, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    content = tensors(seed, size)
    os.ftruncate(fd, len(content))
    os.write(fd, content)
    os.rename(temp, path)
    os.close(fd)


CALLS = {
    "append": append,
    "chdir": os.chdir,
    "close": close,
    "copytree": shutil.copytree,
    "create": create,
    "exclusive": exclusive,
    "file": file,
    "fsync": lambda path: os.fsync(fds[path]),
    "header": header,
    "makedirs": lambda path: os.makedirs(path, exist_ok=True),
    "metadata": metadata,
    "mkdir": os.mkdir,
    "move": shutil.move,
    "refill": refill,
    "rename": os.rename,
    "rmdir": os.rmdir,
    "rmtree": shutil.rmtree,
    "symlink": os.symlink,
    "tensors": lambda path, size, seed: put(path, tensors_of(size, seed)),
    "text": text,
    "through_temp": through_temp,
    "say": lambda path, text_: put(path, text_.encode()),
    "unlink": os.unlink,
    "write": write,
}

for line in sys.stdin:
    call, *args = json.loads(line)
    if call == "exit":
        os._exit(args[0])
    try:
        CALLS[call](*args)
        answer = None
    except OSError as e:
        answer = e.errno
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(answer), flush=True)
