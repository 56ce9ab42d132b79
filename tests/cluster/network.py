# SPDX-License-Identifier: MIT
"""A network of the test's own: a bridge with the test itself at it, and hosts, which are network
namespaces."""

import contextlib
import os
import shutil
import subprocess
import sys

INSIDE = "CKPTFS_TEST_INSIDE"
OWN, SERVICE = "10.77.0.1", "10.77.0.254"  # of the test itself, both


def skip(why):
    print(why)
    sys.exit(77)


def ip(*args, within=()):
    subprocess.run([*within, "ip", *args], check=True, timeout=60)


def enter():
    """Goes on as the same program in a network namespace of its own, at OWN. Said before the other
    imports."""
    if os.environ.get(INSIDE) != "1":
        if os.environ.get("TEST_PRIVATE") != "1" or not shutil.which("ip"):
            skip("no namespaces of its own, or no ip")
        os.execvpe(
            "unshare",
            ["unshare", "--net", sys.executable, *sys.argv],
            dict(os.environ, **{INSIDE: "1"}),
        )
    try:
        ip("link", "set", "lo", "up")
        # With an address of its own: else it has that of one of its ports, and changes it when that
        # host goes, whereupon the other hosts do not reach it for a while.
        ip("link", "add", "bridge0", "address", "02:00:0a:4d:00:01", "type", "bridge")
        for address in OWN, SERVICE:
            ip("addr", "add", address + "/24", "dev", "bridge0")
        ip("link", "set", "bridge0", "up")
    except (OSError, subprocess.SubprocessError) as e:
        skip(f"no bridge can be made: {e}")


class Host:
    """What is to run there begins with `within`."""

    count = 0

    def __init__(self):
        Host.count += 1
        self.port, self.address = f"port{Host.count}", f"10.77.0.{Host.count + 1}"
        # Its pipe ends with the test, whatever that ends by.
        self.process = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo there; read never"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout.readline() == b"there\n"
        self.within = ["nsenter", f"--net=/proc/{self.process.pid}/ns/net"]
        ip(
            "link",
            "add",
            self.port,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            str(self.process.pid),
        )
        ip("link", "set", self.port, "master", "bridge0", "up")
        ip("link", "set", "lo", "up", within=self.within)
        ip("addr", "add", self.address + "/24", "dev", "eth0", within=self.within)
        self.join()

    def cut(self):
        ip("link", "set", "eth0", "down", within=self.within)

    def join(self):
        ip("link", "set", "eth0", "up", within=self.within)

    def lose(self, address):
        """Only that one is not reached any more, and only by what is sent from here."""
        ip("route", "add", "blackhole", address + "/32", within=self.within)

    def find(self, address):
        ip("route", "del", "blackhole", address + "/32", within=self.within)

    def close(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.wait()
