# SPDX-License-Identifier: MIT
"""What a row is, and the rows on data and names: what it costs that there is a mount at all."""

from __future__ import annotations

import os
import statistics
import subprocess
from dataclasses import dataclass, field
from typing import Callable

from processes import Failed, daemon_pid, memory_mib, mount_status, started
from setting import FSLOAD, MIB, USER, Bench


@dataclass
class Row:
    """One kind of work. `measure` gives {side: {what: value}} of one round."""

    name: str
    what: str
    unit: str
    sides: list[str]  # ckptfs, then what it is compared with
    sample: Callable[[Bench, str], dict]  # of one side, once: {unit's key: value}
    goal: float | None = None  # at least this ratio to the best of them; None: reported
    goals: dict[str, float] = field(default_factory=dict)  # instead: to each of these sides
    smaller: bool = False  # is better: goals are "at most"
    aim: float | None = None  # at most this value
    once: bool = False  # memory does not need rounds
    warm: bool = False  # a sample begins with what does not count: no round is for that
    also: dict[str, str] = field(default_factory=dict)  # more keys of a sample: a line for each
    # the side that all others are compared with, and have goals to; else see baseline()
    against: str = ""
    group: str = ""  # --only takes it, too
    framework: str = ""  # in whose row of the table of frameworks the ratio goes
    samples: dict[str, list[dict]] = field(default_factory=dict)
    note: str = ""
    error: str = ""

    def median(self, side: str, key: str = "value") -> float | None:
        values = [sample[key] for sample in self.samples.get(side, []) if key in sample]
        return statistics.median(values) if values else None

    def baseline(self) -> str | None:
        """The best of what ckptfs is compared with; where each has a goal, the first."""
        others = [side for side in self.sides[1:] if self.median(side) is not None]
        if self.against:
            return self.against if self.against in others else None
        if self.goals:
            return next(iter(others), None)
        return (min if self.smaller else max)(others, key=self.median, default=None)

    def compared(self) -> list[str]:
        """The sides that get a line of their own in the table."""
        others = [side for side in self.sides[1:] if self.median(side) is not None]
        return (
            others
            if self.goals and not self.against
            else [side for side in others if side == self.baseline()]
        )

    def ratio(self, side: str | None = None, key: str = "value") -> float | None:
        return self.ratio_of(self.sides[0], side or self.baseline(), key)

    def ratio_of(self, one: str, other: str | None, key: str = "value") -> float | None:
        mine, theirs = self.median(one, key), self.median(other, key) if other else None
        return mine / theirs if mine is not None and theirs else None

    def beside(self) -> list[str]:
        """The sides that are compared with `against`, too."""
        return [
            side
            for side in self.sides[1:]
            if self.against and side != self.against and self.samples.get(side)
        ]

    def goal_of(self, side: str | None) -> float | None:
        """Of a row with `against` each side has its own."""
        if self.against and self.goals:
            return self.goals.get(self.sides[0] if side == self.against else side)
        return self.goals.get(side) if self.goals else self.goal

    def met_by(self, side: str | None) -> bool | None:
        """None where there is nothing to meet, or nothing was measured."""
        goal = self.goal_of(side)
        ratio = (
            self.ratio_of(side, self.against)
            if side in self.beside()
            else self.ratio(side)
            if side
            else None
        )
        if goal is not None and ratio is not None:
            return ratio <= goal if self.smaller else ratio >= goal
        if self.aim is not None and self.median(self.sides[0]) is not None:
            return self.median(self.sides[0]) <= self.aim
        return None

    def met(self) -> bool | None:
        """All of them."""
        known = [
            met
            for met in map(self.met_by, [*(self.compared() or [None]), *self.beside()])
            if met is not None
        ]
        return all(known) if known else None


def rate(load: tuple[float, int], scale: float = 1) -> dict:
    seconds, count = load
    return {"value": count / seconds / scale}


def sample_read(bench: Bench, side: str) -> dict:
    bench.make_big(bench.backing)
    with bench.side(side) as path:
        return rate(bench.load("read", os.path.join(path, "big"), MIB), MIB)


def sample_read_user(bench: Bench, side: str) -> dict:
    """Both sides as the user; the backing is read past the mount, while that is there."""
    uid = USER if os.geteuid() == 0 else None
    with bench.user_mount() as path:
        directory = bench.path("user/backing") if uid else bench.backing
        bench.make_big(directory)
        if side == "ckptfs":
            directory = path
        return rate(bench.load("read", os.path.join(directory, "big"), MIB, uid=uid), MIB)


def sample_write(writers: int) -> Callable[[Bench, str], dict]:
    def sample(bench: Bench, side: str) -> dict:
        with bench.side(side, cache=2 * bench.file_bytes) as path:
            result = rate(bench.load("write", path, bench.file_bytes // writers, MIB, writers), MIB)
        bench.settle()
        return result

    return sample


def sample_create(bench: Bench, side: str) -> dict:
    with bench.side(side) as path:
        result = rate(bench.load("create", path, bench.small_files, 4096))
    bench.settle()
    return result


def sample_many(*words: object) -> Callable[[Bench, str], dict]:
    """A verb on the directory with many files, through a mount that has not seen it."""

    def sample(bench: Bench, side: str) -> dict:
        bench.fill()
        verb, *more = [bench.many_files if word == "COUNT" else word for word in words]
        with bench.side(side) as path:
            return rate(bench.load(verb, os.path.join(path, "many"), *more))

    return sample


def sample_memory(bench: Bench, hold: bool) -> dict:
    bench.fill()
    with bench.side("ckptfs") as path:
        many = os.path.join(path, "many")
        pid = daemon_pid(path)
        before = memory_mib(pid)
        if hold:
            with started(
                [FSLOAD, "hold", many, str(bench.open_files)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            ) as process:
                if not process.stdout.readline():
                    raise Failed(process.stderr.read().strip() or "fsload hold failed")
                after = memory_mib(pid)
        else:
            bench.load("ls", many)
            after = memory_mib(pid)
        cache = mount_status(path).get("cache", {}).get("faulted", 0) / MIB
    sample = {"value": after["VmRSS"] - cache, "before": before["VmRSS"] - cache}
    if "Pss" in after:
        sample["pss"] = after["Pss"] - cache
    return sample
