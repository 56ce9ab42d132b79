# SPDX-License-Identifier: MIT
"""What becomes of checkpoints, and which to go on from. Without torch."""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Any, Optional, Union

from . import _lib
from ._lib import CheckpointError

Path = Union[str, "os.PathLike[str]"]
PATH_MAX = 4096
_STATES = {"captured": _lib.CAPTURED, "durable": _lib.DURABLE, "committed": _lib.COMMITTED}


def _function(name: str) -> Any:
	function = getattr(_lib.library(), name, None)
	if function is None:
		raise CheckpointError(errno.ENOSYS, "this libckptfs has no %s, it is older than the Python package: install one "
			"of the same release" % name)
	return function


def wait(path: Path, state: str = "committed", timeout: Optional[float] = None) -> None:
	"""Returns when the checkpoint at @path (a file or a directory) is at least "captured": its tensors may change;
	"durable": its bytes are on the backing; or "committed": whole, and under its name. @timeout: in seconds; None: for as
	long as the daemon says that it may still come. CheckpointError: it has failed, and why; ETIMEDOUT."""
	if state not in _STATES:
		raise ValueError("%r is no state to wait for; these are: %s" % (state, ", ".join(_STATES)))
	nanoseconds = 0 if timeout is None else max(int(timeout * 1e9), 1)
	_lib.check(_function("ckptfs_wait")(os.fsencode(path), _STATES[state], nanoseconds), "")


def commit(path: Path) -> None:
	"""The checkpoint at @path is whole, though nothing of what its rule waits for has come: commits it. It is for files
	of programs that ckptfs does not know."""
	_lib.check(_function("ckptfs_commit")(os.fsencode(path)), "")


def latest(directory: Path, *, verify: bool = True) -> Optional[str]:
	"""The path of the newest committed checkpoint in @directory, None where there is none. @verify: the newest whose
	bytes are those that were saved, all of which are read for that."""
	buffer = ctypes.create_string_buffer(PATH_MAX)
	result = _function("ckptfs_latest")(os.fsencode(directory), _lib.VERIFY if verify else 0, buffer, len(buffer))
	if result == -errno.ENOENT and os.path.isdir(directory):
		return None
	_lib.check(result, "")
	return os.fsdecode(buffer.value)
