# SPDX-License-Identifier: MIT
"""Checks the direction of #include between the parts; prints each line that breaks a rule.

    client/ckptfs_abi.h <- engine/base <- engine/{format,config,metrics,liveness} <- engine/rule
    <- engine/{gen,backing} <- engine/{cache,coord} <- engine/{content,tensors}
    <- engine/{flush,views,record} <- engine/redo <- engine/unit
    <- engine/{capture,names} <- engine/engine.* <- fs/
    client/{ckptfs_abi,cuda_driver}.h <- client/

A file includes its own directory and what is left of it; two directories of the same rank do not
know each other. Nothing in engine/ knows FUSE. fs/ sees engine/engine.h and what that includes.
client/ knows only itself, and of what it rests on each part knows only itself.
"""

import os
import re
import sys

ABI = "client/ckptfs_abi.h"
RANKS = {
    "engine/base": 0,
    "engine/format": 1,
    "engine/config": 1,
    "engine/metrics": 1,
    "engine/liveness": 1,
    "engine/rule": 2,
    "engine/gen": 3,
    "engine/backing": 3,
    "engine/cache": 4,
    "engine/coord": 4,
    "engine/content": 5,
    "engine/tensors": 5,
    "engine/views": 6,
    "engine/flush": 6,
    "engine/record": 6,
    "engine/redo": 7,
    "engine/unit": 8,
    "engine/capture": 9,
    "engine/names": 9,
    "engine": 10,
}
# Of client/, what the rest of it rests on: these do not know that.
CLIENT_BASE = {"client/ckptfs_abi", "client/cuda_driver"}
# Of the engine, what engine.h does not pass on.
FS_MAY = {
    "engine/engine.h",
    "engine/base/cleanup.h",
    "engine/base/spelling.h",
    "engine/base/table.h",
    "engine/content/digest.h",
    "engine/content/structure.h",
    "engine/tensors/digest.h",
    "engine/tensors/read.h",
    "engine/tensors/stored.h",
    "engine/views/view.h",
    "engine/format/commit.h",
}
ABOUT_FUSE = re.compile(r"fuse")
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')
# Guards that are no copy of the path: users see these.
GUARDS = {ABI: "CKPTFS_ABI_H", "client/ckptfs.h": "CKPTFS_H"}


def includes(path):
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            match = INCLUDE.match(line)
            if match:
                yield number, match.group(1) == "<", match.group(2)


def problem_of(path, system, target, fs_may):
    part, folder, target_folder = path.split("/")[0], os.path.dirname(path), os.path.dirname(target)
    if system:
        return "FUSE is the business of fs/" if part != "fs" and ABOUT_FUSE.search(target) else None
    if not os.path.exists(target):
        return "not named from the top of the repository"
    if target == ABI:
        return None
    if part == "client":
        own = os.path.splitext(path)[0]
        if own in CLIENT_BASE and os.path.splitext(target)[0] != own:
            return f"{own} is below the rest of client/"
        return None if target.startswith("client/") else "client/ knows only itself"
    if part == "engine":
        if target_folder not in RANKS:
            return f"engine/ knows only itself and {ABI}"
        if target_folder != folder and RANKS[target_folder] >= RANKS[folder]:
            return f"{target_folder} is not below {folder}"
        return None
    if target.startswith("fs/cmd/"):
        return None if folder == "fs/cmd" or path == "fs/main.c" else "only main.c knows the verbs"
    if target.startswith("fs/") or target in fs_may:
        return None
    return "fs/ knows of the engine only engine.h and what that includes"


def guard_of(path):
    return GUARDS.get(path, re.sub(r"[/.]", "_", path).upper())


def check(path, fs_may):
    problems = 0
    if path.startswith("engine/") and os.path.dirname(path) not in RANKS:
        print(f"{path}: its directory has no rank in {os.path.basename(__file__)}")
        return 1
    for number, system, target in includes(path):
        problem = problem_of(path, system, target, fs_may)
        if problem:
            print(f"{path}:{number}: includes {target}: {problem}")
            problems += 1
    if path.endswith(".h"):
        with open(path, encoding="utf-8") as file:
            if f"#ifndef {guard_of(path)}\n#define {guard_of(path)}\n" not in file.read():
                print(f"{path}: has no include guard {guard_of(path)}")
                problems += 1
    return problems


def main():
    fs_may = FS_MAY | {target for _, system, target in includes("engine/engine.h") if not system}
    paths = [
        os.path.join(folder, name)
        for top in ("client", "engine", "fs")
        for folder, _, names in os.walk(top)
        for name in sorted(names)
        if name.endswith((".c", ".h"))
    ]
    sys.exit(1 if sum(check(path, fs_may) for path in paths) else 0)


main()
