# SPDX-License-Identifier: MIT
"""Finds calls that make code hard to read alone, by the symbols of the objects.

    calls.py BUILD/obj FOLDER...

Prints files of one folder that call each other in a circle, and calls from a folder to one that
stands later in the list. Exits with 1 if there is one. A reader of a file then needs only the files
below it. An object whose source is gone does not count.
"""

import glob
import os
import subprocess
import sys


def symbols(path):
    """What the object defines, and what it uses of others."""
    nm = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    fields = [line.split() for line in nm.splitlines()]
    return (
        {f[2] for f in fields if len(f) == 3 and f[1].isupper()},
        {f[1] for f in fields if len(f) == 2 and f[0] == "U"},
    )


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


def calls_up(calls, folders):
    """Calls from a file to one of a folder that stands later in the list."""
    rank = {folder: number for number, folder in enumerate(folders)}
    return [
        f"{file} calls {other}"
        for file in sorted(calls)
        for other in sorted(calls[file])
        if rank[os.path.dirname(other)] > rank[os.path.dirname(file)]
    ]


def main():
    objects, *folders = sys.argv[1:]
    of_file = {}
    for folder in folders:
        for path in glob.glob(os.path.join(objects, folder, "*.o")):
            name = os.path.splitext(os.path.relpath(path, objects))[0]
            if os.path.exists(name + ".c"):
                of_file[name + ".c"] = symbols(path)
        assert any(os.path.dirname(file) == folder for file in of_file), f"no objects of {folder}"
    home = {symbol: file for file, (defines, _) in of_file.items() for symbol in defines}
    calls = {
        file: {home[symbol] for symbol in uses if home.get(symbol, file) != file}
        for file, (_, uses) in of_file.items()
    }
    inside = {
        file: {other for other in others if os.path.dirname(other) == os.path.dirname(file)}
        for file, others in calls.items()
    }
    found = ["call each other in a circle: " + " ".join(part) for part in circles(inside)]
    found += ["calls upwards: " + call for call in calls_up(calls, folders)]
    for line in found:
        print(line)
    sys.exit(1 if found else 0)


main()
