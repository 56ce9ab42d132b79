# SPDX-License-Identifier: MIT
"""torch.distributed.checkpoint as safetensors files, lazily:

    writer = ckptfs.hugging_face.Writer("/ckpt/run/step-100", save_distributed=True)
    checkpoint.save(state, storage_writer=writer)

What is written is what HuggingFaceStorageWriter writes, for all of its readers. With
enable_consolidation=True the parts of the ranks are captured lazily, but `save` puts them together
before it returns, as that does."""

from __future__ import annotations

import json
import os

from torch.distributed.checkpoint._hf_utils import (
    CUSTOM_METADATA_KEY,
    DCP_VERSION_KEY,
    FORMAT_KEY,
    FORMAT_VALUE,
    HF_DCP_VERSION,
    SAVED_OFFSETS_KEY,
    _gen_file_name,
)
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from . import mounts
from .mounts import in_mount
from .safetensors_file import save_file


class Writer(HuggingFaceStorageWriter):
    """Takes the arguments of HuggingFaceStorageWriter. Parameters, the state of known optimizers
    and what was registered are captured lazily (see ckptfs.save); all else is written at once. On
    another filesystem it is HuggingFaceStorageWriter."""

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        if not in_mount(self.path) or any(
            item.type == WriteItemType.BYTE_IO for item in plan.items
        ):
            mounts.check_required(self.path)
            return super().write_data(plan, planner)
        indexes = plan.storage_data.get("fqn_to_index_mapping")
        last = max(indexes.values()) if indexes else 1
        results = []
        for index, items in (
            self._split_by_storage_plan(indexes, plan.items).items() if plan.items else ()
        ):
            name = _gen_file_name(index, last, plan.storage_data.get("shard_index"))
            tensors = {item.index.fqn: planner.resolve_data(item).detach() for item in items}
            offsets = {
                item.index.fqn: {SAVED_OFFSETS_KEY: item.tensor_data.chunk.offsets}
                for item in items
            }
            save_file(
                tensors,
                os.path.join(self.path, name),
                {
                    CUSTOM_METADATA_KEY: json.dumps(offsets),
                    DCP_VERSION_KEY: str(HF_DCP_VERSION),
                    FORMAT_KEY: FORMAT_VALUE,
                },
            )
            for item in items:
                size = tensors[item.index.fqn].nbytes
                results.append(WriteResult(item.index, size, _StorageInfo(name, 0, size)))
        future: Future[list[WriteResult]] = Future()
        future.set_result(results)
        return future
