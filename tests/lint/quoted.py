# SPDX-License-Identifier: MIT
"""What the documents quote is so: each message that ckptfs-troubleshooting(7) explains is one that
the sources have, and the kills and figures in the README are the measured ones."""

import json
import pathlib
import re
import sys

PAGE = pathlib.Path("fs/ckptfs-troubleshooting.7")
RESULTS = pathlib.Path("tests/frameworks/results.json")
# Texts of others: PyTorch, Python, the kernel, fusermount3, mount(8), make.
OTHERS = (
    "[enforce fail",
    "PytorchStreamWriter",
    "OSError:",
    "TimeoutError:",
    "[Errno",
    "option allow_other only",
    "unknown filesystem type",
    "Transport endpoint",
    "Permission denied",
    "Package fuse3",
    "fuse_lowlevel.h",
)
# In these sections items are commands or symptoms.
OTHER_SECTIONS = ("FIRST", "SLOW")
# What stands for something else: in the page a word in capitals or an ellipsis, in the sources a
# conversion.
BLANK = re.compile(
    r"\.\.\.|\b(?:PATH|BACKING|NAME|ERROR|OP|N|X|Y)\b|%[-.0-9]*(?:ll|z)?[a-z]|m\.bin|\bbash \(pid"
    r"|'\.ckptfs'|Permission denied|No such file or directory"
)
SHORTEST = 5

wrong = []


def sources():
    text = []
    for top, patterns in ("engine", ("*.h", "*.c")), ("fs", ("*.c",)), ("client", ("*.c", "*.py")):
        for pattern in patterns:
            text += [
                path.read_text(encoding="utf-8")
                for path in sorted(pathlib.Path(top).rglob(pattern))
            ]
    # Strings that go on in the next line are one.
    return re.sub(r'"\s*\n\s*f?"', "", "\n".join(text))


def quoted(page):
    """The texts in the heads of the page's items."""
    section, item = "", False
    for line in page.split("\n"):
        if line.startswith(".Sh "):
            section = line[4:]
        if line.startswith(".It "):
            item = True
        if item and section not in OTHER_SECTIONS:
            for text in re.findall(r'\bQl (?:"([^"]*)"|(\S+))', line):
                yield (text[0] or text[1]).replace("\\(dq", '"').replace("\\&", "")
        if line.startswith(".Xc") or line.startswith(".It ") and not line.startswith(".It Xo"):
            item = False


def check_messages():
    have = sources()
    count = 0
    for text in quoted(PAGE.read_text(encoding="utf-8")):
        if text.startswith(OTHERS):
            continue
        count += 1
        for piece in BLANK.split(text):
            if len(piece.strip()) >= SHORTEST and piece.strip() not in have:
                wrong.append(
                    f"{PAGE} explains '{text}'; nothing in the sources says '{piece.strip()}'"
                )
    if count < 40:
        wrong.append(f"{PAGE}: only {count} messages were found in it")


def check_kills():
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    readme = pathlib.Path("README.md").read_text(encoding="utf-8")
    for nodes in "one_node", "two_nodes":
        kills = [sum(row["killed"].values()) for row in results[nodes] if row.get("killed")]
        for text in f"{format(sum(kills), ',')} kills", f"in {len(kills)} set-ups":
            if text not in readme:
                wrong.append(
                    f"README.md does not say '{text}', which is what {RESULTS} has ({nodes})"
                )


def check_figures():
    recorded = pathlib.Path("tests/bench/RESULTS.md").read_text(encoding="utf-8").splitlines()
    rows = [
        line
        for line in pathlib.Path("README.md").read_text(encoding="utf-8").splitlines()
        if re.match(r"\| \d+ MB/s ", line)
    ]
    for row in rows:
        if row not in recorded:
            wrong.append(f"README.md has a row that tests/bench/RESULTS.md has not: {row}")
    if not rows:
        wrong.append("README.md has no figures of saves over a network")


check_messages()
check_kills()
check_figures()
print("\n".join(wrong))
sys.exit(bool(wrong))
