# SPDX-License-Identifier: MIT
"""The results: as JSON, and as a table for people."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time

from processes import BUILD
from rows import Row
from setting import MIB, OTHERS, Bench


def row_json(row: Row) -> dict:
    return {
        "name": row.name,
        "what": row.what,
        "unit": row.unit,
        "ckptfs": row.median("ckptfs"),
        "baseline": row.baseline(),
        "medians": {side: row.median(side) for side in row.samples},
        "ratio": row.ratio(),
        "goal": row.goal_of(row.baseline()),
        "aim": row.aim,
        "met": row.met(),
        "smaller_is_better": row.smaller,
        "compared": [
            {
                "with": side,
                "ratio": row.ratio(side),
                "goal": row.goal_of(side),
                "met": row.met_by(side),
            }
            for side in row.compared()
        ],
        "beside": {side: row.ratio_of(side, row.baseline()) for side in row.beside()},
        "also": {
            key: {
                "medians": {side: row.median(side, key) for side in row.samples},
                "ratio": row.ratio(key=key),
            }
            for key in row.also
        },
        "note": row.note,
        "error": row.error,
        "samples": row.samples,
    }


def results_json(
    args: argparse.Namespace, bench: Bench, rows: list[Row], directory: str, load: float
) -> dict:
    uname = os.uname()
    return {
        "format": 1,
        "time": int(time.time()),
        "quick": args.quick,
        "save_mib": bench.save_bytes // MIB,
        "state_mib": bench.state_bytes // MIB,
        "rounds": bench.rounds,
        "options": args.options or "",
        "directory": directory,
        "host": {
            "kernel": uname.release,
            "machine": uname.machine,
            "cpus": len(os.sched_getaffinity(0)),
            "memory_mib": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // MIB,
            "root": os.geteuid() == 0,
            "load_before": round(load, 2),
        },
        "others": OTHERS,
        "rows": [row_json(row) for row in rows],
    }


def keep_for_frameworks(rows: list[Row]) -> None:
    """The ratios that frameworks/table.py shows; those measured earlier stay."""
    path = os.path.join(BUILD, "frameworks", "blocked.json")
    kept = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            kept = json.load(file)
    measured = {row.framework: row.ratio() for row in rows if row.framework and row.ratio()}
    if measured:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**kept, **measured}, file, indent=1)


NAMES = {"before": "fresh", "pss": "proportional"}  # of what a sample has beside its value


def figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def spread(row: Row, side: str) -> str:
    """The range of what was measured, where the machine was noisy."""
    values = [sample["value"] for sample in row.samples.get(side, [])]
    if len(values) < 3 or max(values) - min(values) <= 0.3 * statistics.median(values):
        return ""
    return f"{side} {figure(min(values))}..{figure(max(values))}"


def verdict(row: Row, side: str | None, first: bool) -> str:
    extra = [row.note] if row.note and first else []
    if not row.goals and not row.against:
        medians = [
            f"{each} {figure(row.median(each))}" for each in row.samples if each != row.sides[0]
        ]
        extra += [", ".join(medians)] if len(medians) > 1 else []
    if row.once:
        keys = [key for key in row.samples[row.sides[0]][0] if key != "value"]
        extra.append(
            ", ".join(
                f"{NAMES.get(key, key)} {figure(row.median(row.sides[0], key))}" for key in keys
            )
        )
    ranges = filter(
        None, (spread(row, each) for each in (row.sides[0] if first else "", side) if each)
    )
    extra += [", ".join(ranges)]
    extra = list(filter(None, extra))
    word = {True: "yes", False: "NO", None: ""}[row.met_by(side)]
    return " ".join(filter(None, (word, f"({'; '.join(extra)})" if extra else "")))


def goal_text(row: Row, side: str | None) -> str:
    if row.aim is not None:
        return f"<={row.aim:g}"
    goal = row.goal_of(side)
    return "reported" if goal is None else f"{'<=' if row.smaller else ''}{goal:g}x"


def table_lines(row: Row) -> list[list[str]]:
    """A line for each that it is compared with."""
    if row.error or (row.note and not row.samples):
        return [[row.what, "-", "-", "-", "-", "FAILED: " + row.error if row.error else row.note]]
    lines = []
    for side in row.compared() or [None]:
        first = not lines
        lines.append(
            [
                row.what if first else "",
                f"{figure(row.median(row.sides[0]))} {row.unit}" if first else "",
                f"{side} {figure(row.median(side))}" if side else "-",
                f"{row.ratio(side):.2f}x" if side and row.ratio(side) else "-",
                goal_text(row, side),
                verdict(row, side, first),
            ]
        )
    side = row.baseline()
    lines += [
        [
            f"  the same, {each}",
            f"{figure(row.median(each))} {row.unit}",
            f"{side} {figure(row.median(side))}",
            f"{row.ratio_of(each, side):.2f}x",
            goal_text(row, each),
            verdict(row, each, False),
        ]
        for each in row.beside()
        if side
    ]
    lines += [
        [
            what,
            f"{figure(row.median(row.sides[0], key))} {row.unit}",
            f"{side} {figure(row.median(side, key))}" if row.ratio(side, key) else "-",
            f"{row.ratio(side, key):.2f}x" if row.ratio(side, key) else "-",
            "reported",
            "",
        ]
        for key, what in row.also.items()
    ]
    return lines


def print_table(rows: list[Row]) -> None:
    lines = [["what", "ckptfs", "baseline", "ratio", "goal", "met?"]]
    lines += [line for row in rows for line in table_lines(row)]
    widths = [max(len(line[i]) for line in lines) for i in range(5)]
    print()
    for line in lines:
        cells = [line[0].ljust(widths[0])]
        cells += [line[i].rjust(widths[i]) for i in range(1, 5)]
        print("  ".join(cells + [line[5]]).rstrip())
    print()
