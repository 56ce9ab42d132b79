#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# A process that reads what another node is still writing waits until that is closed; if it comes to
# nothing the process gets an error, and never a part of it. A signal interrupts the wait, also that
# of a process that would write there, too.

import errno
import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import Rank, nodes, save, wait

with nodes("one", "two") as (one, two):
    ranks = [Rank(one, 0, 2), Rank(two, 1, 2)]
    save(ranks, "step-1", 1, end=False)
    ranks[1].do(
        "files['x'] = open('step-1/__1_1.distcp', 'wb'); files['x'].write(b'x' * 10000); "
        "files['x'].flush()"
    )
    wait(lambda: ranks[0].do("result = os.path.exists('step-1/__1_1.distcp')"))
    ranks[0].begin("result = len(open('step-1/__1_1.distcp', 'rb').read())")
    ranks[1].do("files['x'].write(b'x' * 10000); files['x'].close()")
    assert ranks[0].end() == 20000
    ranks[1].do("files['lock'] = open('step-1/lock', 'a+')")
    wait(lambda: ranks[0].do("result = os.path.exists('step-1/lock')"))
    ranks[0].do("import signal; signal.signal(signal.SIGALRM, lambda *_: 1 / 0)")
    ranks[0].begin("""
signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
try:
    open('step-1/lock', 'a+')
except ZeroDivisionError:
    result = 'interrupted'
finally:
    signal.setitimer(signal.ITIMER_REAL, 0)
""")
    assert ranks[0].end() == "interrupted"
    ranks[0].begin("with open('step-1/lock', 'a+') as f: f.write('x'); result = f.tell()")
    ranks[1].do("files['lock'].write('y'); files['lock'].close()")
    assert ranks[0].end() == 2
    ranks[1].do(
        "files['x'] = open('step-1/__1_2.distcp', 'wb'); files['x'].write(b'x' * 10000000); "
        "files['x'].flush()"
    )
    wait(lambda: ranks[0].do("result = os.path.exists('step-1/__1_2.distcp')"))
    ranks[0].begin("result = len(open('step-1/__1_2.distcp', 'rb').read())")
    ranks[1].kill()
    try:
        got = ranks[0].end()
    except OSError as e:
        assert e.errno == errno.EIO, e
    else:
        raise AssertionError(f"it read {got} bytes")
    ranks[0].kill()
