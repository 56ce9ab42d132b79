# SPDX-License-Identifier: MIT
"""The CPU time that a test takes, and the budget that holds it there.

Assumes that it is asked before the test's processes are killed: the kernel then still knows what
each of them used, and what those children used that it waited for. What kernel threads do for a
test isn't seen (writeback, loop devices), nor are children whose parent ignores SIGCHLD.
"""

import os

DEFAULT_BUDGET_S = 10
WORST_SHOWN = 10
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def _used_by(pid):
    """Seconds that process `pid` and its children that are over have used; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # The name is in brackets and may hold anything: utime, stime, cutime and cstime are
            # fields 14 to 17.
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(map(int, fields[11:15])) / _TICKS_PER_S


def used_by(pids):
    """Seconds of CPU time that these processes, and their children that are over, have used."""
    return sum(map(_used_by, pids))


def factor(environ, slow):
    """How many times its budget a test may use; None where budgets are not held: a sanitizer's cost
    is its own."""
    if environ.get("CKPTFS_TEST_SANITIZED"):
        return None
    return (float(environ.get("CKPTFS_TEST_CPU_FACTOR") or 1) * slow) or None


def over_budget(test, seconds, times):
    """The reason why `test` fails that used so many seconds of CPU time, or None. `times` is of
    factor()."""
    budget_s = test.cpu_s or (None if test.heavy else DEFAULT_BUDGET_S)
    if times is None or budget_s is None or test.is_long or seconds <= budget_s * times:
        return None
    return (
        f"used {seconds:.1f} s of CPU time, more than its budget of {budget_s * times:g} s (# "
        "cpu: N)"
    )


def summary(results):
    """Lines for the end of a run: what all of it used, and which tests used most."""
    ran = [result for result in results if result.cpu_s > 0]
    worst = sorted(ran, key=lambda result: -result.cpu_s)[:WORST_SHOWN]
    lines = [f"CPU time of {len(ran)} tests: {sum(result.cpu_s for result in ran):.0f} s"]
    return lines + [f"  {result.cpu_s:6.1f} s {result.name}" for result in worst]
