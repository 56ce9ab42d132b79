# SPDX-License-Identifier: MIT
"""Plans (skeleton.py) that serve more than one save: an object that has the structure of one before
it needs no pickling but of its numbers. Each save looks at all of the object; what is unlike or
unknown is planned anew.

The structure is all that torch.save's file depends on, but for the bytes of storages and for
numbers: types, keys, texts, which parts are one and the same, and what a tensor is of its storage.
Numbers, such as the step and the learning rate, change from save to save: where they lie in the
pickle is found out by pickling the object with others in their places."""

from __future__ import annotations

import collections
import pickle
import random
import struct
import threading
import zlib
from typing import Any, NamedTuple

import torch

try:
    from torch.utils.serialization import config as _config
except ImportError:
    _config = None

from . import known, skeleton
from .skeleton import Skeleton

_KEPT = 16  # plans; a job has few
_DEPTH = 100
_NUMBERS = frozenset((int, float, bool, type(None)))  # which pickles do not refer back to
_TEXTS = frozenset((str, bytes, torch.dtype, torch.device))
_KEYS = frozenset((str, int))  # of which equal ones are the same
_TENSORS = frozenset((torch.Tensor, torch.nn.Parameter))
_CONTAINERS = frozenset((dict, collections.OrderedDict, list))


class Unknown(Exception):
    """There is something in it of which nobody can tell whether it is as before."""


class Structure(NamedTuple):
    shape: tuple[Any, ...]  # equal, if the structure is
    numbers: list[Any]
    tensors: list[Any]  # the first that shows each storage
    storages: list[Any]


class Planned(NamedTuple):
    plan: Skeleton
    names: list[tuple[str, Any]]  # what shows each hole's storage: how it is called, the tensor


class _Plan:
    def __init__(self, plan: Skeleton, pickled: bytes, found: Structure, names: list[str]) -> None:
        self.parts, self.size, self.pickled = plan.parts, plan.size, pickled
        self.holes = [at for at, _ in plan.holes]
        self.numbers = _opcodes(found.numbers)
        self.names = names
        self.template: _Template | None = None


# --- the structure ---


class _Walk:
    """Through an object, in the order in which it is pickled. This runs at each save, over all
    tensors. (No closures that call each other: such a ring would keep tensors until Python looks
    for garbage.)"""

    def __init__(self) -> None:
        self.shape: list[Any] = []
        self.numbers: list[Any] = []
        self.tensors: list[Any] = []
        self.storages: list[Any] = []
        # what can be told from its equal when it is loaded: tensors, dicts, lists
        self.seen: dict[int, int] = {}
        self.memories: dict[int, int] = {}
        self.addresses: dict[int, int] = {}

    def tensor(self, one: Any, kind: type) -> None:
        if (
            one.__dict__
            or one.layout is not torch.strided
            or one.is_quantized
            or one.is_nested
            or one._backward_hooks
            or not (one.is_cpu or one.is_cuda)
        ):
            raise Unknown
        storage, extend = one.untyped_storage(), self.shape.extend
        number = self.memories.setdefault(storage._cdata, len(self.memories))
        if number == len(self.storages):
            self.storages.append(storage)
            self.tensors.append(one)
            # two storages of the same memory: torch.save looks for that
            address = storage.data_ptr()
            extend(
                (
                    storage.nbytes(),
                    storage.device,
                    self.addresses.setdefault(address, number) if address else -1,
                )
            )
        dtype = one.dtype
        extend(
            (
                kind,
                self.seen.setdefault(id(one), len(self.seen)),
                number,
                dtype,
                one.shape,
                one.stride(),
                one.storage_offset(),
                one.requires_grad,
                one.is_conj() if dtype.is_complex else None,
                one.is_neg(),
            )
        )

    def walk(self, values: Any, depth: int) -> None:
        if depth > _DEPTH:
            raise Unknown
        for one in values:
            kind = type(one)
            if kind in _TENSORS:
                self.tensor(one, kind)
            elif kind in _NUMBERS:
                self.shape.append(None)
                self.numbers.append(one)
            elif kind in _TEXTS:
                self.shape.extend((kind, one))
            else:
                self.container(one, kind, depth)

    def container(self, one: Any, kind: type, depth: int) -> None:
        add, first = self.shape.append, len(self.seen)
        if kind is tuple:
            self.shape.extend((kind, len(one)))
            self.walk(one, depth + 1)
            return
        if kind not in _CONTAINERS:
            raise Unknown
        number = self.seen.setdefault(id(one), first)
        self.shape.extend((kind, number))
        if number != first:
            return
        if kind is list:
            add(len(one))
            self.walk(one, depth + 1)
            return
        keys = tuple(one)
        if not _KEYS.issuperset(map(type, keys)):
            raise Unknown
        add(keys)
        self.walk(one.values(), depth + 1)
        if kind is not dict:
            self.walk((vars(one),), depth + 1)


def structure(obj: Any) -> Structure:
    found = _Walk()
    found.walk((obj,), 0)
    return Structure(tuple(found.shape), found.numbers, found.tensors, found.storages)


def _with_numbers(one: Any, others: Any, copies: dict[int, Any]) -> Any:
    """The same structure, each number of which is the next of @others."""
    kind = type(one)
    if kind in _NUMBERS:
        return next(others)
    if id(one) in copies:
        return copies[id(one)]
    made = one
    if kind in (dict, collections.OrderedDict):
        made = copies[id(one)] = kind()
        for key, value in one.items():
            made[key] = _with_numbers(value, others, copies)
        if kind is not dict:
            vars(made).update(_with_numbers(vars(one), others, copies))
    elif kind is list:
        made = copies[id(one)] = []
        made += [_with_numbers(value, others, copies) for value in one]
    elif kind is tuple:
        made = tuple([_with_numbers(value, others, copies) for value in one])
    copies[id(one)] = made
    return made


# --- numbers ---


def _opcodes(numbers: list[Any]) -> list[bytes]:
    """Of each, what a pickle has of it, without the frame."""
    return [pickle.dumps(number, 2)[2:-1] for number in numbers]


class _Template:
    """What of a file depends on numbers: the pickle, and its check sum, which the zip file has
    twice."""

    def __init__(self, plan: _Plan, obj: Any) -> None:
        base = random.randrange(1 << 61, 1 << 62)
        others = [base + i for i in range(len(plan.numbers))]
        data = skeleton.plan_and_pickle(_with_numbers(obj, iter(others), {}))[1]
        self.between, at = [], 0
        for one in _opcodes(others):
            found = data.find(one, at)
            if found < 0:
                raise Unknown
            self.between.append(data[at:found])
            at = found + len(one)
        self.between.append(data[at:])
        self.first, self.last = plan.parts[0][1], plan.parts[-1][1]
        self.at, self.length = self.first.find(plan.pickled), len(plan.pickled)
        crc = struct.pack("<I", zlib.crc32(plan.pickled))
        sums = [_all(crc, text) for text in (self.first, self.last)]
        if (
            self.at < 0
            or len(plan.parts) < 2
            or self.pickle(plan.numbers) != plan.pickled
            or list(map(len, sums)) != [1, 1]
            or self.at - 4 < sums[0][0] < self.at + self.length
        ):
            raise Unknown
        self.sums = [found[0] for found in sums]

    def pickle(self, numbers: list[bytes]) -> bytes:
        pieces = [b""] * (2 * len(numbers) + 1)
        pieces[::2], pieces[1::2] = self.between, numbers
        return b"".join(pieces)

    def fill(
        self, parts: list[tuple[int, bytes]], numbers: list[bytes]
    ) -> list[tuple[int, bytes]] | None:
        """The parts of the file with these; None: they take more, or less, room."""
        data = self.pickle(numbers)
        if len(data) != self.length:
            return None
        crc = struct.pack("<I", zlib.crc32(data))
        first = bytearray(self.first)
        first[self.at : self.at + self.length] = data
        last = bytearray(self.last)
        for text, at in zip((first, last), self.sums):
            text[at : at + 4] = crc
        return [(parts[0][0], bytes(first)), *parts[1:-1], (parts[-1][0], bytes(last))]


def _all(what: bytes, text: bytes) -> list[int]:
    found, at = [], text.find(what)
    while at >= 0:
        found.append(at)
        at = text.find(what, at + 1)
    return found


# --- plans ---

_plans: collections.OrderedDict[Any, _Plan] = collections.OrderedDict()
_lock = threading.Lock()


def _settings() -> Any:
    """Of torch, which a file depends on."""
    crc = getattr(torch.serialization, "get_crc32_options", None)
    return (
        getattr(getattr(_config, "save", None), "storage_alignment", None),
        crc() if crc else None,
        len(getattr(torch.serialization, "_package_registry", ())),
    )


def plan(
    obj: Any, pickle_module: Any = pickle, pickle_protocol: int = 2, **arguments: Any
) -> Planned:
    """As skeleton.plan."""
    found = None
    if pickle_module is pickle and pickle_protocol == 2 and not arguments:
        try:
            found = structure(obj)
        except Unknown:
            pass
    if found is None:
        return _planned(
            skeleton.plan(
                obj, pickle_module=pickle_module, pickle_protocol=pickle_protocol, **arguments
            ),
            obj,
        )
    key = (found.shape, _settings())
    with _lock:
        old = _plans.get(key)
        if old:
            _plans.move_to_end(key)
    parts = _parts(old, found, obj) if old else None
    if old is None or parts is None:
        made, pickled = skeleton.plan_and_pickle(obj)
        planned = _planned(made, obj)
        _keep(key, found, made, pickled, planned)
        return planned
    full = [
        (storage, tensor)
        for storage, tensor in zip(found.storages, found.tensors)
        if storage.nbytes()
    ]
    return Planned(
        Skeleton(parts, [(at, storage) for at, (storage, _) in zip(old.holes, full)], old.size),
        [(name, tensor) for name, (_, tensor) in zip(old.names, full)],
    )


def _parts(old: _Plan, found: Structure, obj: Any) -> list[tuple[int, bytes]] | None:
    numbers = _opcodes(found.numbers)
    if numbers == old.numbers:
        return old.parts
    if old.template is None:
        try:
            old.template = _Template(old, obj)
        except Unknown:
            return None
    return old.template.fill(old.parts, numbers)


def _planned(made: Skeleton, obj: Any) -> Planned:
    names = known.names(obj)
    return Planned(
        made,
        [
            names.get(storage._cdata, (f"storage {i}", storage))
            for i, (_, storage) in enumerate(made.holes)
        ],
    )


def _keep(key: Any, found: Structure, made: Skeleton, pickled: bytes, planned: Planned) -> None:
    """For saves that come. What torch.save has found is what was found here, or nothing is kept."""
    full = [storage for storage in found.storages if storage.nbytes()]
    if [s._cdata for s in full] != [s._cdata for _, s in made.holes]:
        return
    with _lock:
        _plans[key] = _Plan(made, pickled, found, [name for name, _ in planned.names])
        _plans.move_to_end(key)
        while len(_plans) > _KEPT:
            _plans.popitem(last=False)
