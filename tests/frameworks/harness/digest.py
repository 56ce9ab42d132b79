# SPDX-License-Identifier: MIT
"""A digest of any nest of dicts, lists, tensors, arrays and plain values: equal for what is equal
bit by bit."""

import hashlib


def _feed(add, value):
    if isinstance(value, dict):
        add(b"{%d" % len(value))
        for key in sorted(value, key=lambda key: (str(type(key)), str(key))):
            add(repr(key).encode())
            _feed(add, value[key])
    elif isinstance(value, (list, tuple)):
        add(b"[%d" % len(value))
        for one in value:
            _feed(add, one)
    elif hasattr(value, "full_tensor"):
        _feed(add, value.full_tensor())
    elif hasattr(value, "detach"):
        import torch

        value = value.detach().cpu().contiguous()
        add(repr((str(value.dtype), tuple(value.shape))).encode())
        add(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    elif hasattr(value, "tobytes"):
        add(repr((str(value.dtype), value.shape)).encode())
        add(value.tobytes())
    else:
        add(repr(value).encode())


def size(value):
    """Of the same, in bytes."""
    sizes = []
    _feed(lambda part: sizes.append(len(part)), value)
    return sum(sizes)


def digest(value):
    hashed = hashlib.sha256()
    _feed(hashed.update, value)
    return hashed.hexdigest()
