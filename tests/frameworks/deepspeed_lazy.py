#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 1800
"""DeepSpeed, lazily, by its config alone: `datastates_ckpt` makes it import `datastates`, which is ours (client/python)."""

from harness import enter, main

enter("deepspeed", "torch")
# pylint: disable=wrong-import-position
import deepspeed_zero1
from harness import lazily


class Engine(deepspeed_zero1.Engine):
	more = {"datastates_ckpt": {"host_cache_size": 0.01, "parser_threads": 2, "pin_host_cache": True}}


class DeepSpeedLazily(deepspeed_zero1.DeepSpeed):
	name = "DeepSpeed, ZeRO 1, lazily"
	engine = Engine
	costs = (0, 0, 0) # what is written by write(2)

	def train(self, run):
		super().train(run)
		lazily.was_lazy(run)


if __name__ == "__main__":
	main(DeepSpeedLazily())
