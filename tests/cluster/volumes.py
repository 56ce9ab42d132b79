# SPDX-License-Identifier: MIT
"""The scenarios on a volume of GlusterFS."""

import ctypes
import errno
import os
import shutil

import gluster
import network
from nodes import BACK, TMP, Node, nodes, staged
from scenarios import failures, saves

NOREPLACE, EXCHANGE = 1, 2


def renames(flags):
    """The error number of a rename with them; both names are there for EXCHANGE."""
    one, two = (os.path.join(BACK, name).encode() for name in ("rename-1", "rename-2"))
    for path in (one, two) if flags == EXCHANGE else (one,):
        with open(path, "w", encoding="utf-8"):
            pass
    libc = ctypes.CDLL(None, use_errno=True)
    number = ctypes.get_errno() if libc.renameat2(-100, one, -100, two, flags) else 0
    for path in one, two:
        if os.path.exists(path):
            os.unlink(path)
    return number


def clear():
    for name in os.listdir(BACK):
        if not name.startswith("."):
            shutil.rmtree(os.path.join(BACK, name))


def on_volume(name, *kind):
    gluster.start()
    gluster.volume(name, *kind)
    gluster.mount(name, BACK)
    # Else it would show nothing that others do not.
    assert renames(NOREPLACE) == renames(EXCHANGE) == errno.EINVAL

    def make(node, options):
        host = network.Host()
        return Node(
            node, options, gluster.mount(name, os.path.join(TMP, "back." + node), host), host.within
        )

    with nodes("one", "two", "three", make=make) as three:
        saves(*three)
    assert staged() == [], staged()
    clear()
    with nodes("four", "five", "six", make=make) as three:
        failures(*three)
