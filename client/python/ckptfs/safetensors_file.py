# SPDX-License-Identifier: MIT
"""safetensors.torch.save_file, lazily. The format: eight bytes, the length of a header in JSON,
which has the place of each tensor behind it; so all places are known before any tensor is read."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import safetensors.torch
import torch

from . import fates, known, lazy, mounts
from .files import no_directory
from .mounts import to_mount

torch_save_file = getattr(safetensors.torch.save_file, "ckptfs_inner", safetensors.torch.save_file)

_ALIGN = 8
# Where it is called from.
_IMPORTED = (
    ("safetensors.torch", "save_file"),
    ("transformers.modeling_utils", "safe_save_file"),
    ("accelerate.utils.other", "safe_save_file"),
)


def _a(one: Any) -> str:
    name = type(one).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _why_not(tensors: Any) -> str:
    """Why safetensors itself has to write it, or to refuse it. TypeError: no library can."""
    places = set()
    if not isinstance(tensors, dict):
        raise TypeError(
            "save_file wants a dict of names and tensors, such as model.state_dict(), "
            f"not {_a(tensors)}"
        )
    for name, tensor in tensors.items():
        if not isinstance(name, str):
            raise TypeError(f"save_file: the name {name!r} is {_a(name)}, not a text")
        if not isinstance(tensor, torch.Tensor):
            way = (
                "flatten the dict"
                if isinstance(tensor, dict)
                else "put what is no tensor into metadata"
            )
            raise TypeError(
                f"save_file: {name} is {_a(tensor)}, not a tensor; {way}, or use ckptfs.save"
            )
        if not lazy.is_plain(tensor):
            return f"{name} is not contiguous, or no plain tensor"
        if not known.type_of(tensor):
            return f"{name} is of type {tensor.dtype}, which is not known here"
        if tensor.nbytes and tensor.untyped_storage().data_ptr() in places:
            return f"{name} shares its memory with another one"
        places.add(tensor.untyped_storage().data_ptr())
    return ""


def _layout(
    tensors: dict[str, Any], metadata: dict[str, str] | None
) -> tuple[bytes, list[tuple[int, str, Any]]]:
    """The header, and where each tensor is behind it: those with the widest elements first, as the
    library has them."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    places, at = [], 0
    for name, tensor in sorted(
        tensors.items(), key=lambda item: (-item[1].element_size(), item[0])
    ):
        header[name] = {
            "dtype": known.type_of(tensor),
            "shape": list(tensor.shape),
            "data_offsets": [at, at + tensor.nbytes],
        }
        places.append((at, name, tensor))
        at += tensor.nbytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGN)
    return len(text).to_bytes(8, "little") + text, places


def save_file(
    tensors: dict[str, Any], filename: Any, metadata: dict[str, str] | None = None
) -> None:
    """Saves as safetensors.torch.save_file does, and writes the same file: lazily on a mount of
    ckptfs, as ckptfs.save."""
    refused = _why_not(tensors)
    session, why = lazy.session_for(filename)
    why = why or refused
    if why == lazy.NO_DIRECTORY:
        raise no_directory(filename)
    if why or session is None:
        lazy.say_once(filename, why)
        mounts.check_required(filename)
        with mounts.served(filename):
            torch_save_file(tensors, filename, metadata=metadata)
        return
    fates.raise_first()
    head, places = _layout(tensors, metadata)
    file = lazy.Writer(session)
    for at, name, tensor in places:
        file.add_tensor(tensor.detach(), name, len(head) + at)
    file.parts.append((0, head))
    file.head_last = True
    lazy.write_to_path(file, os.fspath(filename))


def enable() -> None:
    """From here on safetensors.torch.save_file of a path in a mount is this one, also where others
    have imported it."""
    inner = torch_save_file

    def replaced(tensors: Any, filename: Any, metadata: Any = None) -> None:
        if to_mount(filename):
            save_file(tensors, filename, metadata)
        else:
            mounts.check_required(filename)
            inner(tensors, filename, metadata=metadata)

    replaced.ckptfs_inner = inner  # type: ignore[attr-defined]
    replaced.__doc__, replaced.__name__ = inner.__doc__, "save_file"
    for module, name in _IMPORTED:
        if getattr(sys.modules.get(module), name, None) is inner:
            setattr(sys.modules[module], name, replaced)
