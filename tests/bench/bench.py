# SPDX-License-Identifier: MIT
"""Measures a ckptfs mount side by side with its own backing and with other FUSE filesystems.

`make bench` runs it (python3 tests/bench/bench.py). Each row is one kind of work. Its sides
(ckptfs, and what it is compared with) take turns, round after round, each time on a fresh
mount, so that what one side leaves in caches neither helps nor hurts another. A row's figure
is the ratio of medians. The loops themselves are in fsload.c.
"""
from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import Callable, Iterator

MIB = 1 << 20
USER = 65534  # nobody: fusermount3 wants a user that has a name
LIMIT_S = 300  # of one command
HERE = os.path.dirname(os.path.realpath(__file__))
SRC = os.environ.get("SRC") or os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("BUILD") or os.path.join(SRC, "build")
CKPTFS = os.environ.get("CKPTFS") or os.path.join(BUILD, "bin", "ckptfs")
FSLOAD = os.path.join(BUILD, "tests", "bench", "fsload")

# The others, with the options that their manuals give for ordinary use. mergerfs keeps 4 GiB
# of the disk free unless told not to; that must not decide whether the bench runs.
OTHERS = {
    "mergerfs": ["mergerfs", "-o", "cache.files=off,dropcacheonclose=false,"
                 "category.create=mfs,minfreespace=0"],
    "bindfs": ["bindfs"],
}


class NotMeasured(Exception):
    """A row that cannot be measured on this machine; says why."""


class Failed(Exception):
    """A command that should have worked did not."""


# --- commands and mounts -----------------------------------------------------------------

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
def started(argv: list[str], uid: int | None = None, grace_s: float = 0,
            **popen) -> Iterator[subprocess.Popen]:
    """A command in a session of its own: only this program sees the terminal's signals.

    What runs longer than the body gets grace_s before it is killed.
    """
    signals.held = True
    try:
        process = subprocess.Popen(argv, start_new_session=True, text=True,
                                   **as_user(uid), **popen)
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


def command(argv: list[str], uid: int | None = None, env: dict | None = None,
            grace_s: float = 0) -> str:
    """What it prints; Failed with what it said if it does not exit 0."""
    # A daemon may keep our end of a pipe open, so its words go to a file.
    with tempfile.TemporaryFile("w+") as out:
        with started(argv, uid, grace_s, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                     env=env) as process:
            try:
                code = process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                raise Failed(f"no end after {LIMIT_S} s: {' '.join(argv)}") from None
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
            subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           check=False, timeout=30)
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
        self.many_files = 2_000 if quick else 100_000
        self.open_files = 500 if quick else 10_000
        for name in ("backing", "mnt"):
            os.mkdir(self.path(name))

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
    def side(self, name: str) -> Iterator[str]:
        """The directory through which this side reaches the backing."""
        if name == "backing":
            yield self.backing
        elif name == "ckptfs":
            options = ["-o", self.args.options] if self.args.options else []
            yield from self._mounted([CKPTFS, "mount", *options, self.backing],
                                     [CKPTFS, "umount"], self.mountpoint)
        else:
            off = ["umount"] if os.geteuid() == 0 else ["fusermount3", "-u"]
            yield from self._mounted([*OTHERS[name], self.backing], off, self.mountpoint)

    def _mounted(self, on: list[str], off: list[str], mountpoint: str, uid: int | None = None,
                 env: dict | None = None) -> Iterator[str]:
        try:
            # Killed half-way, it could leave a daemon that mounts after our clean-up.
            command([*on, mountpoint], uid, env, grace_s=30)
            if not is_mounted(mountpoint):
                raise Failed(f"{os.path.basename(on[0])}: exit status 0, but not mounted")
            yield mountpoint
            unmount(mountpoint, [*off, mountpoint], uid, env)
        finally:
            if is_mounted(mountpoint):
                force_unmount(mountpoint)

    @contextlib.contextmanager
    def user_mount(self) -> Iterator[str]:
        """A mount that an ordinary user made, of a directory of the user's own."""
        if os.geteuid() != 0:
            with self.side("ckptfs") as path:
                yield path
            return
        self._prepare_user()
        env = dict(os.environ, HOME=self.path("user"), XDG_RUNTIME_DIR=self.path("user/run"),
                   TMPDIR=self.path("user"), USER="nobody")
        env.pop("CKPTFS_RUN_DIR", None)  # the user has one of its own
        program = self.path("bin/ckptfs")
        yield from self._mounted([program, "mount", self.path("user/backing")],
                                 [program, "umount"], self.path("user/mnt"), USER, env)

    def _prepare_user(self) -> None:
        """A /dev/fuse for all users in this mount namespace, and programs that they reach."""
        if self.user_ready:
            return
        if not self.args.private:
            raise NotMeasured("needs a mount namespace of its own (unshare)")
        if not shutil.which("fusermount3"):
            raise NotMeasured("needs fusermount3")
        for name, mode in (("bin", 0o755), ("dev", 0o755), ("user", 0o755),
                           ("user/backing", 0o755), ("user/mnt", 0o755), ("user/run", 0o700)):
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


# --- rows --------------------------------------------------------------------------------


@dataclass
class Row:
    """One kind of work. `measure` gives {side: {what: value}} of one round."""
    name: str
    what: str
    unit: str
    sides: list[str]                      # ckptfs, then what it is compared with
    sample: Callable[[Bench, str], dict]  # of one side, once: {unit's key: value}
    goal: float | None = None             # at least this ratio; None: reported
    aim: float | None = None              # at most this value (memory)
    once: bool = False                    # memory does not need rounds
    samples: dict[str, list[dict]] = field(default_factory=dict)
    note: str = ""
    error: str = ""

    def median(self, side: str, key: str = "value") -> float | None:
        values = [sample[key] for sample in self.samples.get(side, []) if key in sample]
        return statistics.median(values) if values else None

    def baseline(self) -> str | None:
        """The best of what ckptfs is compared with."""
        others = [side for side in self.sides[1:] if self.median(side) is not None]
        return max(others, key=self.median, default=None)

    def ratio(self) -> float | None:
        mine, other = self.median(self.sides[0]), self.baseline()
        return mine / self.median(other) if mine is not None and other else None

    def met(self) -> bool | None:
        """None where there is nothing to meet, or nothing was measured."""
        if self.goal is not None and self.ratio() is not None:
            return self.ratio() >= self.goal
        if self.aim is not None and self.median(self.sides[0]) is not None:
            return self.median(self.sides[0]) <= self.aim
        return None


def rate(load: tuple[float, int], scale: float = 1) -> dict:
    seconds, count = load
    return {"value": count / seconds / scale}


def sample_read(bench: Bench, side: str) -> dict:
    bench.make_big(bench.backing)
    with bench.side(side) as path:
        return rate(bench.load("read", os.path.join(path, "big"), MIB), MIB)


def sample_read_user(bench: Bench, side: str) -> dict:
    """Both sides as the user; the backing is read past the mount, while that is there."""
    uid = USER if os.geteuid() == 0 else None
    with bench.user_mount() as path:
        directory = bench.path("user/backing") if uid else bench.backing
        bench.make_big(directory)
        if side == "ckptfs":
            directory = path
        return rate(bench.load("read", os.path.join(directory, "big"), MIB, uid=uid), MIB)


def sample_write(writers: int) -> Callable[[Bench, str], dict]:
    def sample(bench: Bench, side: str) -> dict:
        with bench.side(side) as path:
            result = rate(bench.load("write", path, bench.file_bytes // writers, MIB, writers),
                          MIB)
        bench.settle()
        return result
    return sample


def sample_create(bench: Bench, side: str) -> dict:
    with bench.side(side) as path:
        result = rate(bench.load("create", path, bench.small_files, 4096))
    bench.settle()
    return result


def sample_many(*words: object) -> Callable[[Bench, str], dict]:
    """A verb on the directory with many files, through a mount that has not seen it."""
    def sample(bench: Bench, side: str) -> dict:
        bench.fill()
        verb, *more = [bench.many_files if word == "COUNT" else word for word in words]
        with bench.side(side) as path:
            return rate(bench.load(verb, os.path.join(path, "many"), *more))
    return sample


def sample_memory(bench: Bench, hold: bool) -> dict:
    bench.fill()
    with bench.side("ckptfs") as path:
        many = os.path.join(path, "many")
        pid = daemon_pid(path)
        before = memory_mib(pid)
        if hold:
            with started([FSLOAD, "hold", many, str(bench.open_files)],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE) as process:
                if not process.stdout.readline():
                    raise Failed(process.stderr.read().strip() or "fsload hold failed")
                after = memory_mib(pid)
        else:
            bench.load("ls", many)
            after = memory_mib(pid)
    sample = {"value": after["VmRSS"], "before": before["VmRSS"]}
    if "Pss" in after:
        sample["pss"] = after["Pss"]
    return sample


def all_rows(args: argparse.Namespace) -> list[Row]:
    plain, others = ["ckptfs", "backing"], ["ckptfs", *OTHERS]
    files, opened = (("2000", "500") if args.quick else ("10^5", "10^4"))
    return [
        Row("read", "sequential read, warm", "MiB/s", plain, sample_read, goal=0.9),
        Row("read-user", "sequential read, warm, mounted by a user", "MiB/s", plain,
            sample_read_user),
        Row("write", "sequential write, 1 MiB, create to close", "MiB/s", plain,
            sample_write(1), goal=0.6),
        Row("write-4", "the same, 4 writers at once", "MiB/s", plain, sample_write(4)),
        Row("create", "create+write 4 KiB+close+unlink", "files/s", others, sample_create,
            goal=0.9),
        Row("stat", f"stat of {files} files", "files/s", others, sample_many("stat", "COUNT"),
            goal=0.9),
        Row("readdir", f"readdir of {files} files", "files/s", others, sample_many("readdir"),
            goal=0.9),
        Row("ls", f"readdir + stat of {files} files", "files/s", others, sample_many("ls"),
            goal=0.9),
        Row("memory-open", f"daemon, {opened} open files", "MiB", ["ckptfs"],
            lambda bench, _: sample_memory(bench, True), aim=64, once=True),
        Row("memory-seen", f"daemon, {files} files seen", "MiB", ["ckptfs"],
            lambda bench, _: sample_memory(bench, False), aim=128, once=True),
    ]


def measure(bench: Bench, row: Row) -> None:
    """Fill in the samples: one round that does not count, then the others, A B, B A, ..."""
    missing = [side for side in row.sides if side in OTHERS and not shutil.which(side)]
    sides = [side for side in row.sides if side not in missing]
    if missing and len(sides) == 1:
        row.note = f"not measured: install {' '.join(missing)}"
        return
    if missing:
        row.note = f"without {' '.join(missing)} (install it)"
    rounds = 1 if row.once else bench.rounds
    try:
        for number in range(0 if not row.once else 1, rounds + 1):
            bench.say(f"{row.what}: " + (f"round {number} of {rounds}" if number else "warm-up"))
            for side in sides if number % 2 else reversed(sides):
                sample = row.sample(bench, side)
                if number:
                    row.samples.setdefault(side, []).append(sample)
    except NotMeasured as reason:
        row.note = f"not measured: {reason}"
    except Failed as reason:
        row.error = str(reason)
        bench.say(f"{row.name} FAILED: {reason}")


# --- results -----------------------------------------------------------------------------


def row_json(row: Row) -> dict:
    return {
        "name": row.name, "what": row.what, "unit": row.unit,
        "ckptfs": row.median("ckptfs"), "baseline": row.baseline(),
        "medians": {side: row.median(side) for side in row.samples},
        "ratio": row.ratio(), "goal": row.goal, "aim": row.aim, "met": row.met(),
        "note": row.note, "error": row.error, "samples": row.samples,
    }


def results_json(args: argparse.Namespace, rows: list[Row], directory: str,
                 load: float) -> dict:
    uname = os.uname()
    return {
        "format": 1, "time": int(time.time()), "quick": args.quick,
        "options": args.options or "", "directory": directory,
        "host": {"kernel": uname.release, "machine": uname.machine,
                 "cpus": len(os.sched_getaffinity(0)),
                 "memory_mib": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // MIB,
                 "root": os.geteuid() == 0, "load_before": round(load, 2)},
        "others": OTHERS, "rows": [row_json(row) for row in rows],
    }


def table_cells(row: Row) -> list[str]:
    def figure(value: float | None) -> str:
        return "-" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.1f}"

    if row.error or (row.note and not row.samples):
        return [row.what, "-", "-", "-", "-", "FAILED: " + row.error if row.error else row.note]
    goal = "reported" if row.goal is None else f"{row.goal}x"
    if row.aim is not None:
        goal = f"<={row.aim:.0f}"
    verdict = {True: "yes", False: "NO", None: ""}[row.met()]
    extra = [row.note] if row.note else []
    medians = [f"{side} {figure(row.median(side))}" for side in row.samples if side != "ckptfs"]
    extra += [", ".join(medians)] if len(medians) > 1 else []
    if row.once:
        extra.append(f"fresh {figure(row.median('ckptfs', 'before'))}"
                     f", proportional {figure(row.median('ckptfs', 'pss'))}")
    if extra:
        verdict += f"{' ' if verdict else ''}({'; '.join(extra)})"
    base = row.baseline()
    return [row.what, f"{figure(row.median('ckptfs'))} {row.unit}",
            f"{base} {figure(row.median(base))}" if base else "-",
            f"{row.ratio():.2f}x" if row.ratio() else "-", goal, verdict]


def print_table(rows: list[Row]) -> None:
    lines = [["what", "ckptfs", "baseline", "ratio", "goal", "met?"]]
    lines += [table_cells(row) for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(5)]
    print()
    for line in lines:
        cells = [line[0].ljust(widths[0])]
        cells += [line[i].rjust(widths[i]) for i in range(1, 5)]
        print("  ".join(cells + [line[5]]).rstrip())
    print()


# --- the program -------------------------------------------------------------------------


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter,
        epilog="Files are made in $TMPDIR (/tmp), which should be a disk; $CKPTFS is the command\n"
               "and $BUILD the build directory. Exit status: 0 measured, goals met or not; 1 a row\n"
               "failed, or with --strict a goal was missed; 2 usage; 128 + N stopped by a signal.")
    names = [row.name for row in all_rows(argparse.Namespace(quick=False))]
    parser.add_argument("--only", metavar="ROW", action="append", choices=names,
                        help="only this row (may be repeated), of:\n" + " ".join(names))
    parser.add_argument("--quick", action="store_true",
                        help="2 rounds of much smaller work: shows that it runs, measures little")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds that count (5)")
    parser.add_argument("-o", dest="options", metavar="OPTS", help="ckptfs mount options")
    parser.add_argument("--json", action="store_true", help="print the JSON, not the table")
    parser.add_argument("--output", metavar="FILE", default=os.path.join(BUILD, "bench.json"),
                        help="where the JSON goes (%(default)s)")
    parser.add_argument("--strict", action="store_true", help="exit 1 if a goal was missed")
    parser.add_argument("--private", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rounds is not None and args.rounds < 1:
        parser.error("--rounds wants a number above 0")
    return args


def enter_namespace(args: argparse.Namespace) -> None:
    """As root, all mounts are made in a mount namespace that ends with this program."""
    if args.private or os.geteuid() != 0 or not shutil.which("unshare"):
        return
    if subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL,
                      check=False).returncode == 0:
        os.execvp("unshare", ["unshare", "-m", "--propagation", "private", sys.executable,
                              os.path.realpath(__file__), *sys.argv[1:], "--private"])


def remove_work(work: str) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        mounts = [line.split()[4].replace("\\040", " ") for line in file]
    for path in reversed(mounts):
        if path.startswith(work + "/"):
            force_unmount(path)
    subprocess.run(["rm", "-rf", "--one-file-system", work], check=False)


def check_ready(args: argparse.Namespace, directory: str) -> None:
    for program in (CKPTFS, FSLOAD):
        if not os.access(program, os.X_OK):
            sys.exit(f"bench: {program} is not there; run make first (make bench does)")
    need = 256 if args.quick else 3072
    free = shutil.disk_usage(directory).free // MIB
    if free < need:
        sys.exit(f"bench: {directory} has {free} MiB free; this needs {need} (set TMPDIR)")


def main() -> int:
    args = parse_arguments()
    directory = os.environ.get("TMPDIR") or "/tmp"
    check_ready(args, directory)
    enter_namespace(args)
    rows = [row for row in all_rows(args) if not args.only or row.name in args.only]
    signals.catch()
    work = os.path.realpath(tempfile.mkdtemp(prefix="ckptfs-bench.", dir=directory))
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"bench: something else runs here (load {load:.1f}): the figures will be noisy",
              file=sys.stderr)
    try:
        bench = Bench(args, work)
        for row in rows:
            measure(bench, row)
    finally:
        remove_work(work)
    result = results_json(args, rows, directory, load)
    os.makedirs(os.path.dirname(os.path.abspath(args.output)), exist_ok=True)
    with open(args.output, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
        file.write("\n")
    if args.json:
        json.dump(result, sys.stdout, indent=1)
        print()
    else:
        print_table(rows)
        print(f"bench: all samples are in {args.output}")
    missed = args.strict and any(row.met() is False for row in rows)
    return 1 if missed or any(row.error for row in rows) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Stopped as stop:
        print("bench: interrupted, cleaned up", file=sys.stderr)
        sys.exit(128 + stop.args[0])
