# SPDX-License-Identifier: MIT
"""What the rows are measured in: the working directory, the sizes, and the way to each side."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator

from processes import (
    BUILD,
    CKPTFS,
    Failed,
    NotMeasured,
    available_bytes,
    command,
    daemon_pid,
    force_unmount,
    gone,
    is_idle,
    is_mounted,
    is_ready,
    mount_status,
    unmount,
    wait_until,
)

MIB = 1 << 20
GIB = 1 << 30
SAVE_BLOCK = 16 * MIB  # of the writes and reads of the rows on saves
SMALL_CACHE = 16 * MIB  # of mounts that are measured for something else
USER = 65534  # nobody: fusermount3 wants a user that has a name
FSLOAD = os.path.join(BUILD, "tests", "bench", "fsload")

# The others, with the options that their manuals give for ordinary use. mergerfs keeps 4 GiB
# of the disk free unless told not to; that must not decide whether the bench runs. rclone
# writes to a file of its own (WORK/rclone) and uploads that 5 s after the close.
OTHERS = {
    "mergerfs": [
        "mergerfs",
        "-o",
        "cache.files=off,dropcacheonclose=false,category.create=mfs,minfreespace=0",
    ],
    "bindfs": ["bindfs"],
    "rclone": [
        "rclone",
        "mount",
        "--vfs-cache-mode",
        "writes",
        "--cache-dir",
        "WORK/rclone",
        "--config",
        "WORK/rclone.conf",
        "--daemon",
    ],
}


class Bench:
    """The working directory, the sizes, and how to get at each side."""

    def __init__(self, args: argparse.Namespace, work: str) -> None:
        self.args = args
        self.work = work
        self.backing = self.path("backing")
        self.mountpoint = self.path("mnt")
        self.tree = self.path("backing/many")  # the directory with many files
        self.user_ready = False
        self.rounds = args.rounds or (2 if args.quick else 5)
        quick = args.quick
        self.file_bytes = (32 if quick else 512) * MIB
        self.small_files = 500 if quick else 10_000
        self.unit_files = 200 if quick else 1_000
        self.many_files = 2_000 if quick else 100_000
        self.open_files = 500 if quick else 10_000
        self.save_bytes = self._fitting(32 if quick else 1024)
        self.state_bytes = self._fitting(32 if quick else 2048)
        self.net_bytes = self._fitting(32 if quick else 512)
        self.jobs = {}  # of models.py
        self.counts = False  # of the round that is measured
        self.until_end = contextlib.ExitStack()
        for name in ("backing", "mnt", "rclone"):
            os.mkdir(self.path(name))
        with open(self.path("rclone.conf"), "w", encoding="ascii"):
            pass

    def _fitting(self, usual: int) -> int:
        """The size of a saved file, usually so many MiB: less where it would not fit.

        The most that is there at a time: in memory the cache for two files, what the programs
        hold and as much in the page cache; on the disk a file in rclone's cache and in the
        backing, of each of the two saves.
        """
        asked = size = (self.args.size or usual) * MIB
        while size > 16 * MIB and (
            size * 5 > available_bytes() or size * 5 > shutil.disk_usage(self.work).free
        ):
            size //= 2
        if size != asked:
            self.say(f"saves of {size // MIB} MiB, not {asked // MIB}: too little memory or disk")
        return size

    def path(self, name: str) -> str:
        return os.path.join(self.work, name)

    def say(self, text: str) -> None:
        print(f"bench: {text}", file=sys.stderr, flush=True)

    def load(self, *words: object, uid: int | None = None) -> tuple[float, int]:
        program = FSLOAD if uid is None else self.path("bin/fsload")
        seconds, count = command([program, *map(str, words)], uid).split()
        return float(seconds), int(count)

    def fill(self) -> None:
        """The directory with many files, once, past all mounts."""
        if not os.path.exists(self.tree):
            os.mkdir(self.tree)
            self.say(f"making {self.many_files} files")
            self.load("fill", self.tree, self.many_files, 0)
            self.settle()

    def make_big(self, directory: str) -> None:
        """The file to be read, past all mounts."""
        path = os.path.join(directory, "big")
        if not os.path.exists(path):
            with open(path, "wb") as file:
                for _ in range(self.file_bytes // MIB):
                    file.write(os.urandom(4096) * 256)
            self.settle()

    def settle(self) -> None:
        command(["sync", "-f", self.work])

    @contextlib.contextmanager
    def side(self, name: str, cache: int = SMALL_CACHE) -> Iterator[str]:
        """The directory through which this side reaches the backing; `cache` is for ckptfs."""
        if name == "backing":
            yield self.backing
        elif name == "tmpfs":
            with self._tmpfs() as path:
                yield path
        elif name == "ckptfs":
            yield from self._mounted(
                [CKPTFS, "mount", "-o", self.mount_options(cache), self.backing, self.mountpoint],
                [CKPTFS, "umount"],
                self.mountpoint,
                ready=True,
            )
        else:
            off = ["umount"] if os.geteuid() == 0 else ["fusermount3", "-u"]
            on = [word.replace("WORK", self.work, 1) for word in OTHERS[name]]
            # rclone wants its options last.
            words = (
                [on[0], on[1], self.backing, self.mountpoint, *on[2:]]
                if name == "rclone"
                else [*on, self.backing, self.mountpoint]
            )
            yield from self._mounted(words, off, self.mountpoint, end=name == "rclone")

    def mount_options(self, cache: int) -> str:
        """Those asked for, which may say how large the cache is, else that."""
        asked = self.args.options or ""
        if "host_cache_size" in asked:
            return asked
        return ",".join(filter(None, (f"host_cache_size={cache // MIB}M", asked)))

    @contextlib.contextmanager
    def _tmpfs(self) -> Iterator[str]:
        """One of our own, where we may mount that; else a directory in the host's."""
        path = self.path("tmpfs")
        if os.geteuid() == 0:
            os.makedirs(path, exist_ok=True)
            yield from self._mounted(
                ["mount", "-t", "tmpfs", "-o", "size=100%", "tmpfs", path], ["umount"], path
            )
            return
        if not os.access("/dev/shm", os.W_OK):
            raise NotMeasured("no tmpfs to write to")
        with tempfile.TemporaryDirectory(prefix="ckptfs-bench.", dir="/dev/shm") as path:
            yield path

    def _mounted(
        self,
        on: list[str],
        off: list[str],
        mountpoint: str,
        uid: int | None = None,
        env: dict | None = None,
        ready: bool = False,
        end: bool = False,
    ) -> Iterator[str]:
        """`ready`: not before the cache is in memory. `end`: also waits for the daemon's end."""
        try:
            # Killed half-way, it could leave a daemon that mounts after our clean-up.
            command(on, uid, env, grace_s=30)
            if not is_mounted(mountpoint):
                raise Failed(f"{os.path.basename(on[0])}: exit status 0, but not mounted")
            if ready:
                wait_until(
                    "the cache is in memory", lambda: is_ready(mount_status(mountpoint, uid, env))
                )
            pid = daemon_pid(mountpoint) if end else 0
            yield mountpoint
            unmount(mountpoint, [*off, mountpoint], uid, env)
            if end:
                wait_until(f"{on[0]} has ended", lambda: gone(pid), limit_s=60)
        finally:
            if is_mounted(mountpoint):
                force_unmount(mountpoint)

    # --- saves ---

    def save(self, directory: str, writers: int = 1) -> tuple[float, int, float]:
        """x0.pt, x1.pt, ... up to their close: seconds, bytes, when it began."""
        words = command(
            [FSLOAD, "save", directory, str(self.save_bytes), str(SAVE_BLOCK), str(writers)]
        ).split()
        return float(words[0]), int(words[1]), float(words[2])

    def quiesce(self, side: str) -> None:
        """What was written has reached where it was to go."""
        if side == "ckptfs":
            wait_until("everything is published", lambda: is_idle(mount_status(self.mountpoint)))
        self.settle()

    def warm_up(self, side: str, directory: str, writers: int = 1) -> None:
        """A save that does not count; see the top."""
        self.save(directory, writers)
        self.clear_saves(side, directory)

    def clear_saves(self, side: str, directory: str) -> None:
        self.quiesce(side)
        for name in os.listdir(directory):
            if name.endswith(".pt"):
                os.unlink(os.path.join(directory, name))
        self.settle()

    @contextlib.contextmanager
    def user_mount(self) -> Iterator[str]:
        """A mount that an ordinary user made, of a directory of the user's own."""
        if os.geteuid() != 0:
            with self.side("ckptfs") as path:
                yield path
            return
        self._prepare_user()
        env = dict(
            os.environ,
            HOME=self.path("user"),
            XDG_RUNTIME_DIR=self.path("user/run"),
            TMPDIR=self.path("user"),
            USER="nobody",
        )
        env.pop("CKPTFS_RUN_DIR", None)  # the user has one of its own
        env["BENCH_BIN"] = self.path("bin")
        program = self.path("bin/ckptfs")
        yield from self._mounted(
            [
                program,
                "mount",
                "-o",
                self.mount_options(SMALL_CACHE),
                self.path("user/backing"),
                self.path("user/mnt"),
            ],
            [program, "umount"],
            self.path("user/mnt"),
            USER,
            env,
            ready=True,
        )

    def _prepare_user(self) -> None:
        """A /dev/fuse for all users in this mount namespace, and programs that they reach."""
        if self.user_ready:
            return
        if not self.args.private:
            raise NotMeasured("needs a mount namespace of its own (unshare)")
        if not shutil.which("fusermount3"):
            raise NotMeasured("needs fusermount3")
        for name, mode in (
            ("bin", 0o755),
            ("dev", 0o755),
            ("user", 0o755),
            ("user/backing", 0o755),
            ("user/mnt", 0o755),
            ("user/run", 0o700),
        ):
            os.mkdir(self.path(name), mode)
            if name.startswith("user"):
                os.chown(self.path(name), USER, USER)
        os.chmod(self.work, 0o755)
        shutil.copy2(CKPTFS, self.path("bin/ckptfs"))
        shutil.copy2(FSLOAD, self.path("bin/fsload"))
        try:
            command(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", self.path("dev")])
            command(["mknod", "-m", "666", self.path("dev/fuse"), "c", "10", "229"])
            command(["mount", "--bind", self.path("dev/fuse"), "/dev/fuse"])
            command([self.path("bin/fsload"), "readdir", self.path("user/mnt")], USER)
        except Failed as error:
            raise NotMeasured(f"an ordinary user cannot mount here: {error}") from None
        self.user_ready = True
