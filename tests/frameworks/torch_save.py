#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 900
"""torch.save: rank 0 writes one file, the name of which is final from the first byte on. Read with and without mmap."""

from harness.framework import Framework, newest
from harness.watch import main


class TorchSave(Framework):
	name = "torch.save"
	packages = ("torch",)
	files = True
	pattern = r"step-(\d+)\.pt"
	commits = "the last close of the file"
	switches = "none; mmap=True works"

	def prepare(self):
		import training # pylint: disable=import-outside-toplevel,unused-import

	def load(self, path):
		import torch # pylint: disable=import-outside-toplevel
		mapped = torch.load(path, weights_only=True, mmap=True)
		return mapped if int(mapped["step"]) % 4 else torch.load(path, weights_only=True)

	def train(self, run):
		import torch # pylint: disable=import-outside-toplevel
		import training # pylint: disable=import-outside-toplevel

		def save(t):
			if run.rank == 0:
				torch.save(t.state(), "%s/step-%d.pt" % (run.dir, t.step))
				for step, path in sorted(self.found(run.dir).items())[:-self.keep]:
					assert step < t.step
					training.remove(path)
			run.saved(t.step)

		t = training.Training(run)
		found = self.found(run.dir)
		if found:
			t.take(self.load(found[newest(found)]))
		t.go(run, save)


if __name__ == "__main__":
	main(TorchSave())
