# SPDX-License-Identifier: MIT
"""What torch.save writes of an object, without the bytes of its storages, and where these are to
be: the official mechanism, torch.serialization.skip_data, into a file that has holes."""

from __future__ import annotations

import os
import pickle
import types
from typing import Any, NamedTuple

import torch

# as it is without us: autoload.py replaces it
torch_save = getattr(torch.save, "ckptfs_inner", torch.save)


class Unplanned(Exception):
    """This object, or this torch, cannot be saved in that way; the text says why."""


class Skeleton(NamedTuple):
    # offset and bytes of all that is no storage; the last is the end of the file
    parts: list[tuple[int, bytes]]
    holes: list[tuple[int, Any]]  # offset and storage of all that have bytes
    size: int


class _Holed:
    """What PyTorchFileWriter takes for a file: what is written is kept, what is skipped is a
    hole."""

    def __init__(self) -> None:
        self.at, self.parts, self.holes = 0, [], []  # type: ignore[var-annotated]
        self._open: list[bytes] = []
        self._since = 0

    def write(self, data: Any) -> int:
        data = bytes(data)
        self._open.append(data)
        self.at += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence != os.SEEK_CUR or offset < 0:
            raise Unplanned("torch.save of this version seeks in another way than skip_data should")
        self._end_part()
        if offset:
            self.holes.append((self.at, offset))
        self.at += offset
        self._since = self.at
        return self.at

    def tell(self) -> int:
        return self.at

    def flush(self) -> None:
        self._end_part()

    def _end_part(self) -> None:
        if self._open:
            self.parts.append((self._since, b"".join(self._open)))
        self._open, self._since = [], self.at


def _recording(pickle_module: Any) -> tuple[Any, list[Any], list[Any]]:
    """A pickle module as that one, a list in which the storages come to be that are pickled, in
    their order, and one of the files that are pickled to. torch derives its pickler from the
    module's, with a persistent_id that returns ("storage", type, key, ...) for them."""
    found: list[Any] = []
    files: list[Any] = []
    seen = set()

    class Pickler(pickle_module.Pickler):  # type: ignore[misc]
        def __init__(self, file: Any, *args: Any, **arguments: Any) -> None:
            super().__init__(file, *args, **arguments)
            files.append(file)

        def __init_subclass__(cls, **arguments: Any) -> None:
            super().__init_subclass__(**arguments)
            inner = cls.persistent_id

            def persistent_id(self: Any, obj: Any) -> Any:
                result = inner(self, obj)
                if result is None:  # of most objects
                    return None
                if (
                    isinstance(result, tuple)
                    and len(result) > 2
                    and result[0] == "storage"
                    and result[2] not in seen
                ):
                    seen.add(result[2])
                    found.append(getattr(obj, "_untyped_storage", obj))
                return result

            cls.persistent_id = persistent_id

    module = types.SimpleNamespace(
        **{name: getattr(pickle_module, name) for name in dir(pickle_module)}
    )
    module.Pickler = Pickler
    return module, found, files


def available() -> str:
    """Why torch cannot; or nothing."""
    if not hasattr(torch.serialization, "skip_data"):
        return f"torch {torch.__version__} has no torch.serialization.skip_data; 2.6 has"
    return ""


def plan(obj: Any, **arguments: Any) -> Skeleton:
    """@arguments: as of torch.save. Raises what its pickling would, too."""
    return plan_and_pickle(obj, **arguments)[0]


def plan_and_pickle(
    obj: Any, pickle_module: Any = pickle, **arguments: Any
) -> tuple[Skeleton, bytes]:
    """The same, and the pickle in it; nothing, if it is not known."""
    why = available()
    if why:
        raise Unplanned(why)
    module, storages, pickles = _recording(pickle_module)
    file = _Holed()
    try:
        with torch.serialization.skip_data():
            torch_save(obj, file, pickle_module=module, **arguments)
    except (RuntimeError, NotImplementedError) as error:  # tensors without storages, for example
        raise Unplanned(str(error)) from error
    file.flush()
    full = [s for s in storages if s.nbytes()]
    storages.clear()  # the classes above are garbage that is there until it is looked for
    if [s.nbytes() for s in full] != [nbytes for _, nbytes in file.holes]:
        raise Unplanned("torch.save of this version leaves other holes than skip_data should")
    pickled = (
        pickles[0].getvalue() if len(pickles) == 1 and hasattr(pickles[0], "getvalue") else b""
    )
    return Skeleton(file.parts, [(at, s) for (at, _), s in zip(file.holes, full)], file.at), pickled
