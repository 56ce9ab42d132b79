# SPDX-License-Identifier: MIT
"""Commands, mounts and daemons: started so that nothing is left behind, and asked how they are."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Callable

HERE = os.path.dirname(os.path.realpath(__file__))
SRC = os.environ.get("SRC") or os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("BUILD") or os.path.join(SRC, "build")
CKPTFS = os.environ.get("CKPTFS") or os.path.join(BUILD, "bin", "ckptfs")
LIMIT_S = 300  # of one command
DIGEST_XATTR = "user.ckptfs.xxh3"


class NotMeasured(Exception):
    """A row that cannot be measured on this machine; says why."""


class Failed(Exception):
    """A command that should have worked did not."""


class Stopped(BaseException):
    """A signal asked for the end."""


class Signals:
    """Turns the first signal into Stopped, but not while a process is being started, which
    would be forgotten. What follows is the clean-up, undisturbed."""

    def __init__(self) -> None:
        self.held = False
        self.pending = 0

    def catch(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._caught)

    def _caught(self, number: int, _frame) -> None:
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)
        self.pending = number
        if not self.held:
            self.release()

    def release(self) -> None:
        self.held = False
        if self.pending:
            number, self.pending = self.pending, 0
            raise Stopped(number)


signals = Signals()


def as_user(uid: int | None) -> dict:
    return {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}


@contextlib.contextmanager
def started(
    argv: list[str], uid: int | None = None, grace_s: float = 0, **popen
) -> Iterator[subprocess.Popen]:
    """A command in a session of its own: only this program sees the terminal's signals.

    What runs longer than the body gets grace_s before it is killed.
    """
    signals.held = True
    try:
        process = subprocess.Popen(argv, start_new_session=True, text=True, **as_user(uid), **popen)
    except OSError as error:
        signals.release()
        raise Failed(f"{argv[0]}: {error.strerror}") from None
    try:
        signals.release()
        yield process
    finally:
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def command(
    argv: list[str],
    uid: int | None = None,
    env: dict | None = None,
    grace_s: float = 0,
    limit_s: float = LIMIT_S,
) -> str:
    """What it prints; Failed with what it said if it does not exit 0."""
    # A daemon may keep our end of a pipe open, so its words go to a file.
    with tempfile.TemporaryFile("w+") as out:
        with started(
            argv, uid, grace_s, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env
        ) as process:
            try:
                code = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                raise Failed(f"no end after {limit_s} s: {' '.join(argv)}") from None
        out.seek(0)
        text = out.read()
    if code != 0:
        said = text.strip().splitlines()[-1:] or [f"exit status {code}"]
        raise Failed(f"{os.path.basename(argv[0])} {argv[1]}: {said[0]}")
    return text


def is_mounted(path: str) -> bool:
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        return any(line.split()[4].replace("\\040", " ") == path for line in file)


def unmount(path: str, argv: list[str], uid: int | None = None, env: dict | None = None) -> None:
    try:
        command(argv, uid, env)
    except Failed:
        if is_mounted(path):
            raise


def force_unmount(path: str) -> None:
    for argv in (["fusermount3", "-u", "-z", path], ["umount", "-l", path]):
        if is_mounted(path) and shutil.which(argv[0]):
            subprocess.run(
                argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, timeout=30
            )
    if is_mounted(path):
        print(f"bench: {path} is still mounted", file=sys.stderr)


def daemon_pid(mountpoint: str) -> int:
    """From the status command, else whoever has the mount point on its command line."""
    with contextlib.suppress(Failed, ValueError, KeyError):
        return int(json.loads(command([CKPTFS, "status", "--json", mountpoint]))["pid"])
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{entry}/cmdline", "rb") as file:
            if os.fsencode(mountpoint) in file.read().split(b"\0"):
                return int(entry)
    raise Failed("cannot find the daemon's pid")


def gone(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def wait_until(
    what: str, condition: Callable[[], bool], each_s: float = 0.02, limit_s: float = LIMIT_S
) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            raise Failed(f"after {limit_s} s still not: {what}")
        time.sleep(each_s)


def mount_status(mountpoint: str, uid: int | None = None, env: dict | None = None) -> dict:
    program = CKPTFS if uid is None else os.path.join(env["BENCH_BIN"], "ckptfs")
    return json.loads(command([program, "status", "--json", mountpoint], uid, env))


def is_ready(status: dict) -> bool:
    """Is the whole cache in memory?"""
    cache = status.get("cache", {})
    return cache.get("faulted") == cache.get("size")


def is_idle(status: dict) -> bool:
    """Is everything that was closed published?"""
    cache = status.get("cache", {})
    return not status.get("pending") and not cache.get("dirty") and not cache.get("flying")


def is_published(path: str) -> bool:
    """By the backing itself: the name, with the record that is made before it."""
    try:
        os.getxattr(path, DIGEST_XATTR)
    except OSError as error:
        return error.errno == errno.EOPNOTSUPP and os.path.exists(path)
    return True


def cpu_seconds(pid: int) -> float:
    """What a process has used so far, to the nanosecond, its kernel threads for io_uring
    included."""
    return time.clock_gettime((~pid << 3) | 2)  # of the scheduler, as clock_getcpuclockid(3)


def available_bytes() -> int:
    with open("/proc/meminfo", encoding="ascii") as file:
        match = re.search(r"^MemAvailable:\s+(\d+) kB", file.read(), re.M)
    return int(match.group(1)) * 1024 if match else 0


def memory_mib(pid: int) -> dict[str, float]:
    """Resident memory, and the part of it that is its own (shared pages in proportion)."""
    found = {}
    for path, key in (("status", "VmRSS"), ("smaps_rollup", "Pss")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/{path}", encoding="ascii") as file:
            match = re.search(rf"^{key}:\s+(\d+) kB", file.read(), re.M)
            if match:
                found[key] = int(match.group(1)) / 1024
    if "VmRSS" not in found:
        raise Failed(f"cannot read the memory of process {pid}")
    return found
