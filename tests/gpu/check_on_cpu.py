#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 600
"""The parts of `make check-gpu` that need PyTorch run on the host, so that no line of them runs for
the first time on a GPU: on a mount, by the Python package, and without FUSE, by the library."""

import json
import os
import subprocess
import sys

SRC, BUILD, TMP = (os.environ[name] for name in ("SRC", "BUILD", "TEST_TMP"))
sys.path.insert(0, os.path.join(SRC, "tests/frameworks"))

from harness import enter

enter("torch")

KIT = os.path.join(SRC, "tests/gpu/kit")
FORMS = ["eager", "expandable segments", "cudaMallocAsync", "CUDA graphs", "FSDP2", "torch.compile"]


def run(program, *options, status=0):
    """What it prints."""
    done = subprocess.run(
        [sys.executable, os.path.join(KIT, program), *options],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == status, (program, done.returncode)
    return done.stdout


def right(found, names):
    """All saves are the bytes of their time; what is no bias was captured lazily."""
    for name in names:
        mode = found["modes"][name]
        assert mode["wrong_bytes"] == 0 and mode["saves"] == 2, (name, mode)
        assert mode["captured_lazily"] >= mode["saves"] * mode["tensors"] // 2, (name, mode)


def main():
    out = os.path.join(TMP, "gpu.json")
    check = ("--kit", os.path.join(BUILD, "gpu-kit"), "--device", "cpu")
    only = ("--only", "host", "side_by_side", "modes")
    run("check.py", *check, "--dir", TMP, "--cache", "256M", "--out", out, *only)
    with open(out, encoding="utf-8") as file:
        parts = json.load(file)["parts"]
    assert set(parts["side_by_side"]["found"]["ratios"]) == {
        "step_inflation",
        "blocked_of_torch_save",
        "blocked_of_async_save",
    }
    if os.path.exists("/dev/fuse"):
        assert parts["side_by_side"]["found"]["daemon"] == "mount"
        right(parts["modes"]["found"], [*FORMS, "10^4 tensors"])

    few = ("--params", "1e5", "--steps", "2", "--dir", TMP)
    found = json.loads(run("modes.py", *check, *few))
    right(found, FORMS)
    assert "skipped" in found["modes"]["10^4 tensors"]
    wrong = json.loads(run("modes.py", *check, *few, "--control", status=1))["modes"]
    assert all(wrong[name]["wrong_bytes"] > 0 for name in FORMS), wrong

    table = run("check.py", "--table", out)
    for words in ("| FSDP2 | 48 |", "| dcp.async_save | ", "on the CPU, means nothing"):
        assert words in table or "not measured" in table, words


if __name__ == "__main__":
    main()
