#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 180
# needs: root
# Nodes of a backing on which root has no rights over others' files (root_squash; here the daemons
# lack the capabilities for it): what a user's ranks save on two of them is committed, changed,
# pointed to, rotated, renamed, replaced and recovered as theirs, also where nobody but they may
# enter, and by a supplementary group.

import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import BACK, SECONDS, TMP, Node, Rank, check, nodes, save, skip, staged, wait

SQUASHED = "setpriv", "--bounding-set", "-dac_override,-fowner,-chown,-fsetid", "--"


def users():
    """The system's, who have no process any more when what they saved is recovered; for this test
    alone."""
    for name, line in (
        ("passwd", "member:x:1003:1003::/:/bin/false"),
        ("group", "project:x:1234:member"),
    ):
        own = os.path.join(TMP, name)
        shutil.copy("/etc/" + name, own)
        with open(own, "a", encoding="utf-8") as file:
            file.write(line + "\n")
        if subprocess.run(["mount", "--bind", own, "/etc/" + name], check=False).returncode:
            skip("cannot mount at /etc/" + name)


def begin(user, restart=0):
    uid, groups, _ = user
    within = ["setpriv", f"--reuid={uid}", f"--regid={uid}", groups, "--"]
    ranks = [Rank(node, i, 2, restart=restart, within=within) for i, node in enumerate((one, two))]
    for rank in ranks:
        rank.do("os.umask(0o077)")
    return ranks


def whole(unit, uid, step):
    for node in (one, two):
        node.wait_for(unit)
    check(unit, 2, step)
    for name in "__0_0.distcp", "__1_0.distcp", ".ckptfs-commit.json":
        assert os.stat(os.path.join(BACK, unit, name)).st_uid == uid, name


def names(top):
    return sorted(name for name in os.listdir(os.path.join(BACK, top)) if not name.startswith("."))


def decided(uid):
    return {name for name in os.listdir(BACK + f"/.ckptfs/txn/{uid}") if name.endswith(".decision")}


def saves(user):
    uid, _, top = user
    step_1, step_2, step_3 = (top + f"/step-{step}" for step in (1, 2, 3))
    ranks = begin(user)
    save(ranks, step_1, 1)
    whole(step_1, uid, 1)

    ranks[1].write(step_1 + "/late", b"late")
    wait(lambda: os.path.exists(os.path.join(BACK, step_1, "late")), "the change")
    whole(step_1, uid, 1)

    save(ranks, step_2, 2, end=False)
    ranks[1].write(top + "/latest", b"step-2")
    ranks[0].do(f"import shutil; shutil.rmtree({step_1!r})")
    assert names(top) == ["step-1"], names(top)
    save(ranks, step_2, 2)
    whole(step_2, uid, 2)
    wait(lambda: names(top) == ["latest", "step-2"], "what waited for it")

    save(ranks, step_2, 3)
    whole(step_2, uid, 3)

    save(ranks, step_1, 4, end=False)
    ranks[1].do(f"os.rename({step_1!r}, {step_3!r})")
    wait(lambda: ranks[0].do(f"result = os.path.exists({step_3!r})"), "its new name")
    save(ranks, step_3, 4)
    whole(step_3, uid, 4)
    for rank in ranks:
        rank.leave()


def dies(user):
    """The daemon on which it was begun, when it is decided. Nobody of that user lives when it is
    back."""
    uid, _, top = user
    unit = top + "/step-5"
    ranks = begin(user, 1)
    save(ranks, unit, 6, end=False)
    ranks[0].do(f"open('{unit}/.metadata.tmp', 'wb').write(b'step 6')")
    before = decided(uid)
    ranks[0].begin(f"os.rename('{unit}/.metadata.tmp', '{unit}/.metadata')")
    end = time.monotonic() + SECONDS
    while (
        decided(uid) <= before
        and not os.path.exists(os.path.join(BACK, unit))
        and time.monotonic() < end
    ):
        pass
    for rank in ranks:
        rank.kill()
    one.kill()
    one.mount()
    whole(unit, uid, 6)
    assert names(top) == ["latest", "step-2", "step-3", "step-5"], names(top)


if os.environ.get("TEST_PRIVATE") != "1" or not shutil.which("setpriv"):
    skip("no namespaces of its own, to have users in, or no setpriv")
users()
os.chmod(TMP, 0o755)
os.mkdir(BACK)
os.chown(BACK, 1002, 1002)
for name, mode, uid, gid in ("home", 0o700, 1001, 1001), ("shared", 0o770, 1002, 1234):
    os.mkdir(os.path.join(BACK, name))
    os.chown(os.path.join(BACK, name), uid, gid)
    os.chmod(os.path.join(BACK, name), mode)

with nodes("one", "two", make=lambda name, options: Node(name, options, within=SQUASHED)) as (
    one,
    two,
):
    for each in (1001, "--clear-groups", "home"), (1003, "--groups=1234", "shared"):
        saves(each)
    dies(each)
    for node in (one, two):
        assert not node.status()["pending"], node.name
        node.leave()
    assert staged() == [], staged()
