# SPDX-License-Identifier: MIT
"""A checkpoint of thousands of nodes, of which the first two are real: daemons with mounts, the
root and an inner node of the tree. All others are played by build/tests/crowd/crowd, on the
backing: what the two hear and read is there."""

import os
import re
import subprocess

from nodes import BACK, Rank, staged, wait

CROWD = os.path.join(os.environ["BUILD"], "tests/crowd/crowd")


class Kind:
    """What is saved, and how it ends. @pattern: of rank and file."""

    def __init__(self, unit, rule, pattern, end):
        self.unit, self.rule, self.pattern, self.end = unit, rule, pattern, end


# The end is shown by one file; by a file of each rank, which all have to be told of: here all files
# are such.
SHARDS = Kind(
    "step-1",
    "torchtitan",
    "__%d_%d.distcp",
    (
        "open('step-1/.metadata.tmp', 'wb').close(); "
        "os.rename('step-1/.metadata.tmp', 'step-1/.metadata')"
    ),
)
EVERY_RANK = Kind(
    "global_step1",
    "deepspeed",
    "zero_pp_rank_%d_mp_rank_%02d_optim_states.pt",
    "open('latest', 'w').write('global_step1')",
)


def generation():
    found = [
        name
        for name in map(os.path.basename, staged())
        if re.fullmatch(r"\.ckptfs-[0-9a-f]{32}", name)
    ]
    assert len(found) == 1, found
    return found[0][len(".ckptfs-") :]


def tell(crowd, word):
    said = crowd.stdout.readline().strip()
    assert said == word, (said, word, crowd.wait() if not said else None)


def save(daemons, kind, nodes, files, before_end=lambda: None):
    """Until it is committed. @before_end: when all is written, and told. How many records the root
    has heard, and their bytes."""
    ranks = [Rank(node, rank, nodes) for rank, node in enumerate(daemons)]
    ranks[0].do(f"os.makedirs({kind.unit!r})")
    for rank in ranks:
        for file in range(files):
            rank.write(f"{kind.unit}/{kind.pattern % (rank.rank, file)}", b"of rank %d" % rank.rank)
    gen = generation()
    txn = os.path.join(BACK, f".ckptfs/txn/{os.getuid()}")
    if len(daemons) > 1:
        wait(lambda: os.path.exists(f"{txn}/{gen}.log.0.0"), "the second to join")
    with subprocess.Popen(
        [CROWD, BACK, gen, str(nodes), str(files), kind.pattern, kind.rule, str(len(daemons))],
        stdout=subprocess.PIPE,
        text=True,
    ) as crowd:
        try:
            tell(crowd, "joined")
            tell(crowd, "written")
            before_end()
            ranks[0].do(kind.end)
            tell(crowd, "committed")
            heard = re.fullmatch(r"(\d+) records, (\d+) bytes\n", crowd.stdout.readline())
        finally:
            crowd.kill()
    for node in daemons:
        node.wait_for(kind.unit)
    for rank in ranks:
        rank.leave()
    return int(heard[1]), int(heard[2])
