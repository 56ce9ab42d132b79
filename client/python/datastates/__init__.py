# SPDX-License-Identifier: MIT
"""The name under which DeepSpeed and Kénotron import DataStates-LLM's engine: ckptfs's, of the same interface."""

from ckptfs.datastates import CheckpointEngine

__all__ = ["CheckpointEngine"]
