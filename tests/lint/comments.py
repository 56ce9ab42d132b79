# SPDX-License-Identifier: MIT
"""Checks the language of comments in C, as far as a program can; prints each line that breaks a
rule.

- No line is longer than 100 columns, but for strings and tables.
- No comment is a question, or begins with "Who": the sentence names who acts.
- Some turns that hide the actor are not used at all.
- No comment refers to the design document, "DESIGN 4" or "K5": it is not in the repository. A
  comment names the rule, or a page or header that a reader has.
- A module of more than 100 lines says in its head what it does: in its header, or in a .c that has
  none.
"""

import os
import re
import subprocess
import sys

COLUMNS = 100
HEADED = 100  # lines, from which a module has a head comment
ASKS = (
    "Is|Has|Have|Does|Do|Did|Was|Were|May|Can|Could|Should|Would|Are|Will|Who|What|Which|How|Where"
)
QUESTION = re.compile(rf"^\s*(?:/\*|\*|//) (?:{ASKS})\b[^.:;]*\?")
WHO = re.compile(r"(?:/\*|\*|//) Who(?:ever|m)?\b|\. Who(?:ever|m)?\b")
TURNS = re.compile(
    r"\b(?:of whom|to whom|by whom|for whom|with whom|whomever|is nothing to|comes? to its end)\b",
    re.I,
)
# A string or character, which is no comment; or a comment, in the group.
TOKEN = re.compile(
    r""" "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' | (/\*.*?\*/ | //[^\n]*) """, re.S | re.X
)
ELSEWHERE = re.compile(r"\bDESIGN\b|\bK[1-7]\b")
TABLE = re.compile(r"\S(?:\t+| {3,})\S")
COMMENT = re.compile(r"^\s*(?:/\*|\*|//)|/\*.*\*/\s*$")
HEAD = re.compile(r"^// .*|^/\*", re.M)


def files(*patterns):
    out = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", *patterns],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    return [path for path in out if os.path.exists(path)]


def problem_of(line, product):
    if len(line.expandtabs(8)) > COLUMNS and '"' not in line and not TABLE.search(line):
        return f"more than {COLUMNS} columns"
    if not product or not COMMENT.search(line):
        return None
    if QUESTION.search(line):
        return 'a comment that is a question; say "True if ..."'
    if WHO.search(line):
        return 'a sentence that begins with "Who"; name the actor'
    turn = TURNS.search(line)
    return f'"{turn.group()}"; name the actor' if turn else None


def references(text):
    """Yields each line number and name by which a comment refers to the design document."""
    for token in TOKEN.finditer(text):
        for name in ELSEWHERE.finditer(token.group(1) or ""):
            yield text.count("\n", 0, token.start(1) + name.start()) + 1, name.group()


def has_head(text):
    """Is there a comment before the first declaration, besides the licence?"""
    lines = [line for line in text.split("\n") if "SPDX" not in line]
    return bool(lines) and bool(HEAD.match(lines[0].strip() or "x"))


def headless(path, text):
    if text.count("\n") <= HEADED or has_head(text):
        return False
    base = path.rsplit(".", 1)[0]
    if path.endswith(".h"):
        return True
    return not os.path.exists(base + ".h")


def main():
    bad = False
    for path in files("*.c", "*.h"):
        product = path.split("/")[0] in ("engine", "fs", "client")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for number, line in enumerate(text.split("\n"), 1):
            problem = problem_of(line, product)
            if problem:
                print(f"{path}:{number}: {problem}: {line.strip()}")
                bad = True
        if product or path.startswith("tests/"):
            for number, name in references(text):
                print(
                    f'{path}:{number}: "{name}" is of a document that is not in the repository; '
                    "name the rule, or a page or header"
                )
                bad = True
        if product and headless(path, text):
            print(
                f"{path}: a module of more than {HEADED} lines "
                "without a comment that says what it does"
            )
            bad = True
    return bad


if __name__ == "__main__":
    sys.exit(main())
