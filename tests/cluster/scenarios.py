# SPDX-License-Identifier: MIT
"""What happens to jobs on three nodes, whatever their backing is and whatever they agree by. That
is bare at BACK."""

import errno
import os

from nodes import BACK, Rank, check, content, save, staged


def refused(what, number):
    try:
        what()
    except OSError as e:
        assert e.errno == number, e
        return str(e)
    raise AssertionError("it went well")


def saves(one, two, three):
    ranks = [
        Rank(one, 0, 5),
        Rank(two, 1, 5),
        Rank(two, 2, 5),
        Rank(three, 3, 5),
        Rank(three, 4, 5),
    ]
    save(ranks, "run/step-1", 1, end=False)
    # What is under way shows on all nodes; and what is closed is read there, whole.
    for rank in ranks:
        assert rank.do("result = sorted(os.listdir('run/step-1'))") == [
            f"__{r}_0.distcp" for r in range(5)
        ]
        assert rank.read(f"run/step-1/__{(rank.rank + 2) % 5}_0.distcp") == content(
            (rank.rank + 2) % 5, 1
        )
    assert not os.path.exists(BACK + "/run/step-1")
    save(ranks, "run/step-1", 1)
    for node in (one, two, three):
        node.wait_for("run/step-1")
    made = check("run/step-1", 5, 1)
    assert made["world"] == {"ranks": 5, "nodes": 3}, made["world"]
    assert {(f["path"], f["node"], f.get("rank")) for f in made["files"]} == {
        (".metadata", "one", 0),
        ("__0_0.distcp", "one", 0),
        ("__1_0.distcp", "two", 1),
        ("__2_0.distcp", "two", 2),
        ("__3_0.distcp", "three", 3),
        ("__4_0.distcp", "three", 4),
    }, made["files"]

    # One to which a rank alone has something to write.
    save(ranks[:1], "run/alone-1", 1)
    one.wait_for("run/alone-1")
    check("run/alone-1", 1, 1)

    # Another, and the same name again: a new save of what is committed.
    save(ranks, "run/step-2", 2)
    save(ranks, "run/step-1", 3)
    for rank in ranks:
        assert rank.read("run/step-1/__0_0.distcp") == content(0, 3)
        rank.leave()
    two.ckptfs("drain", two.mnt)
    for node in (one, two, three):
        node.wait_for("run/step-2")
        node.wait_for("run/step-1")
    check("run/step-2", 5, 2)
    check("run/step-1", 5, 3)
    for node in (one, two, three):
        node.leave()
    assert staged() == [], staged()


def failures(one, two, three):
    # A rank dies.
    ranks = [Rank(one, 0, 3), Rank(two, 1, 3), Rank(three, 2, 3)]
    save(ranks, "step-0", 0)
    save(ranks, "step-1", 1, end=False)
    ranks[2].kill()
    for node in (one, two, three):
        told = node.fails("step-1")
        assert "killed by signal 9" in told and "rank 2" in told, told
        assert not os.path.exists(node.path("step-1")), node.name
    # Each process is told, once.
    for rank in ranks[:2]:
        refused(lambda rank=rank: rank.do("os.mkdir('step-1')"), errno.EIO)
        rank.kill()
    ranks = [Rank(one, 0, 3, restart=1), Rank(two, 1, 3, restart=1), Rank(three, 2, 3, restart=1)]
    save(ranks, "step-1", 2)
    for node in (one, two, three):
        node.wait_for("step-1")
    check("step-1", 3, 2)

    # Another job meanwhile.
    save(ranks, "step-2", 2, end=False)
    other = Rank(two, 0, 2, job="other")
    told = (
        refused(lambda: other.do("os.mkdir('step-2')"), errno.EEXIST)
        if other.do("result = os.path.exists('step-2')")
        else refused(lambda: other.do("os.mkdir('step-2')"), errno.EBUSY)
    )
    other.kill()

    # A daemon dies: its node shows no life.
    three.kill()
    for node in (one, two):
        told = node.fails("step-2")
        assert f"{three.name} (host " in told and "shows no life" in told, told
    assert not os.path.exists(BACK + "/step-2")
    for rank in ranks:
        rank.kill()
    three.mount()
    ranks = [Rank(one, 0, 3, restart=2), Rank(two, 1, 3, restart=2), Rank(three, 2, 3, restart=2)]
    save(ranks, "step-2", 3)
    for node in (one, two, three):
        node.wait_for("step-2")
    check("step-2", 3, 3)

    # That of the node that began it dies.
    save(ranks, "step-3", 3, end=False)
    one.kill()
    for node in (two, three):
        told = node.fails("step-3")
        assert "shows no life" in told, told
    for rank in ranks:
        rank.kill()
    ranks = [Rank(two, 0, 2, restart=3), Rank(three, 1, 2, restart=3)]
    save(ranks, "step-3", 4)
    for node in (two, three):
        node.wait_for("step-3")
    check("step-3", 2, 4)
    there = sorted(name for name in os.listdir(BACK) if not name.startswith("."))
    assert there == ["step-0", "step-1", "step-2", "step-3"], there
    check("step-0", 3, 0)
    for rank in ranks:
        rank.leave()
    for node in (two, three):
        node.leave()
