# SPDX-License-Identifier: MIT
"""Makes directories that are checkpoints, from what ckptfs-format(5) says of commit files and
nothing else:

    python3 commit.py UNIT [KEY=VALUE]...

writes UNIT/.ckptfs-commit.json of all that is in UNIT. KEY is one of sequence, ns, ranks,
generation, unit, and name (of the file to write, for a pending one)."""

import json
import os
import sys

PIECE = 8 << 20


def xxh3(data):
    """XXH3-128, by the library that everybody has who built ckptfs."""
    return library().hash(data)


class Library:
    def __init__(self):
        import ctypes
        import ctypes.util

        class Hash(ctypes.Structure):
            _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]

        self.lib = ctypes.CDLL(ctypes.util.find_library("xxhash") or "libxxhash.so.0")
        self.lib.XXH3_128bits.restype = Hash
        self.lib.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]

    def hash(self, data):
        value = self.lib.XXH3_128bits(data, len(data))
        return value.high.to_bytes(8, "big") + value.low.to_bytes(8, "big")


_library = []


def library():
    if not _library:
        _library.append(Library())
    return _library[0]


def digest_of(path):
    with open(path, "rb") as file:
        pieces = [xxh3(piece) for piece in iter(lambda: file.read(PIECE), b"")]
    if len(pieces) == 1:
        return pieces[0].hex()
    return xxh3(b"".join(pieces)).hex()


def text_of(key, name):
    try:
        return {key: name.decode()}
    except UnicodeDecodeError:
        return {key + "_hex": name.hex()}


def entries_of(unit):
    for folder, folders, files in os.walk(unit):
        below = os.path.relpath(folder, unit)
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in files + links:
            path = os.path.join(folder, name)
            entry = os.path.normpath(os.path.join(below, name))
            if name.startswith(b".ckptfs-"):
                continue
            if os.path.islink(path):
                yield entry, text_of("target", os.readlink(path))
            else:
                yield (
                    entry,
                    {
                        "size": os.path.getsize(path),
                        "xxh3": digest_of(path),
                        "node": "node-1",
                        "rank": 0,
                    },
                )
        if not files and not folders and below != b".":
            yield below, {"directory": True}


def write(
    unit,
    sequence=1,
    ns=None,
    ranks=8,
    generation="0123456789abcdef" * 2,
    path="run/unit",
    name=".ckptfs-commit.json",
    entries=None,
    version=1,
):
    import time

    entries = sorted(entries_of(os.fsencode(unit))) if entries is None else entries
    head = {
        "ckptfs": version,
        "unit": path,
        "generation": generation,
        "committed_ns": ns or time.time_ns(),
        "sequence": sequence,
        "job": "slurm 1.0",
        "world": {"ranks": ranks, "nodes": 1},
        "done": "rename .metadata",
    }
    lines = ["{"] + [f"{json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    lines += ['"files": [']
    lines += (
        [
            ",\n".join(
                json.dumps({**text_of("path", path), **what}, ensure_ascii=False)
                for path, what in entries
            )
        ]
        if entries
        else []
    )
    lines += ["],", '"stats": {', '"node-1": {"bytes": 1, "files": 1, "seconds": 0.5}', "},"]
    text = ("\n".join(lines) + '\n"digest": "' + "0" * 32 + '"\n}\n').encode()
    digest = xxh3(text).hex().encode()
    text = text[: -len(b'"\n}\n') - 32] + digest + b'"\n}\n'
    json.loads(text)
    with open(os.path.join(unit, name), "wb") as file:
        file.write(text)


if __name__ == "__main__":
    options = dict(option.split("=", 1) for option in sys.argv[2:])
    for number in "sequence", "ns", "ranks", "version":
        if number in options:
            options[number] = int(options[number])
    write(sys.argv[1], **options)
