#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Checkpoints that real packages wrote once (trees.tar.xz, made by trees.py with the versions of
# tests/frameworks/requirements.txt): each tensor that the package read is found, with its bytes,
# and a file that is missing is named. packages.py has the packages write them anew.

import os
import sys
import tarfile

HERE = os.path.join(os.environ["SRC"], "tests/tensors")
sys.path.insert(0, HERE)
from compare import differences, failures, index, keep

os.chdir(os.environ["TEST_TMP"])
with tarfile.open(HERE + "/trees.tar.xz") as archive:
    archive.extractall(".")
kinds = sorted(os.listdir("."))
assert len(kinds) >= 34, kinds
for name in kinds:
    lines, count = failures(name)
    assert not lines and count, (name, lines)
for name, file in (
    ("safetensors_one", "model.safetensors"),
    ("torch_nested", "all.pt"),
    ("torch_old_form", "old.pt"),
    ("torch_views", "views.pt"),
):
    lines, _ = differences(name, file)
    assert not lines, (name, lines)

# What is kept beside a commit file says the same as the files themselves.
for name in kinds:
    tree = name + "/tree"
    if not os.path.isdir(tree):
        continue
    with open(tree + "/.ckptfs-commit.json", "w") as file:
        file.write("{}")
    read = index(tree)
    assert keep(tree) in (0, 1) and os.path.getsize(tree + "/.ckptfs-index.json"), name
    assert index(tree) == read, name
    os.remove(tree + "/.ckptfs-index.json")
    os.remove(tree + "/.ckptfs-commit.json")

# Without the file of a rank its tensors have a hole, which says so.
os.remove("dcp_fsdp/tree/__1_0.distcp")
holes = [t["state"] for t in index("dcp_fsdp/tree")["tensors"] if t["state"] != "complete"]
assert holes and all(h == "hole: __1_0.distcp is missing" for h in holes), holes
for name in ("zero_2", "zero_3"):
    step = f"{name}/tree/" + next(n for n in os.listdir(name + "/tree") if n.startswith("global"))
    (gone,) = (n for n in os.listdir(step) if "rank_1" in n and "optim" in n)
    os.remove(os.path.join(step, gone))
    found = index(name + "/tree")
    reasons = [o["reason"] for o in found["opaque"]]
    assert "the optimizer states of rank 1 are missing" in reasons, reasons
    assert any(t["state"].startswith("hole: ") for t in found["tensors"]), name
