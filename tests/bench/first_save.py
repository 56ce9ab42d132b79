# SPDX-License-Identifier: MIT
"""The saves of a process that has just begun to train (models.py runs it).

usage: first_save.py DIR STORAGES

It trains parameters of 16 KiB each with AdamW, so that there are so many storages, and saves them
to DIR, in a mount of ckptfs, some times, with a step between. It prints {"first": S, "second": S,
"later": S, "cpu": S}: how long the first save keeps the training from going on, and the second, and
the median of those after it; and the CPU time of this process for the first. It exits with 77,
saying why, without the environment of make check-frameworks.
"""

import json
import os
import statistics
import sys
import time

import trainer  # enters the environment

ckptfs, torch = trainer.ckptfs, trainer.torch

ELEMENTS = 4096
LATER = 5


def main() -> None:
    top, storages = sys.argv[1], int(sys.argv[2])
    parameters = [torch.nn.Parameter(torch.randn(ELEMENTS)) for _ in range(storages // 3)]
    optimizer = torch.optim.AdamW(parameters)

    def step() -> None:
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()

    step()
    took, cpu = [], []
    for number in range(2 + LATER):
        state = {"model": dict(enumerate(parameters)), "optimizer": optimizer.state_dict()}
        path = os.path.join(top, f"step-{number}.pt")
        start, cpu_start = time.monotonic(), time.process_time()
        ckptfs.save(state, path)
        took.append(time.monotonic() - start)
        while ckptfs.session_of(path).stats().pending:
            torch.ones(1)  # the next step computes
        cpu.append(time.process_time() - cpu_start)
        start = time.monotonic()
        ckptfs.barrier()
        took[-1] += time.monotonic() - start
        step()
        ckptfs.wait(path, timeout=trainer.LIMIT_S)
        os.unlink(path)
    later = statistics.median(took[2:])
    print(json.dumps({"first": took[0], "second": took[1], "later": later, "cpu": cpu[0]}))


if __name__ == "__main__":
    main()
