# SPDX-License-Identifier: MIT
"""The save of a large object that was serialised ahead, and of one that was not (models.py runs
it).

usage: object_save.py DIR MIB

The object is that of a dataloader: a list of samples, each of 25,600 tokens. It prints {"ahead": S,
"now": S, "prepared": S}: how long the save and the next barrier keep the training from going on,
the median of some; and how long it took to serialise the object in its thread. It exits with 77,
saying why, without the environment of make check-frameworks.
"""

import json
import os
import statistics
import sys
import time

import trainer  # enters the environment

ckptfs, torch = trainer.ckptfs, trainer.torch

TOKENS, SAVES = 25_600, 4


def main() -> None:
    top, mebibytes = sys.argv[1], int(sys.argv[2])
    samples = [
        torch.randint(1 << 30, (TOKENS,), dtype=torch.int32)
        for _ in range((mebibytes << 20) // (4 * TOKENS))
    ]
    loader = ckptfs.register_object(lambda: {"samples": samples})
    took: dict[str, list[float]] = {"ahead": [], "now": [], "prepared": []}
    for number in range(2 * SAVES):
        how = ("ahead", "now")[number % 2]
        path = os.path.join(top, f"step-{number}.pt")
        if how == "ahead":
            start = time.monotonic()
            loader.prepare()
            loader.wait()
            took["prepared"].append(time.monotonic() - start)
        start = time.monotonic()
        ckptfs.save(loader, path)
        blocked = time.monotonic() - start
        while ckptfs.session_of(path).stats().pending:
            torch.ones(1)  # the next step computes
        start = time.monotonic()
        ckptfs.barrier()
        took[how].append(blocked + time.monotonic() - start)
        ckptfs.wait(path, timeout=trainer.LIMIT_S)
        os.unlink(path)
    # the first of each finds memory that is new
    print(json.dumps({how: statistics.median(seconds[1:]) for how, seconds in took.items()}))


if __name__ == "__main__":
    main()
