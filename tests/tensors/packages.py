#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 1800
# cpu: 600
# Checkpoints that torch, safetensors, transformers, Megatron-core and DeepSpeed have written, with
# several versions of torch: `ckptfs tensors` finds each tensor that the package itself reads, with
# its shape, and its pieces have the same bytes.

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/frameworks"))
from harness import enter

enter("torch", "safetensors", "transformers", "megatron-core", "deepspeed")

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/tensors"))
from compare import differences
from trees import KINDS

OLDER = ("2.6.0", "2.8.0", "2.10.0")
# What the older versions of torch are tried with: the packages above may ask for a newer one.
ALONE = [name for name in KINDS if name.startswith(("torch", "safetensors", "dcp"))]
TREES = os.path.join(os.environ["SRC"], "tests/tensors/trees.py")
SECONDS = 300


def python_with(version):
    """An environment with that version of torch, or None."""
    top = os.path.join(os.environ["BUILD"], "frameworks", "torch-" + version)
    python = os.path.join(top, "bin/python")
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", top], check=True)
    done = subprocess.run(
        [python, "-m", "pip", "install", "-q", "--no-input", "--disable-pip-version-check"]
        + ["torch==" + version, "safetensors", "numpy"],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        print(f"torch {version} cannot be installed:", done.stderr.strip().splitlines()[-1:])
        return None
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
    lines, count = differences(directory)
    bad += [f"{label}: {line}" for line in lines]
    print(f"{label}: {count} tensors, {len(lines)} differ", flush=True)
    return True


def main():
    bad, done = [], 0
    for name in KINDS:
        done += look(sys.executable, "pinned", name, bad)
    assert done == len(KINDS), "a package is missing"
    for version in OLDER:
        python = python_with(version)
        for name in ALONE if python else []:
            done += look(python, version, name, bad)
    print("\n".join(bad))
    assert not bad


main()
