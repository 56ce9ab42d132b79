# SPDX-License-Identifier: MIT
"""What a test may leave behind - processes, mounts, frozen filesystems, loop devices - and how to
end each.

A hung FUSE daemon can block whoever touches its mount, and reading another process's command line
takes that process's memory lock. So everything here that could block runs in a thread that may be
given up (`bounded`).
"""

import fcntl
import glob
import os
import re
import subprocess
import threading

FITHAW = 0xC0045878
FUSECTL = "/sys/fs/fuse/connections"
MAX_THREADS_SHOWN = 24


def bounded(seconds, function, *args):
    """function(*args), or None when it fails or has not come back after `seconds`."""
    answer = []

    def call():
        try:
            answer.append(function(*args))
        except (OSError, subprocess.SubprocessError):
            pass

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    return answer[0] if answer else None


def _read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


# --- processes ---


def _process_table():
    """pid -> (parent, state, short name); /proc/PID/stat never blocks."""
    table = {}
    for entry in os.listdir("/proc"):
        match = entry.isdigit() and re.match(
            r"\d+ \((.*)\) (\S) (\d+) ", _read(f"/proc/{entry}/stat"), re.S
        )
        if match:
            table[int(entry)] = (int(match.group(3)), match.group(2), match.group(1))
    return table


def descendants(ancestor):
    """The pids below `ancestor`, its own children first.

    Complete where a pid namespace keeps orphans below its pid 1.
    """
    children = {}
    for pid, (parent, _, _) in _process_table().items():
        children.setdefault(parent, []).append(pid)
    found, queue = [], [ancestor]
    while queue:
        below = children.get(queue.pop(0), [])
        found += below
        queue += below
    return found


def tagged(tag):
    """The living pids whose environment holds exactly `tag`: how tests are recognised without
    namespaces.

    A zombie lives as long as another thread of it does, which hangs then; only that one has the
    environment.
    """

    def owns(pid):
        for thread in os.listdir(f"/proc/{pid}/task"):
            text = _read(f"/proc/{pid}/task/{thread}/environ")
            if text:
                return tag in text.split("\0")
        return False

    return [pid for pid in _process_table() if pid != os.getpid() and bounded(1, owns, pid)]


def describe(pids):
    """Lines for a person who asks why these processes hang. Best effort, taken while they still
    live."""
    lines, table = [], _process_table()
    for pid in pids:
        if pid not in table:
            continue
        command = bounded(0.5, _read, f"/proc/{pid}/cmdline")
        inner = re.search(r"^NSpid:.*\s(\d+)$", _read(f"/proc/{pid}/status"), re.M)
        words = " ".join((command or f"[{table[pid][2]}]").replace("\0", " ").split())
        lines.append(
            f"  pid {inner.group(1) if inner else pid}, state {table[pid][1]}: {words[:200]}"
        )
        threads = sorted(glob.glob(f"/proc/{pid}/task/*"))
        for thread in threads[:MAX_THREADS_SHOWN]:
            calls = [
                call
                for call in re.findall(r"\] (\w+)", _read(thread + "/stack"))
                if call not in ("do_syscall_64", "entry_SYSCALL_64_after_hwframe")
            ]
            stack = "; stack " + " < ".join(calls[:12]) if calls else ""
            lines.append(
                f"    thread {_read(thread + '/comm').strip()}: "
                f"wchan {_read(thread + '/wchan').strip() or '?'}{stack}"
            )
        if len(threads) > MAX_THREADS_SHOWN:
            lines.append(f"    ... and {len(threads) - MAX_THREADS_SHOWN} more threads")
    return lines


# --- mounts ---


class Mount:
    def __init__(self, pid, major, minor, path, kind):
        self.pid, self.major, self.minor, self.path, self.kind = pid, major, minor, path, kind

    def is_fuse(self):
        return self.kind == "fuse" or self.kind.startswith("fuse.")


def mounts_below(pids, folder):
    """What is mounted at or below `folder`, newest first, in each mount namespace that `pids` live
    in."""
    found, namespaces = [], set()
    for pid in pids:
        try:
            namespace = os.readlink(f"/proc/{pid}/ns/mnt")
        except OSError:
            continue
        if namespace in namespaces:
            continue
        namespaces.add(namespace)
        for line in reversed(_read(f"/proc/{pid}/mountinfo").splitlines()):
            fields = line.split(" ")
            path = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code.group(1), 8)), fields[4])
            if path == folder or path.startswith(folder + "/"):
                major, minor = map(int, fields[2].split(":"))
                found.append(Mount(pid, major, minor, path, fields[fields.index("-") + 1]))
    return found


def thaw(mounts):
    """fsfreeze -u for every mount of a block device: a frozen one would survive its namespace, and
    block kills."""

    def thaw_one(mount):
        fd = os.open(f"/proc/{mount.pid}/root{mount.path}", os.O_RDONLY)
        try:
            fcntl.ioctl(fd, FITHAW, 0)
        finally:
            os.close(fd)

    for mount in mounts:
        if mount.major != 0:
            bounded(5, thaw_one, mount)


def abort_fuse(mounts):
    """Abort these FUSE connections, so that nobody waits for a daemon any longer."""
    script = 'cd "$0" && for minor; do if [ -e $minor/abort ]; then echo 1 > $minor/abort; fi; done'
    minors = sorted({str(mount.minor) for mount in mounts if mount.is_fuse()})
    if not minors:
        return
    private = [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        'mount -t fusectl none "$0" 2>&1; ' + script,
    ]
    command = ["sh", "-c", script] if os.path.ismount(FUSECTL) else private
    bounded(
        5,
        lambda: subprocess.run(
            command + [FUSECTL] + minors,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=5,
        ),
    )


def unmount(mounts):
    """Detach mounts of our own namespace (only needed where tests have none of their own)."""
    for mount in mounts:
        how = ["umount", "-l"] if os.geteuid() == 0 else ["fusermount3", "-u", "-z"]
        bounded(
            5,
            lambda command: subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
                timeout=5,
            ),
            how + [mount.path],
        )


# --- loop devices ---


def loops_backed_by(marker):
    """Loop devices whose backing file's path contains `marker`.

    The path is matched by a part, because once the mount namespace that set it up is gone, it may
    be shown relative to another root.
    """
    pattern = "/sys/block/loop*/loop/backing_file"
    return ["/dev/" + path.split("/")[3] for path in glob.glob(pattern) if marker in _read(path)]


def detach_loops(marker):
    """Detach them; what is still in use detaches itself on its last close. Returns those that
    remain."""
    for device in loops_backed_by(marker):
        bounded(
            5,
            lambda path: subprocess.run(
                ["losetup", "-d", path],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
                timeout=5,
            ),
            device,
        )
    return loops_backed_by(marker)
