#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-long
# timeout: 180
"""verify and ls of a checkpoint of a hundred thousand files stay within 100 MiB above what they
take for one."""

import os
import subprocess
import sys

sys.path.insert(0, os.environ["SRC"] + "/tests/cli")
import commit

NR = 100000
LIMIT_KIB = 100 * 1024


def make(unit, nr):
    """Of nr files with long names in a hundred directories, that share the bytes of a few."""
    entries, sources = [], [os.path.join(unit, f"source-{i}") for i in range(8)]
    os.mkdir(unit)
    for i, source in enumerate(sources):
        with open(source, "w") as file:
            file.write(f"bytes {i}")
    digests = [commit.digest_of(source) for source in sources]
    for i in range(100):
        os.mkdir(f"{unit}/directory-{i:02}")
    for i in range(nr):
        path = f"directory-{i % 100:02}/{'a-name-that-is-quite-long-' * 3}-{i:06}.distcp"
        os.link(sources[i % 8], os.path.join(unit, path))
        entries.append(
            (path.encode(), {"size": 7, "xxh3": digests[i % 8], "node": "node-1", "rank": i % 1024})
        )
    commit.write(unit, entries=sorted(entries))


def run(*args):
    """What it printed, and the most memory that it had, in KiB."""
    process = subprocess.Popen(
        [os.environ["CKPTFS"], *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, out[-2000:]
    return out, usage.ru_maxrss


def make_elsewhere(unit, nr):
    """So that this process stays small: what it has counts for those that it starts."""
    pid = os.fork()
    if not pid:
        make(unit, nr)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


make_elsewhere("few", 1)
make_elsewhere("many", NR)
for verb in "verify", "ls", "latest":
    _, few = run(verb, "few")
    out, many = run(verb, "many")
    print(f"{verb}: {many} KiB, {few} KiB for one file: {out.splitlines()[-1]}")
    # A sanitizer keeps what is freed; it is slow, too.
    assert many - few < LIMIT_KIB or os.environ.get("TEST_SLOW", "1") != "1", (
        f"{verb} took {many - few} KiB more"
    )
assert f"({NR} listed)" in run("verify", "many")[0]
