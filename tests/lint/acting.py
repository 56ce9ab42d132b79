# SPDX-License-Identifier: MIT
"""Checks that only the handle of a call on the backing says as whom the call is made
(engine/backing/who.h).

Prints each line outside of engine/backing that

- changes the ids, the groups or the umask of its thread, or names the functions that do (creds.h);
- uses ACT_AS, except for the few system calls on the backing that do not go through backing.c;
- puts another who into the handle that all share.
"""

import re
import subprocess
import sys

HOME = "engine/backing/"
CHANGES = re.compile(
    r"\b(?:set(?:res|re|e|fs)?[ug]id|setgroups|initgroups|unshare|umask|acting_\w+)\s*\(|\bcreds_(?!init\b)\w+\s*\(|\bSYS_set\w*(?:id|groups)\b"
)
ACTS = re.compile(r"\bACT_AS\(")
SHARED = re.compile(r"\bbacking(?:\.|->)who\b")
# The format at the first mount, the choice of a coordinator, the personality of a ring.
RAW = {"engine/engine.c", "engine/coord/choice.c", "engine/flush/io_uring.c"}
# Before there is another thread: modes are given in full.
FIRST = {"fs/daemon.c", "fs/cmd/init.c"}
# A process of its own, which is one user to its end.
OWN = {"fs/indexer_child.c"}


def problem_of(path, line):
    code = re.sub(r"/\*.*?\*/", "", line)
    if code.lstrip().startswith(("*", "/*")):
        return None
    if CHANGES.search(code) and path not in OWN and not (path in FIRST and "umask(0)" in code):
        return "changes as whom its thread acts"
    if ACTS.search(code) and path not in RAW:
        return "makes a call as somebody outside of backing.c"
    return "changes as whom others act" if SHARED.search(code) else None


def main():
    paths = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", "engine/*.[ch]", "fs/*.[ch]"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    bad = False
    for path in paths:
        if path.startswith(HOME):
            continue
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                problem = problem_of(path, line)
                if problem:
                    print(f"{path}:{number}: {problem}: {line.strip()}")
                    bad = True
    sys.exit(bad)


main()
