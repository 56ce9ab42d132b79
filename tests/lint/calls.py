# SPDX-License-Identifier: MIT
"""Finds files of one folder that call each other in a circle, by the symbols of their objects.

    calls.py BUILD/obj FOLDER

Prints each circle, and exits with 1 if there is one. A reader of a file then needs only the files
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


def main():
    objects, folder = sys.argv[1:]
    of_file = {}
    for path in glob.glob(os.path.join(objects, folder, "*.o")):
        name = os.path.splitext(os.path.relpath(path, objects))[0]
        if os.path.exists(name + ".c"):
            of_file[name + ".c"] = symbols(path)
    assert of_file, f"no objects of {folder} in {objects}"
    home = {symbol: file for file, (defines, _) in of_file.items() for symbol in defines}
    calls = {
        file: {home[symbol] for symbol in uses if home.get(symbol, file) != file}
        for file, (_, uses) in of_file.items()
    }
    found = circles(calls)
    for part in found:
        print("call each other in a circle:", " ".join(part))
    sys.exit(1 if found else 0)


main()
