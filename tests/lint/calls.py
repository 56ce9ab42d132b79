# SPDX-License-Identifier: MIT
"""Finds calls that make files hard to read alone, by the symbols of their objects.

    calls.py BUILD/obj FOLDER...

Prints files of one folder that call each other in a circle, and calls from a folder to one that
stands later in the list. Exits with 1 if there are any. A reader of a file then needs only the
files below it. An object whose source is gone does not count.
"""

import glob
import os
import subprocess
import sys


def symbols(paths):
    """What each object defines, and what it uses of others."""
    nm = subprocess.run(["nm", "-gA", *paths], capture_output=True, text=True, check=True).stdout
    found = {path: (set(), set()) for path in paths}
    for line in nm.splitlines():
        path, _, rest = line.partition(":")
        *address, _, name = rest.split()
        defines, uses = found[path]
        (defines if address else uses).add(name)
    return found


def circles(calls):
    """The strongly connected parts of more than one file (Tarjan 1972)."""
    index, low, stack, found = {}, {}, [], []

    def visit(file):
        index[file] = low[file] = len(index)
        stack.append(file)
        for other in sorted(calls[file]):
            if other not in index:
                visit(other)
            if other in stack:
                low[file] = min(low[file], low[other])
        if low[file] == index[file]:
            part = stack[stack.index(file) :]
            del stack[-len(part) :]
            if len(part) > 1:
                found.append(sorted(part))

    for file in sorted(calls):
        if file not in index:
            visit(file)
    return found


def files_in(objects, folders):
    """The file of each object in the folders."""
    found = {}
    for folder in folders:
        paths = glob.glob(os.path.join(objects, folder, "*.o"))
        files = {path: os.path.splitext(os.path.relpath(path, objects))[0] + ".c" for path in paths}
        there = {path: file for path, file in files.items() if os.path.exists(file)}
        assert there, f"no objects of {folder} in {objects}"
        found.update(there)
    return found


def calls_between(file_of):
    """The files, each with those whose functions it uses."""
    of_file = {file_of[path]: both for path, both in symbols(list(file_of)).items()}
    home = {symbol: file for file, (defines, _) in of_file.items() for symbol in defines}
    return {
        file: {home[symbol] for symbol in uses if home.get(symbol, file) != file}
        for file, (_, uses) in of_file.items()
    }


def main():
    objects, *folders = sys.argv[1:]
    folders = [folder.rstrip("/") for folder in folders]
    calls = calls_between(files_in(objects, folders))
    rank = {file: folders.index(os.path.dirname(file)) for file in calls}
    inside = {
        file: {other for other in others if rank[other] == rank[file]}
        for file, others in calls.items()
    }
    found = ["call each other in a circle: " + " ".join(part) for part in circles(inside)]
    found += [
        f"calls upwards: {file}: {other}"
        for file in sorted(calls)
        for other in sorted(calls[file])
        if rank[other] > rank[file]
    ]
    for line in found:
        print(line)
    sys.exit(1 if found else 0)


main()
