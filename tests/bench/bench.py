# SPDX-License-Identifier: MIT
"""Measures a ckptfs mount side by side with its own backing and with other FUSE filesystems.

`make bench` runs it (python3 tests/bench/bench.py). Each row is one kind of work. Its sides
(ckptfs, and what it is compared with) take turns, round after round, each time on a fresh
mount, so that what one side leaves in caches neither helps nor hurts another. A row's figure
is the ratio of medians.

The parts: processes.py (commands, mounts, daemons), setting.py (directories, sizes, sides),
rows.py, saves.py, units.py, cluster.py, lazy.py, models.py, iterations.py and net.py (what is
measured), results.py (JSON and table); the loops themselves are in fsload.c, lazy.c, trainer.py,
ranks.py and shaped.py.

A ckptfs mount is measured once its cache is in memory, which takes a moment after `mount`. The
rows on the time of a save write each file twice and count the second time: where the kernel's free
memory must first be fetched from a hypervisor, that would decide the figure.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

from cluster import cluster_rows
from iterations import iteration_lines, iteration_rows
from lazy import lazy_rows
from models import model_rows
from net import markdown_lines, net_rows
from processes import BUILD, CKPTFS, Failed, NotMeasured, Stopped, force_unmount, signals
from record import take_rows, take_table
from results import keep_for_frameworks, print_table, results_json, table_lines
from rows import (
    Row,
    sample_create,
    sample_many,
    sample_memory,
    sample_read,
    sample_read_user,
    sample_write,
)
from saves import sample_cpu, sample_durable, sample_flush, sample_reread, sample_save
from setting import FSLOAD, MIB, OTHERS, Bench
from units import COMMIT_FILES, FILE_BYTES, sample_commit, sample_memory_unit, sample_unit
from views import view_rows


def all_rows(args: argparse.Namespace) -> list[Row]:
    plain, others = ["ckptfs", "backing"], ["ckptfs", "mergerfs", "bindfs"]
    files, opened = ("2000", "500") if args.quick else ("10^5", "10^4")
    in_unit = "200" if args.quick else "1000"
    return [
        Row(
            "save",
            "save of x.pt, 16 MiB writes, create to close",
            "MiB/s",
            ["ckptfs", "tmpfs", "backing", "mergerfs", "rclone"],
            sample_save(),
            goals={"tmpfs": 1.3, "backing": 2.0},
        ),
        Row(
            "save-2",
            "the same, 2 writers of 2 files",
            "MiB/s",
            ["ckptfs", "one writer"],
            sample_save(2),
            goals={"one writer": 1.3},
        ),
        Row(
            "flush", "first write to published", "MiB/s", ["ckptfs", "fio"], sample_flush, goal=0.9
        ),
        Row(
            "durable",
            "file 4x the cache, create to fsync+close",
            "MiB/s",
            ["ckptfs", "dd"],
            sample_durable,
            goal=0.8,
        ),
        Row(
            "reread",
            "read right after the close",
            "MiB/s",
            ["ckptfs", "backing", "ckptfs, published"],
            sample_reread,
            goals={"backing": 0.5},
        ),
        Row(
            "cpu",
            "CPU of the daemon: save, digest, flush",
            "s/GiB",
            ["ckptfs"],
            sample_cpu,
            aim=0.5,
        ),
        Row(
            "unit",
            f"save of {in_unit} files of {FILE_BYTES >> 10} KiB as one checkpoint",
            "s",
            ["ckptfs", "files"],
            sample_unit,
            goal=1.15,
            smaller=True,
        ),
        Row(
            "commit",
            f"commit of {COMMIT_FILES} durable files",
            "ms",
            ["ckptfs", "sync"],
            sample_commit,
            goal=12,
            smaller=True,
        ),
        Row("read", "sequential read, warm", "MiB/s", plain, sample_read, goal=0.9),
        Row(
            "read-user",
            "sequential read, warm, mounted by a user",
            "MiB/s",
            plain,
            sample_read_user,
        ),
        *view_rows(),
        Row(
            "write",
            "sequential write, 1 MiB, create to close",
            "MiB/s",
            plain,
            sample_write(1),
            goal=0.6,
        ),
        Row("write-4", "the same, 4 writers at once", "MiB/s", plain, sample_write(4)),
        Row(
            "create", "create+write 4 KiB+close+unlink", "files/s", others, sample_create, goal=0.9
        ),
        Row(
            "stat",
            f"stat of {files} files",
            "files/s",
            others,
            sample_many("stat", "COUNT"),
            goal=0.9,
        ),
        Row(
            "readdir",
            f"readdir of {files} files",
            "files/s",
            others,
            sample_many("readdir"),
            goal=0.9,
        ),
        Row(
            "ls", f"readdir + stat of {files} files", "files/s", others, sample_many("ls"), goal=0.9
        ),
        Row(
            "memory-open",
            f"daemon, {opened} open files",
            "MiB",
            ["ckptfs"],
            lambda bench, _: sample_memory(bench, True),
            aim=64,
            once=True,
        ),
        Row(
            "memory-seen",
            f"daemon, {files} files seen",
            "MiB",
            ["ckptfs"],
            lambda bench, _: sample_memory(bench, False),
            aim=128,
            once=True,
        ),
        Row(
            "memory-unit",
            f"commit, or verify, of {files} files",
            "MiB",
            ["ckptfs"],
            sample_memory_unit,
            aim=100,
            once=True,
        ),
        *cluster_rows(args.quick),
        *lazy_rows(args.quick),
        *model_rows(),
        *iteration_rows(args.quick),
        *net_rows(),
    ]


def measure(bench: Bench, row: Row) -> None:
    """Fill in the samples: one round that does not count, then the others, A B, B A, ...

    A quick one shows that it runs, and has no such round."""
    missing = [side for side in row.sides if side in OTHERS and not shutil.which(side)]
    sides = [side for side in row.sides if side not in missing]
    if missing and len(sides) == 1:
        row.note = f"not measured: install {' '.join(missing)}"
        return
    if missing:
        row.note = f"without {' '.join(missing)} (install it)"
    rounds = 1 if row.once else bench.rounds
    try:
        warm = row.once or row.warm or bench.args.quick
        for number in range(1 if warm else 0, rounds + 1):
            bench.counts = number > 0
            bench.say(f"{row.what}: " + (f"round {number} of {rounds}" if number else "warm-up"))
            for side in list(sides if number % 2 else reversed(sides)):
                try:
                    sample = row.sample(bench, side)
                except (NotMeasured, Failed) as reason:
                    if side in OTHERS or isinstance(reason, NotMeasured) and side != sides[0]:
                        leave_out(row, sides, side, reason)
                        continue
                    raise
                if number:
                    row.samples.setdefault(side, []).append(sample)
    except NotMeasured as reason:
        row.note = f"not measured: {reason}"
    except Failed as reason:
        row.error = str(reason)
        bench.say(f"{row.name} FAILED: {reason}")


def leave_out(row: Row, sides: list[str], side: str, reason: Exception) -> None:
    """What cannot be compared with here does not keep the rest from being measured."""
    sides.remove(side)
    row.samples.pop(side, None)
    row.note = "; ".join(filter(None, (row.note, f"without {side}: {reason}")))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench.py",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
        epilog="Files are made in $TMPDIR (/tmp), which should be a disk; $CKPTFS is the command\n"
        "and $BUILD the build directory. Exit status: 0 measured, goals met or not; 1 a row\n"
        "failed, or with --strict a goal was missed; 2 usage; 128 + N stopped by a signal.",
    )
    rows = all_rows(argparse.Namespace(quick=False))
    names = [*(row.name for row in rows), *sorted({row.group for row in rows} - {""})]
    parser.add_argument(
        "--only",
        metavar="ROW",
        action="append",
        choices=names,
        help="only this row, or group of rows (may be repeated), of:\n" + " ".join(names),
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="2 rounds of much smaller work: shows that it runs, measures little",
    )
    parser.add_argument(
        "--size",
        type=int,
        metavar="MIB",
        help="of a saved file (1024) and of a model with its optimizer (2048, over a\n"
        "network 512); less where it would not fit: it takes 5 times as much memory and disk; a\n"
        "multiple of 16",
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds that count (5)")
    parser.add_argument("-o", dest="options", metavar="OPTS", help="ckptfs mount options")
    parser.add_argument("--json", action="store_true", help="print the JSON, not the table")
    parser.add_argument(
        "--output",
        metavar="FILE",
        default=os.path.join(BUILD, "bench.json"),
        help="where the JSON goes (%(default)s)",
    )
    parser.add_argument(
        "--record",
        action="store_true",
        help="take what was measured into the tables of tests/bench/RESULTS.md",
    )
    parser.add_argument("--strict", action="store_true", help="exit 1 if a goal was missed")
    parser.add_argument("--private", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rounds is not None and args.rounds < 1:
        parser.error("--rounds wants a number above 0")
    if args.size is not None and (args.size < 32 or args.size % 16):
        parser.error("--size wants a multiple of 16, 32 or more")
    if args.record and args.quick:
        parser.error("--quick measures too little to be recorded")
    return args


def enter_namespace(args: argparse.Namespace) -> None:
    """As root, all mounts are made in a mount namespace that ends with this program."""
    if args.private or os.geteuid() != 0 or not shutil.which("unshare"):
        return
    if (
        subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL, check=False).returncode
        == 0
    ):
        os.execvp(
            "unshare",
            [
                "unshare",
                "-m",
                "--propagation",
                "private",
                sys.executable,
                os.path.realpath(__file__),
                *sys.argv[1:],
                "--private",
            ],
        )


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
    rows = [
        row for row in all_rows(args) if not args.only or {row.name, row.group} & set(args.only)
    ]
    signals.catch()
    work = os.path.realpath(tempfile.mkdtemp(prefix="ckptfs-bench.", dir=directory))
    load = os.getloadavg()[0]
    if load > 0.5:
        print(
            f"bench: something else runs here (load {load:.1f}): the figures will be noisy",
            file=sys.stderr,
        )
    try:
        bench = Bench(args, work)
        with bench.until_end:
            for row in rows:
                measure(bench, row)
    finally:
        remove_work(work)
    result = results_json(args, bench, rows, directory, load)
    os.makedirs(os.path.dirname(os.path.abspath(args.output)), exist_ok=True)
    with open(args.output, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
        file.write("\n")
    if not args.quick:
        keep_for_frameworks(rows)
    if args.json:
        json.dump(result, sys.stdout, indent=1)
        print()
    else:
        print_table(rows)
        for line in (*markdown_lines(rows), *iteration_lines(rows)):
            print(line)
        print(
            f"bench: saves of {bench.save_bytes // MIB} MiB, of models {bench.state_bytes // MIB}, "
            f"medians of {bench.rounds}"
        )
        print(f"bench: all samples are in {args.output}")
    if args.record:
        words = [word for word in sys.argv[1:] if word not in ("--record", "--private")]
        command = f'make bench ARGS="{shlex.join(words)}"'
        take_rows(
            {row.name: table_lines(row) for row in rows if row.samples and not row.error}, command
        )
        take_table("network", markdown_lines(rows), command)
        take_table("iterations", iteration_lines(rows), command)
    missed = args.strict and any(row.met() is False for row in rows)
    return 1 if missed or any(row.error for row in rows) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Stopped as stop:
        print("bench: interrupted, cleaned up", file=sys.stderr)
        sys.exit(128 + stop.args[0])
