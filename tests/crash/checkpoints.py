# SPDX-License-Identifier: MIT
"""checkpoints.py save DIR MODE FIRST LOG [COUNT]: saves version FIRST, then the next, and so on,
until it cannot.

Appends to LOG "begun N" before each, and N when `ckptfs wait` has said that it is committed. MODE:
    new   DIR/step-N
    over  DIR/step-9001, in the place of the version before
    late  a file more in DIR/step-9002
    again as over, DIR/step-9003, without waiting for the one before: LOG gets every third

checkpoints.py check DIR MODE: prints "N N ..", the versions that are there, whole; or how one is
not (exit status 1).
"""

import hashlib
import os
import subprocess
import sys

FILES = {"__0_0.distcp": 300001, "__1_0.distcp": 70001, "sub/deep/part": 1234, "sub/part": 200003}

PLACES = {"over": 9001, "late": 9002, "again": 9003}


def content(version, name):
    seed = hashlib.sha256(b"%d %s" % (version, name.encode())).digest()
    return (b"%d\n" % version) + (seed * (FILES.get(name, 5000) // 32 + 1))[: FILES.get(name, 5000)]


def put(path, version, name):
    with open(path + "/" + name, "wb") as f:
        f.write(content(version, name))


def note(log, text):
    with open(log, "a") as f:
        f.write(text + "\n")


def ckptfs(*words):
    subprocess.run(
        [os.environ["CKPTFS"], *words], check=True, stdout=subprocess.DEVNULL, timeout=60
    )


def write_all(path, version):
    os.makedirs(path + "/sub/deep", exist_ok=True)
    for name in FILES:
        put(path, version, name)
    put(path, version, ".metadata.tmp")
    os.rename(path + "/.metadata.tmp", path + "/.metadata")


def save(top, mode, version):
    """Did it wait for the commit?"""
    path = f"{top}/step-{PLACES.get(mode, version)}"
    if mode == "late" and os.path.exists(path):
        put(path, version, f"late-{version}")
        ckptfs("commit", path)
    else:
        write_all(path, version)
    if mode == "again" and version % 3:
        return False
    ckptfs("wait", "--timeout", "30", path)
    return True


def version_of(path, name, stored):
    with open(path + "/" + name, "rb") as f:
        data = f.read()
    version = int(data.split(b"\n", 1)[0] or b"-1") if b"\n" in data[:20] else -1
    if data != content(version, stored):
        sys.exit(f"torn: {path}/{name}")
    return version


def check_one(path):
    """Its version: of its files, or of the last file that came late."""
    names = {
        os.path.relpath(os.path.join(at, name), path)
        for at, _, found in os.walk(path)
        for name in found
    }
    names -= {".ckptfs-commit.json", ".ckptfs-index.json"}
    late = sorted(int(name[5:]) for name in names if name.startswith("late-"))
    rest = {name for name in names if not name.startswith("late-")}
    if rest != set(FILES) | {".metadata"}:
        sys.exit(f"torn: {path} has {sorted(rest)}")
    versions = {version_of(path, name, name.replace(".metadata", ".metadata.tmp")) for name in rest}
    if len(versions) != 1:
        sys.exit(f"torn: {path} is of versions {versions}")
    for version in late:
        if version_of(path, f"late-{version}", f"late-{version}") != version:
            sys.exit(f"torn: {path}/late-{version}")
    return max(late) if late else versions.pop()


def main():
    if sys.argv[1] == "check":
        top, mode = sys.argv[2:4]
        steps = [
            name
            for name in os.listdir(top)
            if name.startswith("step-")
            and (int(name[5:]) < 9000 if mode == "new" else int(name[5:]) == PLACES[mode])
        ]
        found = sorted(check_one(top + "/" + name) for name in steps)
        print(*found)
        return
    top, mode, first, log = sys.argv[2:6]
    count = int(sys.argv[6]) if len(sys.argv) > 6 else 1 << 30
    for version in range(int(first), int(first) + count):
        note(log, f"begun {version}")
        if save(top, mode, version):
            note(log, str(version))


main()
