#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 900
"""torch.distributed.checkpoint.async_save in a thread: training goes on while it writes."""

from dcp import Dcp
from harness.watch import main


class DcpThread(Dcp):
	name = "DCP, async_save in a thread"
	switches = "save() instead of async_save(): the cache is the staging; both work"
	at_once = False

	def setup(self, run):
		import torch.distributed as dist # pylint: disable=import-outside-toplevel
		from torch.distributed import checkpoint # pylint: disable=import-outside-toplevel
		group = dist.new_group(backend="gloo")
		under_way = []

		def begin(state, path):
			under_way.append(checkpoint.async_save(state, checkpoint_id=path, process_group=group))

		return begin, lambda: under_way.pop().result()


if __name__ == "__main__":
	main(DcpThread())
