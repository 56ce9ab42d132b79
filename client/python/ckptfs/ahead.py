# SPDX-License-Identifier: MIT
"""Objects that are serialised ahead of the save that writes them, such as the state of a dataloader
(ByteCheckpoint, 4.5): a save that has only bytes to hand over does not keep the training."""

from __future__ import annotations

import concurrent.futures
import functools
import io
import os
import threading
from typing import Any, Callable

import torch

from . import skeleton


def _serialised(make: Callable[[], Any]) -> memoryview:
    file = io.BytesIO()
    skeleton.torch_save(make(), file)
    return file.getbuffer()


class RegisteredObject:
    """What `make` returns, as torch.save writes it. All methods may be called from any thread."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._ahead: concurrent.futures.Future[memoryview] | None = None
        self._pid = os.getpid()

    def prepare(self) -> None:
        """Begins to call `make` and to serialise its result, in a thread, and returns. The next
        save writes that, and waits for it if need be. Call it where the state is already the one
        that the checkpoint is to have, for example when the last batch before the save was read.
        Training goes on beside it: what `make` returns must not change until `wait` returns, or
        the save has. Another call before the save begins anew."""
        ahead: concurrent.futures.Future[memoryview] = concurrent.futures.Future()

        def run() -> None:
            try:
                ahead.set_result(_serialised(self._make))
            except BaseException as error:  # the save raises it
                ahead.set_exception(error)

        with self._lock:
            self._ahead, self._pid = ahead, os.getpid()
        threading.Thread(target=run, name="ckptfs-ahead", daemon=True).start()

    def wait(self) -> None:
        """Returns when what `prepare` has begun is made, or has failed; at once, if there is
        nothing."""
        with self._lock:
            ahead = self._ahead
        if ahead is not None and self._pid == os.getpid():
            ahead.exception()

    def take(self) -> memoryview:
        """The bytes, for one save: those that `prepare` has made, or else those of now. Raises what
        `make`, or its serialisation, has raised."""
        with self._lock:
            ahead, self._ahead = self._ahead, None
        if ahead is None or self._pid != os.getpid():  # no thread outlives a fork
            return _serialised(self._make)
        return ahead.result()

    def __deepcopy__(self, memo: Any) -> RegisteredObject:
        """Savers copy what they are given; this is no state, but where to get one."""
        return self

    def __reduce__(self) -> Any:
        """Whoever pickles it, pickles what `make` has returned, in bytes that torch.load reads."""
        return functools.partial(torch.load, weights_only=False), (io.BytesIO(self.take()),)


def register_object(make: Callable[[], Any]) -> RegisteredObject:
    """An object to be saved as what `make` returns, and serialised before the save if its method
    `prepare` was called by then:

        loader_state = ckptfs.register_object(loader.state_dict)
        loader_state.prepare()                              during the step before the save
        ckptfs.save(loader_state, f"{step_dir}/loader-{rank}.pt")

    The file is that of torch.save(make(), f). As a value of the state_dict that `ckptfs.dcp.Writer`
    writes it is stored as its state would be. In any other save, also within a larger object, it is
    pickled, and loads as its state with weights_only=False."""
    return RegisteredObject(make)
