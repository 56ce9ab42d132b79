# SPDX-License-Identifier: MIT
"""A GlusterFS of the test's own, in its network: a volume of two bricks, and what mounts it."""

import os
import shutil
import subprocess

import network
from nodes import SECONDS, TMP, skip, wait

TOP = os.path.join(TMP, ".gluster")
SOCKET = os.path.join(TOP, "socket")

GLUSTERD = """\
volume management
    type mgmt/glusterd
    option working-directory {top}/lib
    option run-directory {top}/run
    option glusterd-sockfile {socket}
    option transport-type socket
    option transport.address-family inet
    option transport.socket.bind-address {own}
    option ping-timeout 0
end-volume
"""


def _gluster(*args):
    return subprocess.run(
        ["gluster", "--mode=script", "--glusterd-sock=" + SOCKET, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def _must(*args):
    ran = _gluster(*args)
    assert not ran.returncode, (args, ran.stdout)


def start():
    """glusterd. Where it cannot run the test is skipped."""
    for program in "glusterd", "glusterfs", "gluster":
        if not shutil.which(program):
            skip("no " + program)
    for name in "lib", "run", "log", "sockets":
        os.makedirs(os.path.join(TOP, name))
    # Only the test sees these: it has a mount namespace.
    for name, where in ("log", "/var/log/glusterfs"), ("sockets", "/run/gluster"):
        os.makedirs(where, exist_ok=True)
        subprocess.run(["mount", "--bind", os.path.join(TOP, name), where], check=True)
    with open(TOP + "/glusterd.vol", "w", encoding="utf-8") as file:
        file.write(GLUSTERD.format(top=TOP, socket=SOCKET, own=network.OWN))
    ran = subprocess.run(
        [
            "glusterd",
            "-f",
            TOP + "/glusterd.vol",
            "-p",
            TOP + "/glusterd.pid",
            "-l",
            TOP + "/log/glusterd.log",
        ],
        timeout=SECONDS,
        check=False,
    )
    if ran.returncode:
        skip("glusterd cannot run here")
    wait(lambda: not _gluster("pool", "list").returncode, "glusterd")


def volume(name, *kind):
    """Of two bricks."""
    bricks = []
    for i in range(2):
        brick = f"{TOP}/{name}.{i}"
        os.makedirs(brick)
        bricks.append(f"{network.OWN}:{brick}")
    _must("volume", "create", name, *kind, "transport", "tcp", *bricks, "force")
    if kind:
        # Else a client that has reached one brick only, as in its first moments, writes to that:
        # two then win what one may.
        _must("volume", "set", name, "cluster.quorum-type", "auto")
    # Else a client goes on with what was in a small file, as long as its time is the same.
    _must("volume", "set", name, "performance.quick-read", "off")
    _must("volume", "start", name)


def mount(name, where, host=None):
    """By a client of its own."""
    os.makedirs(where, exist_ok=True)
    subprocess.run(
        [
            *(host.within if host else ()),
            "glusterfs",
            "-s",
            network.OWN,
            "--volfile-id",
            name,
            "-l",
            f"{TOP}/log/{os.path.basename(where)}.log",
            where,
        ],
        check=True,
        timeout=SECONDS,
    )
    wait(lambda: os.path.ismount(where), where)
    return where
