#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 900
"""torch.distributed.checkpoint of a model sharded by fully_shard: every rank writes its part, then rank 0 renames .metadata.
Also the base of the other ways to use it."""

from harness.framework import Framework, newest
from harness.watch import main


class Dcp(Framework):
	name = "DCP, save"
	packages = ("torch",)
	done = "rename .metadata"
	commits = "the rename to `.metadata`"
	switches = "none; save() instead of async_save() is as good"

	def prepare(self):
		import torch.distributed.checkpoint # pylint: disable=import-outside-toplevel,unused-import
		import training # pylint: disable=import-outside-toplevel,unused-import

	# --- the parts in which the ways differ ---

	def setup(self, run):
		"""Returns (save, wait): save(state, path) begins to, wait() returns when that is saved."""
		from torch.distributed import checkpoint # pylint: disable=import-outside-toplevel
		assert run.world == self.world
		return lambda state, path: checkpoint.save(state, checkpoint_id=path), lambda: None

	def fill(self, state, path):
		from torch.distributed import checkpoint # pylint: disable=import-outside-toplevel
		checkpoint.load(state, checkpoint_id=path)

	def load(self, path):
		import os # pylint: disable=import-outside-toplevel
		import torch # pylint: disable=import-outside-toplevel
		from torch.distributed.checkpoint.format_utils import dcp_to_torch_save # pylint: disable=import-outside-toplevel
		one = os.environ["TEST_TMP"] + "/one.%d.pt" % os.getpid()
		dcp_to_torch_save(path, one)
		state = torch.load(one, weights_only=False)
		os.unlink(one)
		return state

	# --- and in common ---

	def train(self, run):
		import training # pylint: disable=import-outside-toplevel
		t = training.Sharded(run)
		begin, wait = self.setup(run)
		saving = []

		def finish():
			while saving:
				wait()
				if run.rank == 0:
					for _, path in sorted(self.found(run.dir).items())[:-self.keep]:
						training.remove(path)
				run.saved(saving.pop())

		def save(t):
			finish()
			begin(t.state(), "%s/step-%d" % (run.dir, t.step))
			saving.append(t.step)
			if t.step == run.steps or self.at_once:
				finish()

		found = self.found(run.dir)
		if found:
			state = t.state()
			self.fill(state, found[newest(found)])
			t.take(state)
		t.go(run, save)

	at_once = True


if __name__ == "__main__":
	main(Dcp())
