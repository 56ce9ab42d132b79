# SPDX-License-Identifier: MIT
"""What becomes of checkpoints, and which to go on from. Without torch."""

from __future__ import annotations

import ctypes
import errno
import os
import time
from typing import Optional, Union

from . import _lib

Path = Union[str, "os.PathLike[str]"]
PATH_MAX = 4096
WITHOUT_END = (1 << 64) - 1
_STATES = {"captured": _lib.CAPTURED, "durable": _lib.DURABLE, "committed": _lib.COMMITTED}


def wait(path: Path, state: str = "committed", timeout: Optional[float] = None) -> None:
	"""Returns when the checkpoint at @path (a file or a directory) is at least "captured": its tensors may change;
	"durable": its bytes are on the backing; or "committed": whole, and under its name. @timeout: in seconds; 0: it looks
	once; None: without end. CheckpointError: it has failed, and why; ETIMEDOUT, with what is missing; ENOTTY: it lies in
	no mount of ckptfs."""
	if state not in _STATES:
		raise ValueError("%r is no state to wait for; these are: %s" % (state, ", ".join(_STATES)))
	end = None if timeout is None else time.monotonic() + timeout
	while True:
		left = WITHOUT_END if end is None else max(int((end - time.monotonic()) * 1e9), 0)
		result = _lib.library().ckptfs_wait(os.fsencode(path), _STATES[state], left)
		if result != -errno.EINTR: # handlers of signals run now, and may raise
			_lib.check(result)
			return


def commit(path: Path) -> None:
	"""The checkpoint at @path is whole, though what its rule waits for has not come: it is committed as soon as all of it
	is closed and on the backing. For directories of programs that ckptfs does not know."""
	_lib.check(_lib.library().ckptfs_commit(os.fsencode(path)))


def abandon(path: Path) -> None:
	"""It never will be: it fails, and its name shows what it was before."""
	_lib.check(_lib.library().ckptfs_abandon(os.fsencode(path)))


def latest(directory: Path, *, verify: bool = True) -> Optional[str]:
	"""The path of the newest committed checkpoint in @directory, of a mount or of a bare backing; None where there is
	none. @verify: the newest whose bytes are those that were saved, for which it reads them all."""
	buffer = ctypes.create_string_buffer(PATH_MAX)
	result = _lib.library().ckptfs_latest(os.fsencode(directory), _lib.VERIFY if verify else 0, buffer, len(buffer))
	if result == -errno.ENOENT and os.path.isdir(directory):
		return None
	_lib.check(result)
	return os.fsdecode(buffer.value)
