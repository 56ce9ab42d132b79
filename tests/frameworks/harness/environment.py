# SPDX-License-Identifier: MIT
"""The Python environment of the frameworks, $BUILD/frameworks/venv: made and filled on the first
use, with the versions of requirements.txt. Whoever cannot have what he needs is skipped, with pip's
reason."""

import contextlib
import fcntl
import importlib.metadata
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOP = os.path.join(os.environ["BUILD"], "frameworks")
VENV = os.path.join(TOP, "venv")
REQUIREMENTS = os.path.join(HERE, "requirements.txt")
PIP_SECONDS = 1200
# A forked process gets its environment here: what /proc/PID/environ shows is what it was at exec
# (jobs.py).
ROOM, ROOM_BYTES = "CKPTFS_TEST_ROOM", 4096


def skip(reason):
    print(" ".join(reason.split())[:300])
    sys.exit(77)


def need_fuse():
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        skip("cannot open /dev/fuse")


def pinned(package):
    with open(REQUIREMENTS, encoding="utf-8") as file:
        found = re.search(rf"^{re.escape(package)}==(\S+)", file.read(), re.MULTILINE)
    assert found, package + " is not in " + REQUIREMENTS
    return found.group(1)


def version(package):
    """What is installed where this runs, or None. `+cpu` and the like belong to the build, not to
    the version."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(package).split("+")[0]
    return None


def _run(*command):
    """Its last words, if it failed."""
    try:
        ran = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PIP_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    lines = [line for line in ran.stdout.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or [f"exit status {ran.returncode}"])[-1] if ran.returncode else None


def _pip(python, *args):
    return _run(
        python,
        "-m",
        "pip",
        "install",
        "--no-input",
        "--no-cache-dir",
        "--disable-pip-version-check",
        "-c",
        REQUIREMENTS,
        *args,
    )


def _lacks(python, packages):
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); from harness.environment import lacking;"
        " print(*lacking(sys.argv[2:]))"
    )
    return subprocess.run(
        [python, "-c", script, HERE, *packages], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.split()


def _install(packages, alone):
    os.makedirs(TOP, exist_ok=True)
    python = os.path.join(VENV, "bin/python")
    with open(os.path.join(TOP, "lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _run(python, "-m", "pip", "--version"):
            failed = _run(sys.executable, "-m", "venv", "--clear", VENV)
            if failed:
                skip("no Python environment: " + failed)
        for wanted, options in ((packages, ()), (alone, ("--no-deps",))):
            lacks = _lacks(python, wanted)
            failed = _pip(python, *options, *lacks) if lacks else None
            if failed:
                skip(f"pip cannot install {' '.join(lacks)}: {failed}")
    return python


def lacking(packages):
    return [package for package in packages if version(package) != pinned(package)]


def enter(*packages, alone=()):
    """Goes on as the same program in that environment, where these can be imported. Said before the
    other imports. Of `alone` a part is wanted that does without what they depend on."""
    if os.path.realpath(sys.prefix) == os.path.realpath(VENV):
        return
    python = _install((*packages, "numpy"), alone)  # digest.py needs that one
    # what is freed, is (memory.py)
    env = dict(
        os.environ,
        PYTHONDONTWRITEBYTECODE="1",
        PYTHONUNBUFFERED="1",
        OMP_NUM_THREADS="1",
        MKL_NUM_THREADS="1",
        HF_HUB_OFFLINE="1",
        TOKENIZERS_PARALLELISM="false",
        CUDA_VISIBLE_DEVICES="",
        HOME=os.environ["TEST_TMP"],
        GLOO_SOCKET_IFNAME="lo",
        TORCH_CPP_LOG_LEVEL="ERROR",
        MALLOC_MMAP_THRESHOLD_="65536",
    )
    env[ROOM] = "x" * ROOM_BYTES
    os.execve(python, [python, *sys.argv], env)
