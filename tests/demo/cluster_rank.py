# SPDX-License-Identifier: MIT
"""A rank of the job of cluster.py: it trains, and saves every step as torch.distributed.checkpoint
does: a directory, a file of each rank, and .metadata by rank 0 when all have written; with plain
Python. It knows nothing of ckptfs.

usage: cluster_rank.py DIR LAST [--resume CHECKPOINT] [--hold STEP:BYTES]

The model is PARAMETERS parameters, each of a rank: number % world size. A step makes of each
parameter another one, which depends on all steps before. RANK and WORLD_SIZE are those of the
environment. A barrier is a line on stdout that a line on stdin answers; the end of stdin ends the
job. With --hold it stops when so much of its file of that step is written, and says so.
"""

import argparse
import hashlib
import json
import os
import sys

PARAMETERS = 48


def first(number: int) -> bytes:
    return hashlib.sha256(b"parameter %d" % number).digest()


def trained(value: bytes) -> bytes:
    return hashlib.sha256(value).digest()


def tensor(value: bytes, size: int) -> bytes:
    """What is saved: @size bytes of it, from which it can be told again."""
    return value + hashlib.shake_256(value).digest(size - len(value))


def read(checkpoint: str, number: int) -> bytes:
    with open(os.path.join(checkpoint, ".metadata"), encoding="utf-8") as file:
        entry = json.load(file)["parameters"][number]
    with open(os.path.join(checkpoint, entry["file"]), "rb") as file:
        file.seek(entry["offset"])
        data = file.read(entry["size"])
    if data != tensor(data[:32], entry["size"]):
        sys.exit(f"{checkpoint}: parameter {number} is damaged")
    return data[:32]


class Rank:
    def __init__(self) -> None:
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.size = int(os.environ.get("PARAMETER_BYTES", "65536"))
        self.mine = range(self.rank, PARAMETERS, self.world)

    def say(self, what: str) -> None:
        """And waits until it may go on."""
        print(what, flush=True)
        if not sys.stdin.readline():
            sys.exit(1)

    def file(self, rank: int) -> str:
        return f"__{rank}_0.distcp"

    def metadata(self, step: int) -> str:
        entries = [
            {
                "file": self.file(n % self.world),
                "offset": n // self.world * self.size,
                "size": self.size,
            }
            for n in range(PARAMETERS)
        ]
        return json.dumps({"step": step, "parameters": entries})

    def save(self, checkpoint: str, step: int, values: dict, hold: int) -> None:
        os.makedirs(checkpoint, exist_ok=True)
        self.say(f"barrier begin {step}")
        data = b"".join(tensor(values[n], self.size) for n in self.mine)
        with open(os.path.join(checkpoint, self.file(self.rank)), "wb") as file:
            file.write(data[:hold])
            if hold:
                file.flush()
                self.say(f"held {step}")
            file.write(data[hold:])
            file.flush()
            os.fsync(file.fileno())
        self.say(f"barrier written {step}")
        if self.rank == 0:
            path = os.path.join(checkpoint, ".metadata")
            with open(path + ".tmp", "w", encoding="utf-8") as file:
                file.write(self.metadata(step))
                file.flush()
                os.fsync(file.fileno())
            os.rename(path + ".tmp", path)
        self.say(f"barrier saved {step}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("dir")
    parser.add_argument("last", type=int)
    parser.add_argument("--resume")
    parser.add_argument("--hold", default="0:0")
    args = parser.parse_args()
    hold_step, hold_bytes = map(int, args.hold.split(":"))
    rank, step = Rank(), 0
    values = {n: first(n) for n in rank.mine}
    if args.resume:
        with open(os.path.join(args.resume, ".metadata"), encoding="utf-8") as file:
            step = json.load(file)["step"]
        values = {n: read(args.resume, n) for n in rank.mine}
    rank.say(f"barrier from {step}")
    while step < args.last:
        step += 1
        values = {n: trained(v) for n, v in values.items()}
        rank.save(
            os.path.join(args.dir, f"step-{step}"),
            step,
            values,
            hold_bytes if step == hold_step else 0,
        )
    print("done", flush=True)


if __name__ == "__main__":
    main()
