#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# Somebody has mounted with coord=etcd since a mount began that agrees by files: it begins no
# checkpoint of several nodes any more, and says why. What one node saves for itself goes on.

import errno
import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import BACK, Rank, check, nodes, save

with nodes("one") as (one,):
    rank, lone = Rank(one, 0, 2), Rank(one, 0, 1, job="lone")
    save([rank], "step-1", 1)
    one.wait_for("step-1")
    with open(BACK + "/.ckptfs/coord.json", "w", encoding="utf-8") as file:
        file.write('{"coord": "etcd", "cluster": "42"}\n')
    try:
        rank.do("os.mkdir('step-2')")
    except OSError as e:
        assert e.errno == errno.EBUSY, e
    else:
        raise AssertionError("it goes by files yet")
    with open(one.path(".ckptfs/failures.json"), encoding="utf-8") as file:
        told = file.read()
    assert "agree by: etcd cluster 42" in told and "step-2" in told, told
    save([lone], "step-3", 3)
    one.wait_for("step-3")
    check("step-3", 1, 3)
    os.unlink(BACK + "/.ckptfs/coord.json")
    save([rank], "step-2", 2)
    one.wait_for("step-2")
    check("step-2", 1, 2)
    for each in rank, lone:
        each.leave()
    one.leave()
