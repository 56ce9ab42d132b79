# SPDX-License-Identifier: MIT
"""The rows on a backing behind a network: a GlusterFS, and links of two speeds.

One side saves to a mount of ckptfs, the other to the plain directory, by the same framework. The
first save of each side does not count. After each other one, a client that has nothing in memory
restores it. shaped.py does the work.
"""

from __future__ import annotations

import os
from typing import Callable

from models import job_at
from processes import HERE
from rows import Row
from setting import Bench

SHAPED = os.path.join(HERE, "shaped.py")
LINKS = (100, 400)  # MB/s
PLAIN = "plain"
# What each side of a row saves by: HOW of trainer.py, and whether it is to the mount.
TORCH = {"ckptfs": ("torch", True), PLAIN: ("torch", False), "ckptfs.save": ("torch-lazy", True)}
DCP = {"ckptfs": ("dcp", True), PLAIN: ("dcp", False), "ckptfs.dcp.Writer": ("dcp-lazy", True)}
ASYNC = {
    "ckptfs": ("dcp-thread", True),
    PLAIN: ("dcp-thread", False),
    "ckptfs.dcp.Writer": ("dcp-lazy-async", True),
}
ALSO = {
    "queued": "  of that, waited for a CPU",
    "durable": "  until durable",
    "committed": "  until committed",
    "restored": "  restored, cold",
}
NAMES = {
    "torch": "`torch.save`",
    "torch-lazy": "`ckptfs.save`",
    "dcp": "DCP `save`",
    "dcp-lazy": "DCP `save`, `ckptfs.dcp.Writer`",
    "dcp-thread": "DCP `async_save`",
    "dcp-lazy-async": "DCP `save`, `ckptfs.dcp.Writer`, for `async_save`",
}


def sample_net(mbps: int, sides: dict[str, tuple[str, bool]]) -> Callable[[Bench, str], dict]:
    link: dict[str, float] = {}

    def sample(bench: Bench, side: str) -> dict:
        job = job_at(bench, SHAPED, bench.net_bytes)
        link.update(link or job.ask("link", mbps))
        took = job.ask("save", mbps, *sides[side])
        took = {
            "value": took.pop("blocked"),
            **took,
            "MB": job.bytes / 1e6,
            "fio write": link["write"],
            "fio read": link["read"],
        }
        if bench.counts:
            took.update(job.ask("restore", mbps, *sides[side]))
        return took

    return sample


class NetRow(Row):
    """A row whose sides say by which framework they save, and where."""

    def __init__(
        self, mbps: int, name: str, what: str, sides: dict[str, tuple[str, bool]], **more
    ) -> None:
        super().__init__(
            f"net-{mbps}-{name}",
            f"{what} over a link of {mbps} MB/s, blocked",
            "s",
            list(sides),
            sample_net(mbps, sides),
            smaller=True,
            against=PLAIN,
            group="net",
            also=ALSO,
            **more,
        )
        self.mbps, self.how = mbps, {side: how for side, (how, _) in sides.items()}


def net_rows() -> list[Row]:
    return [
        row
        for mbps, goal in zip(LINKS, (0.12, 0.4))
        for row in (
            NetRow(mbps, "torch", "torch.save", TORCH, goals={"ckptfs": goal, "ckptfs.save": 0.02}),
            NetRow(mbps, "dcp", "DCP save", DCP),
            NetRow(mbps, "dcp-async", "DCP async_save", ASYNC),
        )
    ]


# --- the table for documents ---

HEAD = (
    "link",
    "save",
    "blocked, plain",
    "blocked, ckptfs",
    "ratio",
    "durable, plain",
    "committed, ckptfs",
    "restored, plain",
    "restored, ckptfs",
    "verified",
)


def seconds(value: float | None) -> str:
    if value is None:
        return ""
    return f"{1000 * value:.0f} ms" if value < 0.1 else f"{value:.2f} s"


def markdown_lines(rows: list[Row]) -> list[str]:
    """A caption, and a line for each side that saves to the mount, beside the plain side."""
    rows = [row for row in rows if isinstance(row, NetRow) and row.samples.get(PLAIN)]
    if not rows:
        return []
    links = {
        row.mbps: f"{row.median(PLAIN, 'fio write'):.0f} MB/s written, "
        f"{row.median(PLAIN, 'fio read'):.0f} read, on the link of {row.mbps}"
        for row in rows
    }
    lines = [
        f"{rows[0].median(PLAIN, 'MB'):.0f} MB of model and optimizer, on GlusterFS. "
        f"fio measures {' and '.join(links.values())}.",
        "",
        "| " + " | ".join(HEAD) + " |",
        "|---" * len(HEAD) + "|",
    ]
    for row in rows:
        for side in row.sides:
            if side == PLAIN or not row.samples.get(side):
                continue
            cells = [
                f"{row.mbps} MB/s",
                NAMES[row.how[side]],
                seconds(row.median(PLAIN)),
                seconds(row.median(side)),
                f"{row.ratio_of(side, PLAIN):.3f}x",
                seconds(row.median(PLAIN, "durable")),
                seconds(row.median(side, "committed")),
                seconds(row.median(PLAIN, "restored")),
                seconds(row.median(side, "restored")),
                seconds(row.median(side, "verified")),
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]
