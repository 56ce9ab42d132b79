# SPDX-License-Identifier: MIT
"""What the programs of tests/capture have in common: a client of the ABI (client/ckptfs_abi.h)
without libckptfs, which can be told to do wrong what that does right."""

import fcntl
import socket
import struct

from checkpoints import *

ABI = 1
CONTROL = mnt + "/.ckptfs"


def _number(direction, nr, size):
    return direction << 30 | size << 16 | ord("K") << 8 | nr


HELLO, REGISTER, UNREGISTER, WRITE, NEXT, FAIL, BARRIER, STATS, BYE = (
    _number(d, nr, size)
    for d, nr, size in (
        (3, 1, 104),
        (1, 2, 16128),
        (1, 3, 8208),
        (1, 4, 16016),
        (3, 5, 16024),
        (1, 6, 536),
        (1, 7, 24),
        (3, 8, 144),
        (1, 9, 8),
    )
)
HOST, CUDA = 0, 2
STORAGE, TENSOR, OBJECT = 0, 1, 2


def call(fd, number, data):
    """The ioctl; its argument, filled up with zeros, as it comes back."""
    buffer = bytearray(data.ljust(number >> 16 & 0x3FFF, b"\0"))
    result = fcntl.ioctl(fd, number, buffer, True)
    return result, bytes(buffer)


class Session:
    """One of this process."""

    def __init__(self, rank=-1, world=0, arena=0, abi=ABI, come=True, local_world=0):
        self.ctl = os.open(CONTROL + "/ctl", os.O_RDWR | os.O_CLOEXEC)
        result, got = call(
            self.ctl, HELLO, struct.pack("=IIiiiiQ", abi, 0, rank, world, -1, local_world, arena)
        )
        assert result == 0, (result, struct.unpack("=I", got[:4]))
        self.id, self.slot, self.slots, self.check = struct.unpack("=QIII", got[32:52])
        self.socket = got[56:104].rstrip(b"\0").decode()
        self.seq, self.sources = 0, {}
        self.memory = None
        if come:
            self.come()

    def come(self):
        directory = os.open(CONTROL, os.O_PATH)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
            s.connect(f"/proc/self/fd/{directory}/{self.socket}")
            _, (fd,), _, _ = socket.recv_fds(s, 1, 1)
        os.close(directory)
        self.memory = mmap.mmap(fd, self.slot * self.slots)
        self.fd = fd

    def register(self, tensors, memory=HOST, prefix=""):
        """{id: bytes}"""
        self.register_shards(
            {i: (prefix + str(i), n, "U8", STORAGE, (), (), ()) for i, n in tensors.items()}, memory
        )

    def register_shards(self, shards, memory=HOST):
        """{id: (name, bytes, dtype, kind, shape, offset, length)}"""
        layouts = names = b""
        for i, (name, size, dtype, kind, *numbers) in shards.items():
            name = os.fsencode(name)
            names += name
            layouts += (
                struct.pack("=QQ", i, size)
                + b"".join(struct.pack("=8Q", *n, *[0] * (8 - len(n))) for n in numbers)
                + struct.pack(
                    "=16sIIIIII", dtype.encode(), len(numbers[0]), kind, memory, 0, len(name), 0
                )
            )
        call(
            self.ctl,
            REGISTER,
            struct.pack("=QII", self.id, len(shards), len(layouts) + len(names)) + layouts + names,
        )

    def unregister(self, *ids):
        call(self.ctl, UNREGISTER, struct.pack(f"=QII{len(ids)}Q", self.id, len(ids), 0, *ids))

    def write(self, fd, *captures):
        """Each: (id, file_off, src_off, len, source)."""
        entries = b""
        for i, (tensor, file_off, src_off, length, source) in enumerate(captures):
            self.sources[self.seq + 1 + i] = source
            entries += struct.pack("=QQQQQ", self.seq + 1 + i, tensor, file_off, src_off, length)
        call(fd, WRITE, struct.pack("=QII", self.id, len(captures), 0) + entries)
        self.seq += len(captures)

    def next(self, done=(), wait_ms=0):
        """The grants: [(nr, seq, src_off, arena_off, len)]"""
        reports = b"".join(struct.pack("=QQQ", nr, 0, 0) for nr in done)
        _, got = call(
            self.ctl, NEXT, struct.pack("=QIIII", self.id, len(done), 0, wait_ms, 0) + reports
        )
        nr = struct.unpack("=I", got[12:16])[0]
        return [struct.unpack("=QQQQI", got[24 + i * 40 : 60 + i * 40]) for i in range(nr)]

    def copy(self, grants):
        for _, seq, src_off, at, length in grants:
            self.memory[at : at + length] = self.sources[seq][src_off : src_off + length]
        return [grant[0] for grant in grants]

    def capture(self, done=()):
        """All that was written; @done is copied already."""
        while True:
            grants = self.next(done, 0 if done else 1)
            done = self.copy(grants)
            if not grants and not self.stats()["pending"]:
                return
            if not grants:
                grants = self.next((), 100)
                done = self.copy(grants)

    def fail(self, seq, error, text):
        call(self.ctl, FAIL, struct.pack("=QQiI", self.id, seq, error, 0) + text.encode())

    def stats(self):
        _, got = call(self.ctl, STATS, struct.pack("=Q", self.id))
        names = (
            "captures",
            "captured",
            "landed",
            "failed",
            "pending",
            "pending_bytes",
            "granted",
            "arena",
            "free",
        )
        return dict(zip(names, struct.unpack("=9Q", got[8:80])))

    def bye(self):
        self.memory.close()
        os.close(self.fd)
        call(self.ctl, BYE, struct.pack("=Q", self.id))
        os.close(self.ctl)
