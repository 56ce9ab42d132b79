#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# A path that a job is saving on one node is refused to another job on another node, by name; a job
# restarted with a smaller world takes over from what died; a node that is mounted in the middle
# joins.

import errno
import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import BACK, Node, Rank, check, content, nodes, save, wait

with nodes("one", "two") as (one, two):
    ranks = [Rank(one, 0, 3), Rank(two, 1, 3)]
    save(ranks, "step-1", 1, end=False)
    other = Rank(two, 0, 2, job="other")
    stranger = Rank(one, 1, 2, job="other")
    for rank in (other, stranger):
        try:
            rank.write("step-1/__9_0.distcp", b"x")
        except OSError as e:
            assert e.errno in (errno.EBUSY, errno.ENOENT), e
        else:
            raise AssertionError("it wrote into the save of another job")
    # A node that comes late.
    three = Node("three")
    try:
        third = Rank(three, 0, 2, job="other")
        try:
            third.do("os.mkdir('step-1')")
        except OSError as e:
            assert e.errno == errno.EBUSY, e
        else:
            raise AssertionError("it has a name that is another job's")
        with open(three.path(".ckptfs/failures.json"), encoding="utf-8") as file:
            told = file.read()
        assert "elastic/job" in told and "one" in told, told
        ranks.append(Rank(three, 2, 3))
        ranks[2].write("step-1/__2_0.distcp", content(2, 1))
        ranks[0].do(
            "open('step-1/.metadata.tmp', 'wb').write(b'step 1'); "
            "os.rename('step-1/.metadata.tmp', 'step-1/.metadata')"
        )
        for node in (one, two, three):
            node.wait_for("step-1")
        check("step-1", 3, 1)
        # Removed on one node while another has it open.
        save(ranks, "step-2", 2, end=False)
        ranks[1].do("import shutil; shutil.rmtree('step-2')")
        wait(
            lambda: (
                not os.path.exists(one.path("step-2"))
                and not ranks[0].do("result = os.path.exists('step-2')")
            )
        )
        save(ranks, "step-3", 3, end=False)
        for rank in ranks:
            rank.kill()
        # torchrun counts a restart only on the node where a rank had died.
        ranks = [Rank(three, 0, 2, restart=1), Rank(two, 1, 2)]
        save(ranks, "step-3", 4)
        for node in (two, three):
            node.wait_for("step-3")
        check("step-3", 2, 4)
        assert sorted(n for n in os.listdir(BACK + "/step-3") if not n.startswith(".")) == [
            "__0_0.distcp",
            "__1_0.distcp",
        ]
    finally:
        three.kill()
