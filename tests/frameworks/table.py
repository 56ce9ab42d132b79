# SPDX-License-Identifier: MIT
"""The tables of ckptfs-frameworks(7): kills survived and costs of each framework.

    table.py             prints what the last runs of make check-frameworks and make check-cluster
                         found
    table.py --record    also takes that into results.json, beside the rows of what did not run,
                         and renders the page
    table.py --render    renders the page from results.json
    table.py --check     fails if the page is not what results.json says

Without $BUILD there are no last runs.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import platform
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDED = os.path.join(HERE, "results.json")
PAGE = os.path.join(HERE, "..", "..", "client", "ckptfs-frameworks.7")
BEGIN, END = (
    '.\\" Rendered by tests/frameworks/table.py from results.json: {}\n',
    '.\\" End of what is rendered\n',
)
KINDS = {"one_node": ("rank", "job", "daemon"), "two_nodes": ("rank", "job", "daemon", "node")}


# --- what ran ---


def measured(where):
    top = os.path.join(os.environ.get("BUILD", ""), "frameworks", where)
    for path in sorted(
        glob.glob(os.path.join(top, "*.json")), key=lambda path: path.replace("_on_two_nodes", "")
    ):
        with open(path, encoding="utf-8") as file:
            yield json.load(file)


def blocked():
    """Of each framework that make bench measures: the time for which a save stands still, against
    the plain disk."""
    path = os.path.join(os.environ.get("BUILD", ""), "frameworks", "blocked.json")
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def times(numbers):
    return ", ".join(map(str, numbers))


def to_set(row):
    said = []
    for rule in row["rules"]:
        said.append(
            f"a rule of your own for `{'`, `'.join(rule['match'])}`; without it: an ordinary file"
        )
    if row.get("lazily"):
        said.append(row["lazily"])
    if row["switch"]:
        said.append(f"{row['switch']}: {times(row['switched'])}")
    if not row["prompt"]:
        said.append("a smaller `quiet_s`, to have the last one committed sooner")
    return (
        "; ".join(said) or "none" + (row["fsyncs"] > 0) * ": its fsyncs do not wait for the storage"
    )


def last_runs():
    """As in results.json."""
    ratios = blocked()
    one_node = []
    for row in measured("results"):
        one = {
            "name": row["name"],
            "version": row["version"],
            "commits": row["commits"],
            "killed": {kind: row["killed"][kind] for kind in KINDS["one_node"]},
            "costs": row["costs"],
            "captured": row.get("captured") or 0,
            "set": to_set(row),
        }
        if row["name"] in ratios:
            one["blocked"] = round(ratios[row["name"]], 2)
        one_node.append(one)
    two_nodes = [
        {"name": row["name"], "killed": {kind: row["killed"][kind] for kind in KINDS["two_nodes"]}}
        for row in measured("results.nodes")
    ]
    return {"one_node": one_node, "two_nodes": two_nodes}


# --- what is recorded ---


def read_recorded():
    with open(RECORDED, encoding="utf-8") as file:
        return json.load(file)


def merge(recorded, runs):
    """A row that ran takes the place of the one of its name; the others stay."""
    for key in KINDS:
        fresh = {row["name"]: row for row in runs[key]}
        rows = [fresh.pop(row["name"], row) for row in recorded[key]]
        recorded[key] = rows + list(fresh.values())
    recorded["date"] = time.strftime("%Y-%m-%d")
    recorded["host"] = (
        f"a machine with {os.cpu_count()} CPUs, {platform.system()} "
        f"{platform.release().split('-')[0]}"
    )
    return recorded


def write_recorded(recorded):
    """A line for each row, so that differences show what changed."""
    parts = [
        f" {json.dumps(key)}: {json.dumps(recorded[key], ensure_ascii=False)}"
        for key in ("about", "date", "host")
    ]
    for key in KINDS:
        lines = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in recorded[key])
        parts.append(f' "{key}": [\n{lines}\n ]')
    with open(RECORDED, "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(parts) + "\n}\n")


# --- the page ---


def mdoc(text):
    """Plain text of a manual page; `code` in it is quoted."""
    text = text.replace("\\", "\\e")
    text = re.sub(r"`([^`]*)`", r"\\(oq\1\\(cq", text)
    return "\\&" + text if text[:1] in ".'" else text


def kills(rows):
    return sum(sum(row["killed"].values()) for row in rows)


def survived(row, kinds):
    return times(f"{row['killed'][kind]} of a {kind}" for kind in kinds)


def render_row(row):
    name = mdoc(f"{row['name']} ({row['version']})").replace(" , ", ", ")
    lines = [
        f".It {name}",
        f"Committed by: {mdoc(row['commits'])}.",
        ".br",
        f"Kills survived: {survived(row, KINDS['one_node'])}.",
    ]
    written, temporary, copied = row["costs"]
    captured = f"; captured {row['captured']}" if row["captured"] else ""
    lines += [
        ".br",
        f"States written to the mount {written}, to TMPDIR {temporary}, "
        f"copied in memory {copied}{captured}.",
    ]
    if row.get("blocked"):
        lines += [".br", f"A save blocks {row['blocked']:.2f}x as long as on the plain disk."]
    return lines + [".br", f"To set: {mdoc(row['set'])}."]


def render(recorded):
    one, two = recorded["one_node"], recorded["two_nodes"]
    lines = [
        ".Ss One node",
        f"{kills(one)} kills in {len(one)} set-ups: no torn checkpoint.",
        "Every resumed run came to the same bits.",
        f"Last recorded {recorded['date']}, on {mdoc(recorded['host'])}.",
        "A set-up that did not run then stands as recorded before.",
        ".Bl -tag -width Ds",
    ]
    for row in one:
        lines += render_row(row)
    lines += [
        ".El",
        ".Ss Two nodes",
        f"{kills(two)} kills in {len(two)} set-ups: no torn checkpoint.",
        "The kills are those of a rank, of the job, of a daemon and of a node.",
        '.Bl -tag -width "20, 20, 20, 20" -compact',
    ]
    for row in two:
        lines += [
            f".It {times(row['killed'][kind] for kind in KINDS['two_nodes'])}",
            mdoc(row["name"]),
        ]
    lines += [".El"]
    return "\n".join(lines) + "\n"


def page_with(text, recorded):
    begin = BEGIN.format(recorded["date"])
    found = re.search(re.escape(BEGIN.split("{")[0]) + r".*\n(?s:.*?)" + re.escape(END), text)
    if not found:
        sys.exit(f"{PAGE} has no place for the tables")
    return text[: found.start()] + begin + render(recorded) + END + text[found.end() :]


def read_page():
    with open(PAGE, encoding="utf-8") as file:
        return file.read()


# --- for people ---


def print_runs(runs):
    print(
        "| framework | version | what commits a checkpoint | kills survived: rank, job, daemon "
        "| blocked, against the plain disk "
        "| states written to the mount, to TMPDIR, copied in memory | what to set |"
    )
    print("|---|---|---|---|---|---|---|")
    for row in runs["one_node"]:
        ratio = f"{row['blocked']:.2f}x" if row.get("blocked") else ""
        cost = times(row["costs"]) + (f"; {row['captured']} captured" if row["captured"] else "")
        print(
            f"| {row['name']} | {row['version']} | {row['commits']} "
            f"| {times(row['killed'].values())} | {ratio} | {cost} | {row['set']} |"
        )
    print("\n| on two nodes | kills survived: rank, job, daemon, node |\n|---|---|")
    for row in runs["two_nodes"]:
        print(f"| {row['name']} | {times(row['killed'].values())} |")
    print(
        f"\n{kills(runs['one_node'])} kills in {len(runs['one_node'])} set-ups on one node, "
        f"{kills(runs['two_nodes'])} in {len(runs['two_nodes'])} on two nodes"
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    mode = parser.add_mutually_exclusive_group()
    for word in ("record", "render", "check"):
        mode.add_argument("--" + word, action="store_true")
    args = parser.parse_args()
    recorded = read_recorded()
    if args.check:
        if page_with(read_page(), recorded) != read_page():
            sys.exit(
                "ckptfs-frameworks(7) is not what results.json says: "
                "python3 tests/frameworks/table.py --render"
            )
        return
    if not args.render:
        runs = last_runs()
        print_runs(runs)
        if not args.record:
            return
        write_recorded(merge(recorded, runs))
    text = page_with(read_page(), recorded)
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(text)


main()
