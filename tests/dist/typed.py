# SPDX-License-Identifier: MIT
"""Prints, as one bash script, the commands of a README that a test types: each fenced block of sh
below a line `<!-- typed -->`, and each of Python below `<!-- typed python -->`, in their order. The
script says before each command, and after each block, for how long it has run."""

import sys

MARKS = {"<!-- typed -->": "```sh", "<!-- typed python -->": "```python"}


def blocks(lines):
    """(number of the first line, True if it is Python, its text)"""
    lines = iter(enumerate(lines, 1))
    for number, line in lines:
        fence = MARKS.get(line.strip())
        if not fence:
            continue
        number, line = next(lines, (number, ""))
        if line.strip() != fence:
            sys.exit(
                f"line {number}: {fence!r} belongs directly below "
                f"{[key for key in MARKS if MARKS[key] == fence][0]!r}"
            )
        text = []
        for _, line in lines:
            if line.strip() == "```":
                break
            text.append(line)
        yield number + 1, "python" in fence, "\n".join(text)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        found = list(blocks(file.read().splitlines()))
    if not found:
        sys.exit(f"{sys.argv[1]} has no block that is marked <!-- typed -->")
    print("set -e\nsudo() { \"$@\"; }\nSECONDS=0\nPS4='+ after $SECONDS s: '")
    for number, python, text in found:
        print(
            f"python - <<'TYPED_PYTHON'\n{text}\nTYPED_PYTHON"
            if python
            else f"set -x\n{text}\n{{ set +x; }} 2>/dev/null"
        )
        print(f'echo "block of line {number}: ended after $SECONDS s"')
        if python:
            print("after_python")


if __name__ == "__main__":
    main()
