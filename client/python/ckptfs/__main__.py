# SPDX-License-Identifier: MIT
"""python -m ckptfs run SCRIPT [ARGUMENT...]: runs a script whose torch.save is lazy on mounts of ckptfs."""

from __future__ import annotations

import os
import runpy
import sys

from . import autoload
from ._lib import CheckpointError
from .session import barrier

USAGE = """usage: python -m ckptfs run SCRIPT [ARGUMENT...]
       python -m ckptfs run -m MODULE [ARGUMENT...]

Runs a Python script, unchanged, with a torch.save (and safetensors.torch.save_file) that returns at once for paths in a
mount of ckptfs; the steps of optimizers wait until what they change is captured. All other paths are saved
as ever. As a program of torchrun:

       torchrun --nproc-per-node 8 -m ckptfs run train.py

Exit status: that of the script; 1 if its last save failed after it had returned.
"""


def _run(arguments: list) -> None:
	os.environ.setdefault(autoload.ENVIRONMENT, "1") # for the processes that it starts
	autoload.enable()
	autoload.enable_safetensors()
	if arguments == ["-m"]:
		_usage()
	try:
		_run_script(arguments)
	except SystemExit as end:
		if end.code in (None, 0):
			_end()
		raise
	_end()


def _run_script(arguments: list) -> None:
	if arguments[0] == "-m":
		sys.argv = arguments[1:]
		sys.path[0] = os.getcwd()
		runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
	else:
		sys.argv = arguments
		sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
		runpy.run_path(arguments[0], run_name="__main__")


def _end() -> None:
	"""What the script's last save could not tell any more."""
	try:
		barrier(landed=True)
	except CheckpointError as error:
		sys.exit("ckptfs: %s" % error)


def _usage() -> None:
	sys.stderr.write(USAGE)
	sys.exit(2)


def main() -> None:
	if sys.argv[1:2] in (["-h"], ["--help"]):
		print(USAGE, end="")
	elif sys.argv[1:2] == ["run"] and len(sys.argv) > 2:
		_run(sys.argv[2:])
	else:
		_usage()


if __name__ == "__main__":
	main()
