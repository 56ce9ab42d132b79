#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 900
"""torch.distributed.checkpoint with ckptfs.hugging_face.Writer: the parts of the ranks are
captured, and then read by rank 0, which puts them together as ever."""

from harness import enter, main

enter("torch", "safetensors")
from dcp_hugging_face import DcpHuggingFace
from harness.lazily import Lazily

from ckptfs.hugging_face import Writer


class DcpHuggingFaceLazily(Lazily, DcpHuggingFace):
    lazily = (
        "`storage_writer=ckptfs.hugging_face.Writer(path, ...)`; "
        "what it puts together is written before `save` returns"
    )
    costs = (1, 0, 0)
    writer = Writer


if __name__ == "__main__":
    main(DcpHuggingFaceLazily())
