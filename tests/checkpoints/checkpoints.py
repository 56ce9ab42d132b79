# SPDX-License-Identifier: MIT
"""What the programs of tests/checkpoints have in common. Their checkpoints are of torch-dcp: the
rename of .metadata is their end."""

from units import *


def begin(unit, files=2, size=1000, seed=1):
    """A checkpoint without its end. What is in it: {path: bytes}."""
    os.mkdir(unit)
    content = {}
    for i in range(files):
        name = f"__{i}_0.distcp"
        content[name] = data(seed * 1000 + i, size)
        save(unit + "/" + name, content[name])
    return content


def end(unit, content=None):
    """The end of it."""
    save(unit + "/.metadata.tmp", b"metadata")
    os.rename(unit + "/.metadata.tmp", unit + "/.metadata")
    if content is not None:
        content[".metadata"] = b"metadata"


def make(unit, files=2, size=1000, seed=1):
    """A committed one. What is in it."""
    content = begin(unit, files, size, seed)
    end(unit, content)
    wait_for(unit)
    return content


def tree(top):
    """What is in a directory, without what is ckptfs's: {path: bytes; of directories None; of
    symlinks their target}."""
    found = {}
    for path, dirs, files in os.walk(top):
        for name in dirs + files:
            full = os.path.join(path, name)
            if name.startswith(".ckptfs"):
                continue
            rel = full[len(top) + 1 :]  # relpath() asks for the working directory
            if os.path.islink(full):
                found[rel] = os.readlink(full)
            else:
                found[rel] = None if os.path.isdir(full) else read(full)
    return found


def is_whole(name, content):
    """Is it committed with exactly that?"""
    assert tree(mnt + "/" + name) == content, (sorted(tree(mnt + "/" + name)), sorted(content))
    assert tree(back + "/" + name) == content, (sorted(tree(back + "/" + name)), sorted(content))
    verify(back + "/" + name)
    verify(mnt + "/" + name)
