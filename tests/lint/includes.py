# SPDX-License-Identifier: MIT
"""Checks the direction of #include between the parts; prints each line that breaks a rule.

    client/ckptfs_abi.h <- engine/base <- engine/{format,config,metrics,liveness} <- engine/rule
    <- engine/{gen,backing} <- engine/{cache,coord} <- engine/{content,tensors}
    <- engine/{flush,views,record} <- engine/redo
    <- engine/save <- engine/journal <- engine/cluster <- engine/calls <- engine/commit
    <- engine/{capture,names} <- engine/engine.* <- fs/
    client/{ckptfs_abi,cuda_driver}.h <- client/

A file includes its own directory and what is left of it; two directories of the same rank do not
know each other. Of another room it includes only the door, which DOORS lists. The rooms of saves
share what a save is made of: each includes all of those left of it. Nothing in engine/
knows FUSE. client/ knows only itself, and of what it rests on each part knows only itself.
"""

import os
import re
import sys

ABI = "client/ckptfs_abi.h"
BASE = "engine/base"
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
    "engine/save": 8,
    "engine/journal": 9,
    "engine/cluster": 10,
    "engine/calls": 11,
    "engine/commit": 12,
    "engine/capture": 13,
    "engine/names": 13,
    "engine": 14,
}
# The rooms of saves. They have one lock, and the structs that it guards.
OF_SAVES = {"engine/save", "engine/journal", "engine/cluster", "engine/calls", "engine/commit"}
# Of client/, what the rest of it rests on: these do not know that.
CLIENT_BASE = {"client/ckptfs_abi", "client/cuda_driver"}
# The door of each room: the headers that fs/ and the rooms above it may include. engine/base is a
# library, and all of it may be included.
DOORS = {
    "engine": ("engine",),
    "engine/backing": ("backing", "creds"),
    "engine/cache": ("cache",),
    "engine/calls": ("directory", "file", "pointers"),
    "engine/capture": ("capture",),
    "engine/cluster": ("fail", "other_nodes"),
    "engine/commit": ("publish", "report", "start"),
    "engine/config": ("config",),
    "engine/content": ("content", "digest", "recorded", "structure"),
    "engine/coord": ("choice", "coord"),
    "engine/flush": ("flush",),
    "engine/format": ("commit", "digest_record", "format", "names"),
    "engine/gen": ("state",),
    "engine/journal": ("journal",),
    "engine/liveness": ("job", "writer"),
    "engine/metrics": ("failures", "metrics"),
    "engine/names": ("names",),
    "engine/redo": ("recover",),
    "engine/rule": ("reserved_names", "rule"),
    "engine/save": ("checkpoint", "generation"),
    "engine/tensors": ("digest", "read", "stored"),
    "engine/views": ("view",),
}
# What rooms of the engine may include of each other besides.
BETWEEN_ROOMS = {
    "engine/backing": ("dirwalk", "inode", "take_over"),
    "engine/cache": ("loan",),
    "engine/calls": ("provider",),
    "engine/content": ("filed", "hash", "overwrites", "tensors"),
    "engine/coord": ("agreement", "nodes"),
    "engine/gen": ("fate", "tally", "verdict"),
    "engine/liveness": ("casualty", "epoch"),
    "engine/record": (
        "decision",
        "events",
        "for_heir",
        "left",
        "namechain",
        "open_record",
        "refusal",
        "shards",
        "told",
        "vote",
    ),
    "engine/redo": ("order", "publish_dir", "trash", "unit_header"),
    "engine/tensors": ("cover", "index", "tree", "types"),
}
ENGINE_H_MAX = 8  # a program that includes engine.h does not get the whole engine
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


def is_in(doors, target):
    folder, name = os.path.split(target)
    return os.path.splitext(name)[0] in doors.get(folder, ())


def problem_of(path, system, target):
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
        if target_folder in (folder, BASE) or {target_folder, folder} <= OF_SAVES:
            return None
        if is_in(DOORS, target) or is_in(BETWEEN_ROOMS, target):
            return None
        return f"it is no door of {target_folder}"
    if target.startswith("fs/cmd/"):
        return None if folder == "fs/cmd" or path == "fs/main.c" else "only main.c knows the verbs"
    if target.startswith("fs/") or target_folder == BASE or is_in(DOORS, target):
        return None
    return f"it is no door of {target_folder} for fs/"


def guard_of(path):
    return GUARDS.get(path, re.sub(r"[/.]", "_", path).upper())


def check(path):
    problems = 0
    if path.startswith("engine/") and os.path.dirname(path) not in RANKS:
        print(f"{path}: its directory has no rank in {os.path.basename(__file__)}")
        return 1
    for number, system, target in includes(path):
        problem = problem_of(path, system, target)
        if problem:
            print(f"{path}:{number}: includes {target}: {problem}")
            problems += 1
    if path.endswith(".h"):
        with open(path, encoding="utf-8") as file:
            if f"#ifndef {guard_of(path)}\n#define {guard_of(path)}\n" not in file.read():
                print(f"{path}: has no include guard {guard_of(path)}")
                problems += 1
    return problems


def unused(doors, paths):
    """Prints the headers in @doors that no file of @paths in another folder includes."""
    used = {
        target
        for path in paths
        for _, system, target in includes(path)
        if not system and os.path.dirname(path) != os.path.dirname(target)
    }
    problems = 0
    for folder, names in doors.items():
        for name in names:
            if f"{folder}/{name}.h" not in used:
                print(f"{folder}/{name}.h: is listed as a door, but not used as one")
                problems += 1
    return problems


def main():
    paths = [
        os.path.join(folder, name)
        for top in ("client", "engine", "fs")
        for folder, _, names in os.walk(top)
        for name in sorted(names)
        if name.endswith((".c", ".h"))
    ]
    problems = sum(check(path) for path in paths)
    problems += unused(DOORS, [path for path in paths if path.startswith("fs/")])
    problems += unused(BETWEEN_ROOMS, [path for path in paths if path.startswith("engine/")])
    number = sum(not system for _, system, _ in includes("engine/engine.h"))
    if number > ENGINE_H_MAX:
        print(f"engine/engine.h: includes {number} headers, more than {ENGINE_H_MAX}")
        problems += 1
    sys.exit(1 if problems else 0)


main()
