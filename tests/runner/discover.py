# SPDX-License-Identifier: MIT
"""Finding tests: which files are tests, what their first lines ask for, and which of them were
meant.

Assumes nothing but names: an executable tests/<group>/*.{sh,py} or $BUILD/tests/<group>/*.t is a
test. One that has a list beside it, NAME.list, is as many tests as that has lines.
"""

import os
import re
import sys

DEFAULT_TIMEOUT_S = 60
LONG = "check-long"  # the heavy group in which tests that say `# long: N` run, too, and do more

_OPEN, _CLOSE = r"^\s*(?:#|//|/\*|\*)\s*", r"\s*(?:\*/)?\s*$"
_DIRECTIVE = re.compile(_OPEN + r"(timeout|cpu|long|needs|heavy):\s*(.*?)" + _CLOSE)
_SERIAL = re.compile(_OPEN + r"serial" + _CLOSE)


def _leading_comment(path):
    """The lines before the first that is neither blank nor a comment."""
    lines, in_block = [], False
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            text = line.strip()
            in_block = in_block or text.startswith("/*")
            if not (in_block or not text or text.startswith(("#", "//"))) or text.startswith(
                "#include"
            ):
                break
            in_block = in_block and not text.endswith("*/")
            lines.append(text)
    return lines


class Test:
    """One test: `name` is group/file, `path` what is executed, with `words`, `header` the file with
    the directives."""

    def __init__(self, group, path, header, variant="", words=()):
        self.group = group
        self.name = group + "/" + variant + os.path.basename(path)
        self.path = path
        self.words = list(words)
        self.header = header
        self.timeout_s = DEFAULT_TIMEOUT_S
        self.cpu_s = None  # its budget of CPU time, or None: the usual one
        self.long_s = None  # its limit in LONG, or None: it does not do more there
        self.is_long = False  # whether it is to do more this time
        self.serial = False
        self.needs_root = False
        self.heavy = None  # name of the heavy group, or None
        self.problem = None  # why it cannot be run at all: a failure
        self._read_header()

    def _read_header(self):
        for number, line in enumerate(_leading_comment(self.header), 1):
            if _SERIAL.match(line):
                self.serial = True
            match = _DIRECTIVE.match(line)
            if match and not self._apply(match.group(1), match.group(2)):
                self.problem = f"line {number}: cannot make sense of '{line}'"
        if not os.access(self.path, os.X_OK):
            self.problem = "starts with #! but is not executable (chmod +x)"

    def _apply(self, key, value):
        if key == "timeout" and re.fullmatch(r"[1-9]\d*", value):
            self.timeout_s = int(value)
        elif key == "cpu" and re.fullmatch(r"[1-9]\d*", value):
            self.cpu_s = int(value)
        elif key == "long" and re.fullmatch(r"[1-9]\d*", value):
            self.long_s = int(value)
        elif key == "needs" and value == "root":
            self.needs_root = True
        elif key == "heavy" and re.fullmatch(r"[\w-]+", value):
            self.heavy = value
        else:
            return False
        return True

    def make_long(self):
        """It does more this time, has more time for it, and no budget."""
        self.is_long, self.timeout_s = True, self.long_s

    def traits(self):
        words = [f"timeout {self.timeout_s} s"]
        words += [f"cpu {self.cpu_s} s"] if self.cpu_s else []
        words += ["long"] if self.is_long else []
        words += ["serial"] if self.serial else []
        words += ["needs root"] if self.needs_root else []
        words += ["heavy " + self.heavy] if self.heavy else []
        return ", ".join(words)


def _is_script_test(path):
    """Executable, or made to be: a #! line without the x bit is a mistake that must not go
    unseen."""
    if not path.endswith((".sh", ".py")) or not os.path.isfile(path):
        return False
    if os.access(path, os.X_OK):
        return True
    with open(path, "rb") as file:
        return file.read(2) == b"#!"


def _entries(folder):
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def _listed(group, path):
    """The tests that `path` is: itself, or for each line `VARIANT WORDS...` of its list
    VARIANT_NAME, run with WORDS."""
    listing = os.path.splitext(path)[0] + ".list"
    if not os.path.exists(listing):
        return [Test(group, path, path)]
    with open(listing, encoding="utf-8") as file:
        lines = [line.split() for line in file if line.strip() and not line.startswith("#")]
    return [Test(group, path, path, words[0] + "_", words[1:]) for words in lines]


def find_all(root, build):
    """Every test there is, by name; and notes about files that look like tests but are none."""
    tests, notes = [], []
    source_dir, build_dir = os.path.join(root, "tests"), os.path.join(build, "tests")
    for group in _entries(source_dir):
        for entry in _entries(os.path.join(source_dir, group)):
            path = os.path.join(source_dir, group, entry)
            if _is_script_test(path):
                tests += _listed(group, path)
    for group in _entries(build_dir):
        for entry in _entries(os.path.join(build_dir, group)):
            path = os.path.join(build_dir, group, entry)
            if not entry.endswith(".t") or not os.access(path, os.X_OK):
                continue
            source = os.path.join(source_dir, group, entry[:-2] + ".c")
            if os.path.exists(source):
                tests.append(Test(group, path, source))
            else:
                notes.append(f"{path} has no source {source}: stale, not run")
    return sorted(tests, key=lambda test: test.name), notes


def _matches(test, root, build, wanted):
    """How PATH `wanted` means `test`: 'file', 'folder' or None. `wanted` is a path or a test's
    name."""
    target = os.path.abspath(wanted)
    if wanted == test.name or target in (
        test.path,
        test.header,
        os.path.join(root, "tests", test.name),
    ):
        return "file"
    folders = (
        os.path.join(root, "tests"),
        os.path.join(root, "tests", test.group),
        os.path.join(build, "tests"),
        os.path.join(build, "tests", test.group),
    )
    return "folder" if wanted.rstrip("/") == test.group or target in folders else None


def select(tests, root, build, paths, substrings, heavy):
    """The tests to run, and how many were left out only for being heavy.

    A heavy test runs when its group was asked for, or when it was named itself. Asking for a heavy
    group and nothing else runs that group alone. With LONG those of its tests that are not heavy do
    more.
    """
    chosen, left_out = [], 0
    for path in paths:
        if not any(_matches(test, root, build, path) for test in tests):
            sys.exit(f"tests/run: no test at or below '{path}' (--list shows the names)")
    for test in tests:
        how = {_matches(test, root, build, path) for path in paths} if paths else {"folder"}
        if how <= {None} or (substrings and not any(part in test.name for part in substrings)):
            continue
        if test.long_s and LONG in heavy:
            test.make_long()
        if test.heavy and test.heavy not in heavy and "file" not in how:
            left_out += 1
        elif test.heavy or test.is_long or not heavy or paths:
            chosen.append(test)
    return chosen, left_out
