# SPDX-License-Identifier: MIT
"""Writes down what a framework does to files in two saves, as calls of tests/presets/player.py, in
the order of all its ranks:

    CKPTFS_TEST_RECORD=$PWD/tests/presets/recorded/dcp.json tests/run frameworks/dcp.py

tests/presets/recorded.sh plays that on a mount. Seen by strace, on a plain directory. Of what is
written only how much is, but of a line of text that is a whole file: a pointer names by it."""

import glob
import json
import os
import re
import shutil
import subprocess

from . import environment
from .jobs import Job

SYSCALLS = (
    "open,openat,creat,close,write,writev,pwrite64,pwritev,sendfile,copy_file_range,fsync,fdatasync,rename,"
    "renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,symlink,symlinkat"
)
LINE = re.compile(r"(\d+\.\d+) (\w+)\((.*)\) += (-?\d+).*<(\d+\.\d+)>$")
STRING = re.compile(r'(?:\d+|AT_FDCWD)<([^>]*)>, "([^"]*)"|"([^"]*)"')
FD = re.compile(r"(\d+)<([^>]*)>")
SAID = re.compile(r'^\d+<[^>]*>, "([^"\\]{1,60})", \d+$')


def _names(arguments):
    """The paths that a call names, whole."""
    found = []
    for directory, name, alone in STRING.findall(arguments):
        found.append(alone or os.path.join(directory, name))
    return found


class Recorder:
    """Of one rank."""

    def __init__(self, rank, top):
        self.rank, self.top = rank, top
        self.ops = []  # [time, [rank, call, arguments...]]
        # (fd, path now) -> [name when it was opened, is it new?, bytes, text]; processes of the
        # rank have the same fds
        self.open = {}

    def _add(self, at, call, *arguments):
        self.ops.append([at, [self.rank, call, *arguments]])

    def _within(self, paths):
        return paths and all(path.startswith(self.top + "/") for path in paths)

    def take(self, at, call, arguments, result):
        if call in ("open", "openat", "creat"):
            self._opened(at, _names(arguments)[:1], arguments, result)
        elif call in (
            "write",
            "writev",
            "pwrite64",
            "pwritev",
            "sendfile",
            "copy_file_range",
            "fsync",
            "fdatasync",
            "close",
        ):
            fds = [(int(fd), path) for fd, path in FD.findall(arguments)]
            fd = fds[1 if call == "copy_file_range" else 0] if fds else None
            if fd in self.open:
                self._used(at, call, fd, arguments, result)
        else:
            self._named(at, call, arguments)

    def _opened(self, at, paths, arguments, fd):
        if not self._within(paths) or not re.search("O_WRONLY|O_RDWR|O_CREAT", arguments):
            return
        name, new = paths[0][len(self.top) + 1 :], "O_TRUNC" in arguments or "O_EXCL" in arguments
        self.open[fd, paths[0]] = [name, new, 0, None]
        if new:
            self._add(at, "create", name, os.O_EXCL if "O_EXCL" in arguments else 0)

    def _used(self, at, call, fd, arguments, result):
        name, new, size, _ = self.open[fd]
        if call in ("fsync", "fdatasync", "close"):
            self._written(at, fd, call == "close")
        else:
            said = SAID.match(arguments) if call == "write" and not size else None
            self.open[fd][2:] = size + result, said and said.group(1)
        if call == "close":
            del self.open[fd]
        if new and call == "close":
            self._add(at, "close", name)
        elif new and call.endswith("sync"):
            self._add(at, "fsync", name)

    def _written(self, at, fd, closed=False):
        """What came before this."""
        name, new, size, text = self.open[fd]
        if size and new and text and closed:
            self._add(at, "say", name, text)
        elif size and new:
            self._add(at, "write", name, size, len(self.ops))
        elif size:
            # perhaps it was not there
            self._add(at, "refill", name, 0, size, len(self.ops), os.O_CREAT)
        self.open[fd][2:] = 0, None

    def _named(self, at, call, arguments):
        paths = _names(arguments)
        if call.startswith("symlink"):
            target, paths = paths[0], paths[1:]
            if self._within(paths):
                self._add(at, "symlink", target, paths[0][len(self.top) + 1 :])
            return
        if not self._within(paths):
            return
        if call.startswith("rename"):
            for fd in list(self.open):
                if self.open[fd][1]:
                    self._written(at, fd)
            inside = re.compile(re.escape(paths[0]) + "(?=/|$)")
            self.open = {
                (fd, inside.sub(lambda _: paths[1], path)): file
                for (fd, path), file in self.open.items()
            }
        verb = "rmdir" if "AT_REMOVEDIR" in arguments else re.sub("(at|at2)$", "", call)
        self._add(at, verb, *[path[len(self.top) + 1 :] for path in paths])


def _end(line):
    return float(line.group(1)) + float(line.group(5))


def _give_structure(ops):
    """What is a safetensors file in the end must be one for who plays it, too."""
    last = {op[2]: op[3] for op in ops if op[1] == "rename"}
    for op in ops:
        if op[1] == "write" and last.get(op[2], op[2]).endswith(".safetensors"):
            op[1] = "tensors"


def record(framework, out):
    if not shutil.which("strace"):
        environment.skip("needs strace")
    tmp = os.environ["TEST_TMP"]
    top = tmp + "/run"
    os.mkdir(top)
    # As a mount, another filesystem than that of TMPDIR. It ends with the namespace of the test.
    subprocess.run(["mount", "-t", "tmpfs", "none", top], check=True)
    job = Job(framework, top, steps=2 * framework.every, every=framework.every, traced=True)
    strace = [
        "strace",
        "-ff",
        "-ttt",
        "-T",
        "-y",
        "-s",
        "4096",
        "-e",
        "trace=" + SYSCALLS,
        "-e",
        "write=none",
    ]
    tracers = [
        subprocess.Popen(
            [*strace, "-o", f"{tmp}/trace.{process.rank}", "-p", str(process.pid)],
            stderr=subprocess.DEVNULL,
        )
        for process in job.ranks
    ]
    codes = job.finish(300)
    assert not any(codes), (codes, job.logs())
    ops = []
    for process, tracer in zip(job.ranks, tracers):
        tracer.wait(60)
        recorder, lines = Recorder(process.rank, top), []
        for path in glob.glob(f"{tmp}/trace.{process.rank}.*"):
            with open(path, encoding="utf-8", errors="replace") as file:
                lines += filter(None, map(LINE.match, file))
        # In the order in which they ended: what one has made is there for the next.
        for line in sorted(lines, key=_end):
            if int(line.group(4)) >= 0:
                recorder.take(_end(line), line.group(2), line.group(3), int(line.group(4)))
        ops += recorder.ops
    ops = [op for _, op in sorted(ops, key=lambda op: op[0])]
    _give_structure(ops)
    units = sorted(os.path.relpath(path, top) for path in framework.found(top).values())
    what = {
        "framework": framework.name,
        "version": environment.version(framework.package),
        "world": framework.world,
        "files": framework.files,
        "prompt": framework.prompt,
        "done": framework.done,
        "units": units,
    }
    with open(out, "w", encoding="utf-8") as file:
        file.write(
            json.dumps(what)[:-1] + ', "calls": [\n' + ",\n".join(map(json.dumps, ops)) + "\n]}\n"
        )
    print(f"{len(ops)} calls: {out}")
