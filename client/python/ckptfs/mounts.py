# SPDX-License-Identifier: MIT
"""Which paths lie in a mount of ckptfs: without the library."""

from __future__ import annotations

import os
from typing import Any

FSTYPE = "fuse.ckptfs"


def _fstype(device: int) -> str:
	number = "%d:%d" % (os.major(device), os.minor(device))
	with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
		for line in file:
			fields = line.split()
			if fields[2] == number:
				return fields[fields.index("-") + 1]
	return ""


def in_mount(directory: Any) -> bool:
	"""Does it lie in one? Whatever cannot be looked at does not."""
	try:
		return _fstype(os.stat(directory).st_dev) == FSTYPE
	except (OSError, ValueError, TypeError):
		return False


def to_mount(path: Any) -> bool:
	"""Is it the path of a file in one, there or yet to be? Of what is no path: no."""
	if not isinstance(path, (str, os.PathLike)):
		return False
	name = os.fspath(path)
	return isinstance(name, str) and in_mount(os.path.dirname(os.path.abspath(name)))
