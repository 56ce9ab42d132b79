# SPDX-License-Identifier: MIT
"""The barrier that nobody can forget: from the first session on it stands before each step of each
optimizer.

torch calls a global step pre-hook in Optimizer.step, whatever the implementation (foreach, fused,
capturable), also where GradScaler, an optimizer in the backward pass, DeepSpeed or Lightning do the
calling. It does not run when a CUDA graph is replayed that a step was captured in: so when the hook
sees such a capture, replays get a barrier of their own."""

from __future__ import annotations

import functools
import gc
from typing import Any, Iterator

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

from . import known
from .session import Session, call_before, sessions

_handle: Any = None
_replay_wrapped = False


def current_streams(devices: Any) -> list[int]:
    """Handles of the streams that torch uses now on these CUDA devices."""
    return [torch.cuda.current_stream(device).cuda_stream for device in sorted(devices)]


def _barriers() -> None:
    call_before()
    for session in sessions():
        if session.pending or session.devices_pending():
            session.barrier_in_hook(current_streams(session.devices_pending()))


def _capturing() -> bool:
    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


def _wrap_replay() -> None:
    """Steps are replayed without the hook: a barrier stands before each replay."""
    global _replay_wrapped
    graph = getattr(torch.cuda, "CUDAGraph", None)
    if _replay_wrapped or graph is None:
        return
    inner = graph.replay

    @functools.wraps(inner)
    def replay(self: Any, *args: Any, **kwargs: Any) -> Any:
        _barriers()
        return inner(self, *args, **kwargs)

    graph.replay = replay
    _replay_wrapped = True


def _before_step(optimizer: Any, _args: Any, _kwargs: Any) -> None:
    known.optimizers.add(optimizer)
    if _capturing():
        _wrap_replay()
        call_before()
        # a stream that is captured cannot be told to wait for what is not
        for session in sessions():
            if session.pending:
                session.barrier_in_hook()
        return
    _barriers()


def _subclasses(kind: type) -> Iterator[type]:
    yield kind
    for one in kind.__subclasses__():
        yield from _subclasses(one)


def install(_session: Session | None = None) -> None:
    """With the first session; not again."""
    global _handle
    if _handle is not None:
        return
    _handle = register_optimizer_step_pre_hook(torch._disable_dynamo(_before_step))
    kinds = set(map(id, _subclasses(Optimizer)))
    for one in gc.get_objects():  # those that have been made before; not all can be hashed
        if id(type(one)) in kinds:
            known.optimizers.add(one)


def remove() -> None:
    """For tests: what happens when nobody waits."""
    global _handle
    if _handle is not None:
        _handle.remove()
        _handle = None
