# SPDX-License-Identifier: MIT
"""The tables of RESULTS.md, rendered from recorded.json.

    bench.py --record        takes what it measured into recorded.json, and renders
                             (--quick is refused)
    record.py --render       renders
    record.py --check        fails if RESULTS.md is not what recorded.json says

recorded.json has groups, each one table; a group has rows, by the name that bench.py gives them; a
row has lines of cells. A row that was measured takes the place of the one of its name. A group with
a "head" of its own is a table that its rows print themselves (take_table); "prefix" is how the
names of these begin.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDED = os.path.join(HERE, "recorded.json")
PAGE = os.path.join(HERE, "RESULTS.md")
HEAD = ["what", "ckptfs", "baseline", "ratio", "goal"]
MARKS = re.compile(r"(<!-- table: ([\w-]+) -->\n)(?:.*?)(<!-- end -->\n)", re.S)


def read() -> dict:
    with open(RECORDED, encoding="utf-8") as file:
        return json.load(file)


def write(recorded: dict) -> None:
    """A line of the file for each row, so that differences show what changed."""
    groups = []
    for name, group in recorded["groups"].items():
        parts = [
            f"   {json.dumps(key)}: {json.dumps(group[key], ensure_ascii=False)}"
            for key in group
            if key != "rows"
        ]
        rows = ",\n".join(
            f"    {json.dumps(row)}: {json.dumps(lines, ensure_ascii=False)}"
            for row, lines in group["rows"].items()
        )
        groups.append(
            f"  {json.dumps(name)}: {{\n"
            + ",\n".join(parts)
            + f',\n   "rows": {{\n{rows}\n   }}\n  }}'
        )
    with open(RECORDED, "w", encoding="utf-8") as file:
        file.write(
            '{\n "about": '
            + json.dumps(recorded["about"])
            + ',\n "groups": {\n'
            + ",\n".join(groups)
            + "\n }\n}\n"
        )


def stamp(group: dict, command: str) -> None:
    group.update(
        date=time.strftime("%Y-%m-%d"),
        command=command,
        host=f"{os.cpu_count()} CPUs, {platform.system()} {platform.release().split('-')[0]}",
    )


def take_rows(measured: dict[str, list[list[str]]], command: str) -> None:
    """@measured: the lines of each row, with the columns of HEAD. A row that no group has joins
    "files"."""
    recorded = read()
    groups = recorded["groups"]
    for row, lines in measured.items():
        group = next(
            (
                each
                for each in groups.values()
                if row in each["rows"] or row.startswith(each.get("prefix", "-"))
            ),
            groups["files"],
        )
        if "head" not in group:
            group["rows"][row] = [line[:5] for line in lines]
            stamp(group, command)
    write(recorded)
    render()


def take_table(name: str, markdown: list[str], command: str) -> None:
    """The rows of this table join the group @name, which begins anew if its columns were others;
    text is its note."""
    lines = [line for line in markdown if line.startswith("|")]
    if not lines:
        return
    recorded = read()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    group = recorded["groups"][name]
    before = group["rows"] if group["head"] == cells[0] else {}
    group.update(
        head=cells[0],
        rows={**before, **{" ".join(row[:2]): [row] for row in cells[2:]}},
        note=" ".join(line for line in markdown if not line.startswith("|")).strip(),
    )
    stamp(group, command)
    write(recorded)
    render()


def table(group: dict) -> str:
    if not group["rows"]:
        return f"Not measured yet: `{group['command']}`.\n"
    head = group.get("head", HEAD)
    lines = [
        f"Last measured {group['date']} on {group['host']}:",
        "",
        f"    {group['command']}",
        "",
        *([group["note"], ""] if group.get("note") else []),
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
    ]
    lines += [
        "| " + " | ".join(cell.strip() for cell in line) + " |"
        for row in group["rows"].values()
        for line in row
    ]
    return "\n".join(lines) + "\n"


def page(text: str, recorded: dict) -> str:
    named = [match.group(2) for match in MARKS.finditer(text)]
    if sorted(named) != sorted(recorded["groups"]):
        sys.exit(f"RESULTS.md has the tables {named}, recorded.json has {list(recorded['groups'])}")
    return MARKS.sub(
        lambda match: match.group(1) + table(recorded["groups"][match.group(2)]) + match.group(3),
        text,
    )


def render() -> None:
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    text = page(text, read())
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(text)


def main() -> None:
    if sys.argv[1:] == ["--render"]:
        render()
    elif sys.argv[1:] == ["--check"]:
        with open(PAGE, encoding="utf-8") as file:
            text = file.read()
        if page(text, read()) != text:
            sys.exit(
                "RESULTS.md is not what recorded.json says: python3 tests/bench/record.py --render"
            )
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
