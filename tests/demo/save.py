# SPDX-License-Identifier: MIT
"""A program that saves a checkpoint file: with torch.save, or where that is not to be had by
itself.

usage: save.py once PATH MIB SEED
       save.py compare PLAIN MOUNT MIB SEED ROUNDS COMMAND...
       save.py hold PATH MIB SEED HALF GO

once     saves MIB mebibytes that depend on SEED alone, and prints "blocked SECONDS".
compare  saves them as x.pt in two directories by turns, each time as a new file, and prints the
         medians: "plain SECONDS", "mount SECONDS", and "fsync SECONDS" of a save in PLAIN with an
         fsync. After each it runs COMMAND with the directory, which is to wait until nothing of
         the save is left to do.
hold writes half of them, says so in the FIFO HALF, waits for a line in the FIFO GO, and goes on.

DEMO_WRITER=plain in the environment keeps it from using torch. Without arguments it prints what
it would use.
"""

import os
import random
import statistics
import subprocess
import sys
import time

MIB = 1 << 20
PART = 16 * MIB  # size of a tensor, and of a write

torch = None
if os.environ.get("DEMO_WRITER") != "plain":
    try:
        import torch
    except ImportError:
        pass


def make_state(mib: int, seed: int):
    """What is saved: tensors, or bytes."""
    if torch:
        torch.manual_seed(seed)
        return {f"layer.{i}.weight": torch.rand(PART // 4) for i in range(mib * MIB // PART)}
    part = random.Random(seed).randbytes(MIB)
    return [part[i:] + part[:i] for i in range(mib)]


def save_to(state, file) -> None:
    if torch:
        torch.save(state, file)
        return
    together = PART // MIB
    for i in range(0, len(state), together):
        file.write(b"".join(state[i : i + together]))


def save(state, path: str) -> float:
    """The seconds for which this program was blocked."""
    start = time.perf_counter()
    if torch:
        torch.save(state, path)
    else:
        with open(path, "wb", buffering=0) as file:
            save_to(state, file)
    return time.perf_counter() - start


class Held:
    """A file that stops in the middle."""

    def __init__(self, file, limit: int, half: str, go: str) -> None:
        self.file, self.left, self.half, self.go = file, limit, half, go

    def write(self, data) -> int:
        view = memoryview(data).cast("B")
        done = 0
        while done < len(view):
            part = view[done:]
            if self.left:
                part = part[: self.left]
            count = self.file.write(part)
            done += count
            if self.left:
                self.left -= count
                if not self.left:
                    self._stop()
        return done

    def _stop(self) -> None:
        with open(self.half, "w", encoding="ascii") as file:
            file.write("half\n")
        with open(self.go, encoding="ascii") as file:
            file.readline()

    def flush(self) -> None:
        """torch calls it; nothing is held back here."""


def sync(path: str) -> float:
    start = time.perf_counter()
    with open(path, "rb") as file:
        os.fsync(file.fileno())
    return time.perf_counter() - start


def compare(plain: str, mount: str, mib: int, seed: int, rounds: int, settle: list) -> None:
    state = make_state(mib, seed)
    ways = {"plain": plain, "mount": mount, "fsync": plain}
    seconds = {way: [] for way in ways}
    for number in range(rounds + 1):  # the first does not count: see bench.py
        for way in ways if number % 2 else reversed(ways):
            path = os.path.join(ways[way], "x.pt")
            if os.path.exists(path):
                os.unlink(path)
                subprocess.run([*settle, ways[way]], check=True)
            blocked = save(state, path)
            if way == "fsync":
                blocked += sync(path)
            if number:
                seconds[way].append(blocked)
            subprocess.run([*settle, ways[way]], check=True)
    for way, blocked in seconds.items():
        print(f"{way} {statistics.median(blocked):.3f}")


def main(mode: str, *args: str) -> None:
    if mode == "once":
        path, mib, seed = args
        print(f"blocked {save(make_state(int(mib), int(seed)), path):.3f}")
    elif mode == "compare":
        plain, mount, mib, seed, rounds, *settle = args
        compare(plain, mount, int(mib), int(seed), int(rounds), settle)
    elif mode == "hold":
        path, mib, seed, half, go = args
        state = make_state(int(mib), int(seed))
        with open(path, "wb", buffering=0) as file:
            save_to(state, Held(file, int(mib) * MIB // 2, half, go))
        print("saved")


if len(sys.argv) == 1:
    print(f"torch {torch.__version__}" if torch else "plain")
else:
    main(*sys.argv[1:])
