# SPDX-License-Identifier: MIT
"""torch.save becomes lazy by itself: `python -m ckptfs run`, or CKPTFS_LAZY=1 where the package is installed (torch calls
`autoload` when it is imported: the entry point torch.backends). Nothing here can fail the program: what goes wrong is
logged, and torch.save stays as it is."""

from __future__ import annotations

import functools
import logging
import os
from typing import Any

ENVIRONMENT = "CKPTFS_LAZY"
_OFF = ("", "0", "no", "off", "false")


def wanted() -> bool:
	"""Does the environment ask for it?"""
	return os.environ.get(ENVIRONMENT, "").lower() not in _OFF


def autoload() -> None:
	"""What torch calls."""
	if wanted():
		enable()


def _is_ours(path: Any) -> bool:
	"""Does @path lie in a mount of ckptfs?"""
	if not isinstance(path, (str, os.PathLike)):
		return False
	try:
		directory = os.path.dirname(os.path.abspath(os.fspath(path))) # type: ignore[type-var]
		return _fstype(os.stat(directory).st_dev) == "fuse.ckptfs"
	except (OSError, ValueError, TypeError):
		return False


def _fstype(device: int) -> str:
	number = "%d:%d" % (os.major(device), os.minor(device))
	with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
		for line in file:
			fields = line.split()
			if fields[2] == number:
				return fields[fields.index("-") + 1]
	return ""


def enable() -> None:
	"""From here on torch.save of a path in a mount of ckptfs is ckptfs.save; of all else it is what it was."""
	try:
		import torch # pylint: disable=import-outside-toplevel
		inner = torch.save
		if getattr(inner, "_ckptfs", False):
			return

		@functools.wraps(inner)
		def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
			if _is_ours(f) and len(args) <= 2:
				from . import lazy # pylint: disable=import-outside-toplevel
				return lazy.save(obj, f, *args, **kwargs)
			return inner(obj, f, *args, **kwargs)

		save._ckptfs = True # type: ignore[attr-defined]
		torch.save = torch.serialization.save = save
	except Exception as error: # pylint: disable=broad-except
		logging.getLogger("ckptfs").warning("torch.save stays as it is: %s", error)
