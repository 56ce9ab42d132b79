# SPDX-License-Identifier: MIT
"""What tests ask of an etcd: etcd.py VERB [ARGUMENT...]."""

import base64
import http.client
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../helpers"))
from ports import free_ports


def call(url, path, request):
    body = json.dumps(request).encode()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url + "/v3/" + path, body), timeout=5) as answer:
        return json.load(answer)


def encode(text):
    return base64.b64encode(text.encode()).decode()


def decode(text):
    return base64.b64decode(text).decode()


def ports(count):
    """Free ones, all different."""
    print(*free_ports(int(count)))


def healthy(url):
    call(url, "kv/range", {"key": encode("x")})


def start(address, directory):
    """One that listens there, in a network of the test's own, whose ports are all free."""
    url, peer = f"http://{address}:2379", f"http://{address}:2380"
    with open(directory + ".log", "ab") as log:
        subprocess.Popen(
            [
                shutil.which("etcd"),
                "--name",
                "only",
                "--data-dir",
                directory,
                "--listen-client-urls",
                url,
                "--advertise-client-urls",
                url,
                "--listen-peer-urls",
                peer,
                "--initial-advertise-peer-urls",
                peer,
                "--initial-cluster",
                "only=" + peer,
            ],
            stdout=log,
            stderr=log,
            env=dict(os.environ, GOMAXPROCS="1"),
        )
    end = time.monotonic() + 60
    while True:
        try:
            healthy(url)
            return url
        except OSError:
            assert time.monotonic() < end, "no etcd at " + url
            time.sleep(0.05)


def records(url):
    """What is below /ckptfs/, by its key."""
    found = call(url, "kv/range", {"key": encode("/ckptfs/"), "range_end": encode("/ckptfs0")})
    return {decode(kv["key"]): decode(kv["value"]) for kv in found.get("kvs", [])}


def keys(url):
    found = call(
        url,
        "kv/range",
        {"key": encode("/ckptfs/"), "range_end": encode("/ckptfs0"), "keys_only": True},
    )
    for kv in found.get("kvs", []):
        print(decode(kv["key"]).split("/", 3)[3])


def put(url, key, text):
    call(url, "kv/put", {"key": encode(key), "value": encode(text)})


def median_put(url, count=200, size=100):
    """How long one put takes, in seconds: what a commit by etcd is measured against. One
    connection, one after the other."""
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=10)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    took = []
    for i in range(int(count)):
        body = json.dumps({"key": encode(f"/measure/{i}"), "value": encode("x" * size)}).encode()
        begun = time.monotonic()
        connection.request("POST", "/v3/kv/put", body)
        answer = connection.getresponse()
        answer.read()
        took.append(time.monotonic() - begun)
        if answer.status != 200:
            raise OSError(f"{url}: status {answer.status}")
    call(url, "kv/deleterange", {"key": encode("/measure/"), "range_end": encode("/measure0")})
    return statistics.median(took)


if __name__ == "__main__":
    {
        "ports": ports,
        "healthy": healthy,
        "keys": keys,
        "put": put,
        "median-put": lambda *args: print(f"{median_put(*args):.6f}"),
    }[sys.argv[1]](*sys.argv[2:])
