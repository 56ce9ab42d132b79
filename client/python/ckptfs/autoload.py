# SPDX-License-Identifier: MIT
"""torch.save becomes lazy by itself: `python -m ckptfs run`, or CKPTFS_LAZY=1 where the package is
installed (torch calls `autoload` when it is imported: the entry point torch.backends). Nothing here
can fail the program: what goes wrong is logged, and torch.save stays as it is."""

from __future__ import annotations

import functools
import logging
import os
from typing import Any

from . import mounts

ENVIRONMENT = "CKPTFS_LAZY"
log = logging.getLogger("ckptfs")


def wanted() -> bool:
    """Does the environment ask for it?"""
    return os.environ.get(ENVIRONMENT, "").lower() not in mounts.OFF


def autoload() -> None:
    """What torch calls."""
    if wanted():
        enable()


def enable() -> None:
    """From here on torch.save of a path in a mount of ckptfs is ckptfs.save; of all else it is what
    it was."""
    try:
        import torch

        inner = torch.save
        if hasattr(inner, "ckptfs_inner"):
            return

        @functools.wraps(inner)
        def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
            if mounts.to_mount(f) and len(args) <= 2 and _ready(f):
                from . import lazy

                return lazy.save(obj, f, *args, **kwargs)
            mounts.check_required(f)
            with mounts.served(f):
                return inner(obj, f, *args, **kwargs)

        save.ckptfs_inner = inner  # type: ignore[attr-defined]
        torch.save = torch.serialization.save = save
    except Exception as error:
        log.warning("torch.save stays as it is: %s", error)


def enable_safetensors() -> None:
    """The same of safetensors.torch.save_file, where there is that."""
    try:
        from . import safetensors_file

        safetensors_file.enable()
    except ImportError:
        pass
    except Exception as error:
        log.warning("safetensors.torch.save_file stays as it is: %s", error)


_said = False


def _ready(path: Any) -> bool:
    """True if lazy.py can save it. Otherwise torch.save does, unless CKPTFS_REQUIRE forbids that:
    no job should end because a save is not lazy."""
    global _said
    try:
        from . import lazy

        lazy.session_for(path)
        return True
    except Exception as error:
        if not _said:
            log.warning("%s is saved without being captured lazily: %s", path, error)
        _said = True
        return False
