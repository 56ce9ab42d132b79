# SPDX-License-Identifier: MIT
"""Which memory may be captured lazily: what an optimizer changes in its step, and nowhere else, as
far as one can know; the barrier stands before that. All else a save writes before it returns.

That is: the parameters of optimizers whose steps the hook sees, and the state of those of
torch.optim and of others that are known to change it in their step only; and what the user has
registered."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any, Iterator, Tuple

import torch

from .session import Shape

# Smaller storages are written at once: a capture costs more than their copy.
LAZY_MIN = 16 << 10

# Modules of optimizers that change their state nowhere but in their step.
_KNOWN = (
    "torch.optim",
    "torch.distributed.optim",
    "deepspeed.ops",
    "apex.optimizers",
    "apex.contrib",
    "bitsandbytes.optim",
    "transformer_engine",
    "transformers.optimization",
    "torch_optimizer",
    "torchao.optim",
    "pytorch_optimizer",
    "timm.optim",
)

# What safetensors calls the types of torch.
_TYPES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
}

Key = Tuple[int, int, Any]
_PLAIN = (torch.Tensor, torch.nn.Parameter)

# that the hook has seen, or that were there before it
optimizers: weakref.WeakSet[Any] = weakref.WeakSet()


def key_of(storage: Any) -> Key:
    """The memory of an untyped storage: views, and the storages of detached tensors, have the
    same."""
    return storage.data_ptr(), storage.nbytes(), storage.device


def _by_dtype() -> dict[Any, str]:
    found = {getattr(torch, name, None): called for name, called in _TYPES.items()}
    found.pop(None, None)  # of a torch that lacks it
    return found


_CALLED = _by_dtype()


def type_of(tensor: Any) -> str | None:
    """The type of its elements as safetensors calls it; None: it has no name for it."""
    return _CALLED.get(tensor.dtype)


def whole(tensor: Any) -> Shape | None:
    """The shape of a tensor that is all there."""
    dtype, shape = type_of(tensor), tuple(tensor.shape)
    return Shape(dtype, shape, (0,) * len(shape), shape) if dtype else None


_kinds: dict[Any, str] = {}


def kind_of(device: Any) -> str:
    """device.type, which torch makes anew each time that it is asked."""
    kind = _kinds.get(device)
    if kind is None:
        kind = _kinds[device] = device.type
    return kind


def tensors_in(tensor: Any) -> Iterator[Any]:
    """Those that have the memory: itself, or, of a wrapper such as DTensor, what it wraps."""
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    if plain or not hasattr(tensor, "__tensor_flatten__"):
        yield tensor
        return
    for name in tensor.__tensor_flatten__()[0]:
        inner = getattr(tensor, name)
        if isinstance(inner, torch.Tensor):  # not the mesh that it is spread over
            yield from tensors_in(inner)


def named_tensors(obj: Any) -> list[tuple[str, Any]]:
    """All that are in a nest of dicts, lists, modules and optimizers, with the way that leads to
    them."""
    found: list[tuple[str, Any]] = []
    _look_for_tensors(obj, "", 0, found)
    return found


def _look_for_tensors(obj: Any, prefix: str, depth: int, found: list[tuple[str, Any]]) -> None:
    if type(obj) in _PLAIN:
        found.append((prefix, obj))
    elif isinstance(obj, torch.Tensor):
        for tensor in tensors_in(obj):
            # What a DTensor has here is not the tensor of that name.
            found.append((prefix if tensor is obj else f"{prefix} (local part)", tensor))
    elif depth > 50:
        return
    elif isinstance(obj, dict) or hasattr(obj, "items") and hasattr(obj, "keys"):
        for name, value in list(obj.items()):
            _look_for_tensors(value, f"{prefix}.{name}" if prefix else str(name), depth + 1, found)
    elif isinstance(obj, (list, tuple)):
        for i, value in enumerate(obj):
            _look_for_tensors(value, f"{prefix}.{i}" if prefix else str(i), depth + 1, found)
    elif isinstance(obj, torch.nn.Module):
        _look_for_tensors(obj.state_dict(keep_vars=True), prefix, depth + 1, found)


def storage_key(tensor: Any) -> Any:
    """key_of its storage; None where it has none, such as sparse ones."""
    try:
        return key_of(tensor.untyped_storage())
    except (RuntimeError, NotImplementedError):
        return None


def names(obj: Any) -> dict[int, tuple[str, Any]]:
    """Of each storage in @obj, which torch calls by a number: the name of the first tensor that
    shows it, and that tensor."""
    found: dict[int, tuple[str, Any]] = {}
    for name, tensor in named_tensors(obj):
        try:
            found.setdefault(tensor.untyped_storage()._cdata, (name, tensor))
        except (RuntimeError, NotImplementedError):  # it has none, such as sparse ones
            pass
    return found


def _of_optimizer(optimizer: Any) -> Iterator[Any]:
    for group in optimizer.param_groups:
        yield from group["params"]
    if type(optimizer).__module__.startswith(_KNOWN):
        # its parameters, also those that DeepSpeed takes out of the groups between its steps
        yield from optimizer.state
        for state in optimizer.state.values():
            if isinstance(state, dict):
                yield from state.values()


def _lazy_tensors(session: Any) -> Iterator[Any]:
    for optimizer in list(optimizers):
        yield from _of_optimizer(optimizer)
    for held in list(session.known):
        one = held()
        if isinstance(one, torch.nn.Module):
            yield from one.parameters()
        elif hasattr(one, "param_groups"):
            yield from _of_optimizer(one)
            for state in one.state.values():  # the user vouches for it
                yield from state.values() if isinstance(state, dict) else ()
        else:
            yield from (tensor for _, tensor in named_tensors(one))


def lazy_keys(session: Any) -> set[Key]:
    """Of all storages that may be captured lazily now."""
    keys: set[Any] = set()
    for one in _lazy_tensors(session):
        if type(one) in _PLAIN and not one.is_sparse:
            storage = one.untyped_storage()
            keys.add((storage.data_ptr(), storage.nbytes(), storage.device))
        elif isinstance(one, torch.Tensor):
            for tensor in tensors_in(one):
                keys.add(storage_key(tensor))
    keys.discard(None)
    return keys


def memory_of(storage: Any) -> memoryview:
    """The bytes of one on the host."""
    return memoryview((ctypes.c_char * storage.nbytes()).from_address(storage.data_ptr())).cast("B")
