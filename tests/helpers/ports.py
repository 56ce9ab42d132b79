# SPDX-License-Identifier: MIT
"""Ports on this machine for servers that tests start."""

import contextlib
import random
import socket


def ephemeral():
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="utf-8") as file:
        return [int(word) for word in file.read().split()]


def free_ports(count):
    """Free ones, all different. Of those that no connection is given by itself: between this look
    and the server's own bind many may be made on the machine."""
    first, last = ephemeral()
    ports = [port for port in range(10000, 65536) if not first <= port <= last]
    random.shuffle(ports)
    with contextlib.ExitStack() as taken:
        free = []
        while len(free) < count:
            one = taken.enter_context(socket.socket())
            port = ports.pop()
            with contextlib.suppress(OSError):
                one.bind(("127.0.0.1", port))
                free.append(port)
        return free
