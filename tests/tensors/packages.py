#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 1800
# cpu: 1200
"""packages.py VERSION: checkpoints that torch in that version, safetensors, huggingface_hub,
transformers, Megatron-core, DeepSpeed and torch_checkpointing have written. `ckptfs tensors` finds
each tensor that the package itself reads, and no other, with its type and shape, and its pieces
have the same bytes. packages.list says which versions.

With CKPTFS_TEST_RECORD=FILE pinned_packages.py makes the archive for stored.py."""

import os
import re
import subprocess
import sys
import tarfile

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/frameworks"))
from harness import enter

OTHERS = ("transformers", "megatron-core", "deepspeed", "torch_checkpointing", "zstandard")
enter("torch", "safetensors", *OTHERS)

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/tensors"))
from compare import failures
from trees import KINDS

TREES = os.path.join(os.environ["SRC"], "tests/tensors/trees.py")
REQUIREMENTS = os.path.join(os.environ["SRC"], "tests/frameworks/requirements.txt")
SECONDS = 300


def install(python, *packages):
    """False: it cannot be."""
    constraints = os.path.join(os.environ["TEST_TMP"], "constraints")
    with open(REQUIREMENTS, encoding="utf-8") as file:
        lines = [line for line in file if not re.match("torch==|numpy==|sympy==", line)]
    with open(constraints, "w", encoding="utf-8") as file:
        file.writelines(lines)
    done = subprocess.run(
        [python, "-m", "pip", "install", "-q", "--no-input", "--disable-pip-version-check"]
        + ["--no-cache-dir", "-c", constraints, *packages],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        print(f"cannot be installed: {packages}:", done.stderr.strip().splitlines()[-1:])
    return not done.returncode


def python_with(version):
    """An environment with that version of torch, and what of the others goes with it."""
    top = os.path.join(os.environ["BUILD"], "frameworks", "torch-" + version)
    python = os.path.join(top, "bin/python")
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", top], check=True)
    torch = "torch==" + version
    if not install(python, torch, "safetensors", "numpy"):
        sys.exit(77)
    for package in OTHERS:
        install(python, torch, package)
    return python


def look(python, version, name, bad):
    """True if the package was there."""
    directory = os.path.join(os.environ["TEST_TMP"], version, name)
    os.makedirs(directory)
    done = subprocess.run(
        [python, TREES, name, directory], capture_output=True, text=True, timeout=SECONDS
    )
    label = f"torch {version}, {name}"
    if done.returncode == 77:
        print(f"{label}: skipped: {done.stdout.strip()[-200:]}")
        return False
    if done.returncode:
        bad.append(f"{label}: the package failed: {done.stderr[-2000:]}")
        return True
    lines, count = failures(directory)
    bad += [f"{label}: {line}" for line in lines]
    print(f"{label}: {count} tensors, {len(lines)} differ", flush=True)
    return True


def plain(info):
    """The same whoever makes it, and whenever."""
    info.mtime, info.uid, info.gid, info.uname, info.gname = 0, 0, 0, "root", "root"
    return info


def record(path):
    with tarfile.open(path, "w:xz", preset=9) as archive:
        for name in sorted(KINDS):
            directory = os.path.join(os.environ["TEST_TMP"], "pinned", name)
            for one in ("expected.json", "tree"):
                archive.add(f"{directory}/{one}", f"{name}/{one}", filter=plain)


def main(version):
    bad, done = [], 0
    python = sys.executable if version == "pinned" else python_with(version)
    for name in KINDS:
        done += look(python, version, name, bad)
    assert done == len(KINDS) or version != "pinned", "a package is missing"
    print("\n".join(bad))
    assert not bad and done
    if "CKPTFS_TEST_RECORD" in os.environ:
        record(os.environ["CKPTFS_TEST_RECORD"])


main(*sys.argv[1:])
