# SPDX-License-Identifier: MIT
"""libckptfs by ctypes: where it is, its structs and functions (client/ckptfs.h), and its errors."""

from __future__ import annotations

import ctypes
import errno
import os
import threading
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import List, Optional

SONAME = "libckptfs.so.1"

HOST, HOST_PINNED, CUDA, CUDA_MANAGED = range(4)
STORAGE, TENSOR, OBJECT = range(3)
LANDED = 1
CAPTURED, DURABLE, COMMITTED = 2, 3, 4
VERIFY = 1
STREAM_COMPLETE = (1 << 64) - 1


class CheckpointError(OSError):
	"""A checkpoint could not be saved, read or waited for. Its text is the whole of what libckptfs says: the tensor or
	file, the cause, the way out. `errno` is there as of any OSError: ESTALE, a tensor changed before it was
	captured; ENOTCONN, the daemon is gone; ETIMEDOUT; and so on."""

	def __str__(self) -> str:
		return str(self.strerror)


class LibraryNotFound(CheckpointError):
	"""There is no libckptfs that could be loaded; the text says where it was looked for."""


class Options(Structure):
	_fields_ = [("rank", c_int), ("world", c_int), ("local_rank", c_int), ("local_world", c_int),
		("arena_bytes", c_uint64), ("threads", c_uint)]


class TensorInfo(Structure):
	_fields_ = [("id", c_uint64), ("name", c_char_p), ("kind", c_int), ("memory", c_int), ("dtype", c_char_p),
		("ndim", c_uint), ("global_shape", c_uint64 * 8), ("shard_offset", c_uint64 * 8), ("shard_shape", c_uint64 * 8),
		("bytes", c_uint64), ("eager", c_int)]


class WriteOp(Structure):
	_fields_ = [("id", c_uint64), ("file_off", c_uint64), ("src_off", c_uint64), ("len", c_uint64), ("addr", c_void_p),
		("stream", c_uint64), ("rows", c_uint64), ("row_bytes", c_uint64), ("pitch", c_uint64)]


class SessionStats(Structure):
	"""What ckptfs_session_stats tells: see client/ckptfs.h."""
	_fields_ = [(name, c_uint64) for name in ("captures", "captured_bytes", "failed", "pending", "pending_bytes",
		"barriers", "barrier_ns", "arena_bytes", "pinned_bytes")]

	captures: int
	captured_bytes: int
	failed: int
	pending: int
	pending_bytes: int
	barriers: int
	barrier_ns: int
	arena_bytes: int
	pinned_bytes: int

	def __repr__(self) -> str:
		return "SessionStats(%s)" % ", ".join("%s=%d" % (name, getattr(self, name)) for name, _ in self._fields_)


# Name, arguments; all return int but those named below.
_FUNCTIONS = {
	"ckptfs_open": (c_char_p, POINTER(Options), POINTER(c_void_p)),
	"ckptfs_close": (c_void_p,),
	"ckptfs_error": (c_void_p,),
	"ckptfs_register": (c_void_p, POINTER(TensorInfo), c_size_t),
	"ckptfs_unregister": (c_void_p, POINTER(c_uint64), c_size_t),
	"ckptfs_write": (c_void_p, c_int, POINTER(WriteOp), c_size_t),
	"ckptfs_barrier": (c_void_p, POINTER(c_uint64), c_size_t, c_uint, c_uint64),
	"ckptfs_session_stats": (c_void_p, POINTER(SessionStats)),
	"ckptfs_wait": (c_char_p, c_int, c_uint64),
	"ckptfs_commit": (c_char_p,),
	"ckptfs_abandon": (c_char_p,),
	"ckptfs_latest": (c_char_p, c_uint, c_char_p, c_size_t),
}
_RETURNS = {"ckptfs_close": None, "ckptfs_error": c_char_p}

_loaded: Optional[ctypes.CDLL] = None
_lock = threading.Lock()


def candidates() -> List[str]:
	"""Where the library is looked for, in order: CKPTFS_LIB alone if it is set (a file, or the directory of one); the
	build directory of the source tree that this package lies in; wherever the dynamic linker looks."""
	told = os.environ.get("CKPTFS_LIB")
	if told:
		return [os.path.join(told, SONAME) if os.path.isdir(told) else told]
	here = os.path.dirname(os.path.abspath(__file__))
	top = os.path.dirname(os.path.dirname(os.path.dirname(here)))
	in_tree = os.path.exists(os.path.join(top, "client", "ckptfs_abi.h"))
	return ([os.path.join(top, "build", "lib", SONAME)] if in_tree else []) + [SONAME]


def _load() -> ctypes.CDLL:
	tried = []
	for path in candidates():
		try:
			lib = ctypes.CDLL(path)
			for name, arguments in _FUNCTIONS.items():
				function = getattr(lib, name)
				function.argtypes, function.restype = arguments, _RETURNS.get(name, c_int)
		except (OSError, AttributeError) as error:
			tried.append("%s: %s" % (path, error))
			continue
		return lib
	raise LibraryNotFound(errno.ENOENT, "no libckptfs: %s; build it (make) or install it (make install), or set "
		"CKPTFS_LIB to its path" % "; ".join(tried))


def library() -> ctypes.CDLL:
	"""libckptfs, loaded on the first use. LibraryNotFound: there is none."""
	global _loaded # pylint: disable=global-statement
	with _lock:
		if _loaded is None:
			_loaded = _load()
		return _loaded


def loaded() -> bool:
	"""Has it been?"""
	return _loaded is not None


def told(session: Optional[int] = None) -> str:
	"""What ckptfs_error says: why the last call on this thread with this session (or without any) failed."""
	text = library().ckptfs_error(session)
	return text.decode(errors="replace") if text else ""


def check(result: int) -> int:
	"""@result, of a call without a session, or the exception that it stands for."""
	if result < 0:
		raise CheckpointError(-result, told() or os.strerror(-result))
	return result


def open_session(path: str, options: Options) -> int:
	handle = c_void_p()
	check(library().ckptfs_open(os.fsencode(path), byref(options), byref(handle)))
	return handle.value or 0
