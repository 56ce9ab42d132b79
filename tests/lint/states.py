# SPDX-License-Identifier: MIT
"""Checks that a state is set by its machine's setter alone; prints each line that sets one
elsewhere.

The machines: engine/gen/state.h, engine/cache/cache.h, engine/coord/agreement.h. Whatever a member
`state` is assigned to in their directories has to stand in a function whose name ends in
set_state_by or set_state_by_locked. What only notes the state of something, as history does in a
`struct ended *e`, is no machine.
"""

import re
import subprocess
import sys

WHERE = [
    "engine/save/*.c",
    "engine/journal/*.c",
    "engine/cluster/*.c",
    "engine/calls/*.c",
    "engine/commit/*.c",
    "engine/cache/*.c",
    "engine/content/content*.c",
    "engine/flush/flush.c",
    "engine/coord/agreement.c",
]
FUNCTION = re.compile(r"^[a-z].*?\b(\w+)\(")
SETS = re.compile(r"(?<!\be)(?:->|\.)state\s*(?:[-+|&]?=(?!=)|\+\+|--)|\.state\s*=(?!=)")
NOTES = re.compile(r"\b(?:e|t)->state = ")


def check(path):
    problems, function = 0, ""
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            match = FUNCTION.match(line)
            function = match.group(1) if match else function
            if (
                SETS.search(line)
                and not NOTES.search(line)
                and not function.removesuffix("_locked").endswith("set_state_by")
            ):
                print(
                    f"{path}:{number}: sets a state, which is for the setter of its machine: "
                    f"{line.strip()}"
                )
                problems += 1
    return problems


def main():
    paths = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", *WHERE],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    sys.exit(1 if sum(check(path) for path in paths) else 0)


main()
