# SPDX-License-Identifier: MIT
"""The name under which DeepSpeed and Kénotron import DataStates-LLM's engines: ckptfs's, of the
same interfaces."""

from ckptfs.datastates import CheckpointEngine, CkptEngine

__all__ = ["CheckpointEngine", "CkptEngine"]
