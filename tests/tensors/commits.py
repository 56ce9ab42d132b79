# SPDX-License-Identifier: MIT
"""Makes commit files that list tensors and no files."""

import ctypes
import json


class _Hash(ctypes.Structure):
    _fields_ = (("low", ctypes.c_uint64), ("high", ctypes.c_uint64))


_xxh3 = ctypes.CDLL("libxxhash.so.0").XXH3_128bits
_xxh3.argtypes, _xxh3.restype = (ctypes.c_char_p, ctypes.c_size_t), _Hash


def commit_file(lines):
    head = {"unit": "u", "generation": "0" * 32, "committed_ns": 1, "sequence": 1, "job": "j"}
    head |= {"world": {"ranks": 4, "nodes": 1}, "done": "asked"}
    text = '{\n"ckptfs": 1,\n' + "".join(f'"{k}": {json.dumps(v)},\n' for k, v in head.items())
    text += '"files": [\n],\n"tensors": [\n' + ",\n".join(map(json.dumps, lines)) + "\n],\n"
    text += '"stats": {\n},\n"digest": "%s"\n}\n'
    zeros = (text % ("0" * 32)).encode()
    found = _xxh3(zeros, len(zeros))
    return text % f"{found.high:016x}{found.low:016x}"
