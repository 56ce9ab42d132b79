# SPDX-License-Identifier: MIT
"""A mount, and what `ckptfs` says of it."""

import json
import os
import signal
import subprocess
import time

CKPTFS = os.environ["CKPTFS"]


def wait(what, seconds=60):
    """Until what() is true; that is returned."""
    end = time.monotonic() + seconds * int(os.environ.get("TEST_SLOW") or 1)
    while True:
        found = what()
        if found:
            return found
        assert time.monotonic() < end, f"not within {seconds:g} s"
        time.sleep(0.01)


def ckptfs(*args):
    """Exit status of the command, and what it prints."""
    run = subprocess.run(
        [CKPTFS, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return run.returncode, run.stdout


def must(*args):
    code, told = ckptfs(*args)
    assert code == 0, (args, code, told)
    return told


class Mount:
    """A daemon over the directory `back` at `mnt`, both in TEST_TMP."""

    def __init__(self, config, mnt="mnt", back="back"):
        tmp = os.environ["TEST_TMP"]
        self.back, self.mnt, self.config = (
            f"{tmp}/{back}",
            f"{tmp}/{mnt}",
            f"{tmp}/{mnt}.json",
        )
        with open(self.config, "w", encoding="utf-8") as file:
            json.dump(config, file)
        os.makedirs(self.back, exist_ok=True)
        os.makedirs(self.mnt)
        self.start()

    def start(self):
        must("mount", "-o", "config=" + self.config, self.back, self.mnt)
        self.pid = self.status()["pid"]

    def umount(self):
        must("umount", self.mnt)

    def status(self):
        return json.loads(must("status", "--json", self.mnt))

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        wait(
            lambda: (
                not os.path.exists(f"/proc/{self.pid}")
                or "\nState:\tZ" in _read(f"/proc/{self.pid}/status")
            )
        )

    def abandon(self):
        """With all that was not saved yet."""
        self.kill()
        self.umount()

    def settled(self):
        """Waits until no save is under way, nor anything that follows one."""
        try:
            wait(lambda: not any(self.status()[what] for what in ("pending", "removals")))
        except AssertionError as error:
            raise AssertionError(must("status", self.mnt)) from error

    def metric(self, name, op=""):
        """A counter of the daemon; that of an operation that nobody has asked for is 0."""
        with open(self.mnt + "/.ckptfs/metrics", encoding="utf-8") as file:
            lines = [
                line
                for line in file
                if line.startswith(f"ckptfs_{name}{{") and f'op="{op}"' in line + 'op=""'
            ]
        return float(lines[0].split()[-1]) if lines else 0

    def failures(self):
        with open(self.mnt + "/.ckptfs/failures.json", encoding="utf-8") as file:
            return json.load(file)


def _read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return "\nState:\tZ"
