# SPDX-License-Identifier: MIT
"""torch.distributed.checkpoint, lazily:

	from torch.distributed import checkpoint
	checkpoint.save(state, storage_writer=ckptfs.dcp.Writer("/ckpt/run/step-100"))
	checkpoint.load(state, storage_reader=ckptfs.dcp.Reader("/ckpt/run/step-100"))

What is written is what FileSystemWriter writes, for all of DCP's readers. `save` returns when the ranks have agreed on who
writes what, and no tensor has been copied; so async_save, which copies all of them first, is not needed."""

from __future__ import annotations

import concurrent.futures
import io
import os
from typing import Any, Dict, List

import torch
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, SavePlan, SavePlanner, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from . import lazy, skeleton
from .mounts import in_mount

ALIGN = 64
THREADS = 4

_plans: Dict[Any, skeleton.Skeleton] = {} # of tensors of a shape and type


def _plan_of(tensor: Any) -> skeleton.Skeleton:
	key = (tensor.dtype, tuple(tensor.shape))
	if key not in _plans:
		_plans[key] = skeleton.plan(torch.empty(tensor.shape, dtype=tensor.dtype)) # memory that nobody touches
	return _plans[key]


def _saved(tensor: Any) -> bytes:
	"""As FileSystemWriter does."""
	tensor = tensor.cpu()
	if tensor.untyped_storage().size() != tensor.nbytes:
		tensor = tensor.clone()
	file = io.BytesIO()
	skeleton.torch_save(tensor, file)
	return file.getvalue()


class Writer(FileSystemWriter):
	"""Takes the arguments of FileSystemWriter, but does not sync unless sync_files=True: the commit does. Parameters, the state of known optimizers and what was registered are
	captured lazily (see ckptfs.save), in a file of each rank; all else is written at once. On another filesystem, or with
	extensions or another format, it is FileSystemWriter."""

	def __init__(self, path: Any, *args: Any, **kwargs: Any) -> None:
		if len(args) < 2 and in_mount(os.path.dirname(os.path.abspath(path))):
			kwargs.setdefault("sync_files", False)
		super().__init__(path, *args, **kwargs)

	def write_data(self, plan: SavePlan, planner: SavePlanner) -> "Future[List[WriteResult]]":
		session, why = lazy.session_for(os.path.join(self.path, "x"))
		why = why or self._why_not()
		if why:
			lazy.say_once(self.path, why)
			return super().write_data(plan, planner)
		assert session is not None
		session.raise_failure()
		name = "%s0.distcp" % plan.storage_data.prefix
		file = lazy.Writer(session)
		results, at = [], 0
		for item in sorted(plan.items, key=lambda item: item.type != WriteItemType.BYTE_IO):
			size = self._add(file, item, planner.resolve_data(item), at)
			results.append(WriteResult(item.index, size, _StorageInfo(name, at, size)))
			at += -(-size // ALIGN) * ALIGN
		lazy.write_to_path(file, os.path.join(self.path, name))
		future: "Future[List[WriteResult]]" = Future()
		future.set_result(results)
		return future

	def _why_not(self) -> str:
		if getattr(getattr(self, "transforms", None), "extensions", ()):
			return "extensions change the bytes"
		if getattr(getattr(self, "serialization_format", None), "value", "torch_save") != "torch_save":
			return "another format than that of torch.save"
		return skeleton.available()

	def _add(self, file: lazy.Writer, item: Any, data: Any, at: int) -> int:
		"""At @at of the file; its size."""
		if item.type == WriteItemType.BYTE_IO:
			file.parts.append((at, data.getvalue()))
			return len(data.getvalue())
		tensor = data.detach()
		if not lazy.is_plain(tensor):
			saved = _saved(tensor)
			file.parts.append((at, saved))
			return len(saved)
		plan = _plan_of(tensor)
		file.parts += [(at + off, part) for off, part in plan.parts]
		for hole, _ in plan.holes: # none of one without elements
			file.add_tensor(tensor, item.index.fqn, at + hole)
		return plan.size


class Reader(FileSystemReader):
	"""FileSystemReader, with several tensors read at a time."""

	def __init__(self, path: Any, *args: Any, threads: int = THREADS, **kwargs: Any) -> None:
		super().__init__(path, *args, **kwargs)
		self.threads = threads

	def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> "Future[None]":
		stored = [self.storage_data[item.storage_index] for item in plan.items]
		if any(getattr(info, "transform_descriptors", None) for info in stored) or not hasattr(os, "preadv"):
			return super().read_data(plan, planner)
		fds = {}
		try:
			for name in {info.relative_path for info in stored}:
				fds[name] = os.open(os.path.join(self.path, name), os.O_RDONLY | os.O_CLOEXEC)
			with concurrent.futures.ThreadPoolExecutor(self.threads, "ckptfs-load") as pool:
				jobs = [pool.submit(_read, fds[info.relative_path], info, item, planner) for item, info in zip(plan.items, stored)]
				for job in jobs:
					job.result()
		finally:
			for fd in fds.values():
				os.close(fd)
		future: "Future[None]" = Future()
		future.set_result(None)
		return future


def _bytes(fd: int, at: int, size: int) -> bytearray:
	data = bytearray(size)
	view = memoryview(data)
	while view.nbytes:
		n = os.preadv(fd, [view], at)
		if n == 0:
			raise EOFError("it ends at %d, within a tensor" % at)
		view, at = view[n:], at + n
	return data


def _read(fd: int, info: Any, item: Any, planner: Any) -> None:
	data = io.BytesIO(_bytes(fd, info.offset, info.length))
	if item.type == LoadItemType.BYTE_IO:
		planner.load_bytes(item, data)
		return
	tensor = torch.load(data, map_location="cpu", weights_only=True)
	for dim, (offset, length) in enumerate(zip(item.storage_offsets, item.lengths)):
		tensor = tensor.narrow(dim, offset, length)
	target = planner.resolve_tensor(item).detach()
	if target.size() != tensor.size():
		raise ValueError("%s: %s is stored where %s is wanted" % (item.storage_index.fqn, tuple(tensor.size()),
			tuple(target.size())))
	target.copy_(tensor)
	planner.commit_tensor(item, target)
