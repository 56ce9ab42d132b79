# SPDX-License-Identifier: MIT
"""What the programs of tests/units have in common. `mnt` is a mount of `back`."""

import contextlib
import ctypes
import errno
import fcntl
import glob
import hashlib
import json
import mmap
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

mnt, back = os.environ["MNT"], os.environ["BACK"]
_gate = os.environ.get("GATE")
MB = 1 << 20
is_long = "CKPTFS_TEST_LONG" in os.environ  # all of it, in make check-long
_BLOCKER = "lost+found/blocker.pt"


def data(seed, size):
    """Bytes that depend on nothing but these."""
    return random.Random(seed).randbytes(size)


def safetensors(seed, size):
    """A whole file of one tensor; others of the name *.safetensors are refused."""
    header = json.dumps({"t": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + data(seed, size)


def save(path, content, flags=os.O_TRUNC, mode=0o644, step=MB):
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | flags, mode)
    try:
        for at in range(0, len(content), step):
            part = content[at : at + step]
            assert os.write(fd, part) == len(part)
    finally:
        os.close(fd)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def inode(path):
    return os.stat(path).st_ino


def wait(what, seconds=30):
    start = time.monotonic()
    while not what():
        waited = time.monotonic() - start
        assert waited < seconds, f"not within {seconds:g} s"
        time.sleep(0.02 if waited < 0.5 else 0.1)


def status():
    out = subprocess.run(
        [os.environ["CKPTFS"], "status", "--json", mnt], check=True, stdout=subprocess.PIPE
    ).stdout
    return json.loads(out)


def pending():
    """The saves that are not over: {path: state}."""
    return {g["path"]: g["state"] for g in status()["pending"] if g["path"] != _BLOCKER}


def published():
    """Waits until all are."""
    wait(lambda: not pending())


def failures():
    with open(mnt + "/.ckptfs/failures.json", encoding="utf-8") as file:
        return json.load(file)


def verify(path, want=0):
    run = subprocess.run(
        [os.environ["CKPTFS"], "verify", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert run.returncode == want, run.stdout.decode()


def ckptfs(*args):
    """Exit status of the command, and what it prints."""
    run = subprocess.run(
        [os.environ["CKPTFS"], *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    return run.returncode, run.stdout.decode()


def wait_for(path):
    """Waits until the newest save of that name is published."""
    code, told = ckptfs("wait", "--timeout", "60", path)
    assert code == 0, told


def fill_up(path):
    """A file that takes all the room that its filesystem has left."""
    with open(path, "ab") as file:
        # os.sync() would wait for the disks of other tests, too
        subprocess.run(["sync", "-f", path], check=True)
        at = file.tell()
        for step in 16 * MB, MB, 65536, 4096:
            with contextlib.suppress(OSError):
                while True:
                    os.posix_fallocate(file.fileno(), at, step)
                    at += step


def staging(directory=None):
    """The hidden names on the backing, once those of files that were removed have gone, which goes
    on meanwhile."""
    hidden = []

    def settled():
        hidden[:] = [name for name in os.listdir(directory or back) if name.startswith(".ckptfs-")]
        return not any(name.startswith(".ckptfs-trash-") for name in hidden)

    wait(settled)
    return hidden


def names(directory=None):
    """As the mount lists them."""
    return sorted(name for name in os.listdir(directory or mnt) if name != "lost+found")


def rm(path):
    """As a person: what a program removes that saves beside it waits for the next save."""
    subprocess.run(["rm", path], check=True)


def fails(error, call, *args):
    try:
        call(*args)
    except OSError as e:
        assert e.errno == error, (errno.errorcode[e.errno], "not", errno.errorcode[error])
    else:
        raise AssertionError("should have failed: " + errno.errorcode[error])


@contextlib.contextmanager
def gate_closed():
    """Nothing reaches the storage meanwhile."""
    in_the_way = []

    def look():
        # When the host is short of clean pages, the kernel writes back what names need, too, or has
        # to read it again.
        if any(where in stack for stack in _stacks() for where in _IN_THE_WAY):
            in_the_way.append(True)
            _gate_ioctl(_FITHAW)

    with open(os.environ["LOOP_DEV"], "rb", buffering=0) as device:  # as _gate_warm
        while device.read(MB):
            pass
    _gate_ioctl(_FIFREEZE)
    timer = threading.Timer(20, look)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        with contextlib.suppress(OSError):  # look() has thawed it
            _gate_ioctl(_FITHAW)
        if in_the_way:
            os._exit(77)


def _gate_ioctl(how):
    fd = os.open(_gate, os.O_RDONLY)
    try:
        fcntl.ioctl(fd, how, 0)
    finally:
        os.close(fd)


_FIFREEZE, _FITHAW = 0xC0045877, 0xC0045878
_IN_THE_WAY = (
    "__ext4_new_inode",
    "__ext4_find_entry",
    "__bread",
    "ext4_read_block_bitmap",
    "filemap_get_pages",
)


def _stacks():
    """Of all threads of the test."""
    for path in glob.glob("/proc/[0-9]*/task/*/stack"):
        with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
            yield file.read()


@contextlib.contextmanager
def flush_held():
    """Nothing is flushed meanwhile, in a mount with flush_depth=1 of a gated filesystem: one chunk
    is on its way and does not arrive."""
    with gate_closed():
        save(mnt + "/" + _BLOCKER, bytes(65536))
        wait(lambda: status()["flush"]["in_flight"])
        yield
    wait(lambda: all(g["path"] != _BLOCKER for g in status()["pending"]))


def child(main):
    """Runs main() in another process. Its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            main()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return pid


def reap(pid):
    """How it ended, as subprocess tells."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
