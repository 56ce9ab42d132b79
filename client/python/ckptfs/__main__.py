# SPDX-License-Identifier: MIT
"""python -m ckptfs run SCRIPT [ARGUMENT...]: runs a script whose torch.save is lazy on mounts of
ckptfs."""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys

from . import __version__, autoload, fates, mounts
from ._lib import CheckpointError
from .session import barrier

USAGE = """usage: python -m ckptfs run SCRIPT [ARGUMENT...]
       python -m ckptfs run -m MODULE [ARGUMENT...]
       python -m ckptfs --version

Runs a Python script, unchanged, with a torch.save (and safetensors.torch.save_file) that returns
at once for paths in a mount of ckptfs. Optimizers' steps wait until what they change is captured.
Other paths are saved as ever; with CKPTFS_REQUIRE=1 in the environment they are an error. As a
program of torchrun:

       torchrun --nproc-per-node 8 -m ckptfs run train.py

Exit status: that of the script; 1 if a save failed after it had returned; 2 for wrong usage.
"""


def _run(arguments: list[str]) -> None:
    if arguments == ["-m"]:
        _usage("-m wants the name of a module")
    _check_script(arguments)
    try:
        mounts.is_required("/")  # a value that is none is told before training
    except CheckpointError as error:
        _usage(str(error))
    os.environ.setdefault(autoload.ENVIRONMENT, "1")  # for the processes that it starts
    autoload.enable()
    autoload.enable_safetensors()
    try:
        _run_script(arguments)
    except SystemExit as end:
        if end.code in (None, 0):
            _end()
        raise
    _end()


def _run_script(arguments: list[str]) -> None:
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


def _check_script(arguments: list[str]) -> None:
    """One line for what Python would tell by a traceback of ours."""
    name = arguments[0]
    if name == "-m":
        try:
            # Of a package: what it imports is to find another torch.save.
            found = importlib.util.find_spec(arguments[1].split(".")[0])
        except (ImportError, ValueError):
            found = None
        if found is None and not os.path.exists(
            os.path.join(os.getcwd(), *arguments[1].split(".")) + ".py"
        ):
            sys.exit(f"ckptfs: there is no module {arguments[1]} that could be run")
    elif name.startswith("-"):
        _usage(f"{name} stands before the script; its own arguments come behind it")
    elif not os.path.exists(name):
        sys.exit(f"ckptfs: cannot run {name}: there is no such file")


def _end() -> None:
    """What the script's last save could not tell any more."""
    try:
        barrier(landed=True)
        fates.end()
        fates.raise_first()
    except CheckpointError as error:
        sys.exit(f"ckptfs: {error}")


def _usage(why: str) -> None:
    sys.stderr.write(f"ckptfs: {why}\n{USAGE}")
    sys.exit(2)


def main() -> None:
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    if word in ("-h", "--help", "help"):
        print(USAGE, end="")
    elif word in ("-V", "--version", "version"):
        print(f"ckptfs {__version__}")
    elif word == "run" and len(sys.argv) > 2:
        _run(sys.argv[2:])
    elif word in ("", "run"):
        _usage("give a script to run")
    elif word.endswith(".py") or os.path.exists(word):
        _usage(f"did you mean `python -m ckptfs run {' '.join(sys.argv[1:])}`?")
    else:
        _usage(
            f"there is no {word!r} here, only `run`; "
            f"the other verbs are those of the command: `ckptfs {word}`"
        )


if __name__ == "__main__":
    main()
