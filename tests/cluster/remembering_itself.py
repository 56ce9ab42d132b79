#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# fs_remembers lies as it is to: what another client has replaced, written or removed stays what it
# was for a while, whatever is asked, but in a listing; what the client itself changes or syncs does
# not; a directory that is moved stays itself.

import ctypes
import errno
import os
import stat
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import BACK, wait
from remembering import client
from scenarios import refused

LONG = {"names": 1000, "absent": 1000, "attributes": 1000}
NOREPLACE, EXCHANGE = 1, 2
FORCED, BASIC = 0x2000, 0x7FF  # AT_STATX_FORCE_SYNC, STATX_BASIC_STATS


def write(path, data):
    with open(path, "w", encoding="utf-8") as file:
        file.write(data)


def replace(path, data):
    write(path + ".tmp", data)
    os.rename(path + ".tmp", path)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def forced_size(path):
    libc, buffer = ctypes.CDLL(None, use_errno=True), ctypes.create_string_buffer(256)
    assert not libc.statx(-100, path.encode(), FORCED, BASIC, buffer), ctypes.get_errno()
    return int.from_bytes(buffer.raw[40:48], sys.byteorder)


def listed(where):
    return {entry.name: entry.inode() for entry in os.scandir(where)}


long, brief, other = client("long", **LONG), client("brief"), client("other")

# A name that another client gives to another file.
write(other + "/file", "old")
old = os.stat(other + "/file").st_ino
for one in long, brief:
    assert os.stat(one + "/file").st_ino == old == listed(one)["file"]
with (
    open(brief + "/file", encoding="utf-8") as used,
    open(long + "/file", encoding="utf-8") as unused,
):
    assert used.read() == "old"
    replace(other + "/file", "newer")
    new = os.stat(BACK + "/file").st_ino
    assert old != new
    assert os.stat(other + "/file").st_ino == new
    assert os.stat(long + "/file").st_ino == old
    assert forced_size(long + "/file") == 3
    assert listed(long)["file"] == listed(brief)["file"] == new
    # Who has used it goes on with it; an open alone has asked nothing, and neither does one that
    # comes now.
    assert used.seek(0) == 0 and used.read() == "old"
    refused(unused.read, errno.ESTALE)
wait(lambda: os.stat(brief + "/file").st_ino == new, "the time to pass")
assert os.stat(brief + "/file").st_size == 5 and read(brief + "/file") == "newer"
# Who changes a name knows what it leads to.
replace(long + "/file", "newest")
new = os.stat(BACK + "/file").st_ino
assert os.stat(long + "/file").st_ino == new and read(long + "/file") == "newest"
with open(long + "/file", encoding="utf-8") as file:
    os.unlink(long + "/file")
    assert file.read() == "newest"
write(long + "/file", "again")
wait(lambda: os.stat(brief + "/file").st_ino == os.stat(BACK + "/file").st_ino, "the time to pass")

# A file that another client writes to: no question helps; but a sync, and a change of its own.
with open(other + "/file", "a", encoding="utf-8") as file:
    file.write("+")
assert os.stat(long + "/file").st_size == forced_size(long + "/file") == 5
fd = os.open(long + "/file", os.O_RDONLY)
os.fsync(fd)
assert forced_size(long + "/file") == 6
with open(other + "/file", "a", encoding="utf-8") as file:
    file.write("+")
assert forced_size(long + "/file") == 6
os.chmod(long + "/file", 0o600)
assert os.fstat(fd).st_size == forced_size(long + "/file") == 7
os.close(fd)
wait(lambda: os.stat(brief + "/file").st_size == 7, "the time to pass")

# A second name shows that it is the same file, and its attributes as they were.
os.link(other + "/file", other + "/second")
assert (
    os.path.samefile(long + "/file", long + "/second") and os.stat(long + "/second").st_nlink == 2
)
os.unlink(other + "/file")
assert os.stat(long + "/file").st_nlink == 2 and os.stat(BACK + "/second").st_nlink == 1

# What is not there, and what is not there any more.
assert not os.path.exists(long + "/late") and not os.path.exists(brief + "/late")
write(other + "/late", "there")
assert not os.path.exists(long + "/late") and "late" in listed(long)
assert read(brief + "/late") == "there"
os.unlink(other + "/late")
assert "late" not in listed(brief)
wait(lambda: not os.path.exists(brief + "/late"), "the time to pass")

# A directory that another client moves stays what it is.
os.makedirs(other + "/staging/dir")
at = os.open(long + "/staging/dir", os.O_PATH)
os.rename(other + "/staging", other + "/moved")
assert read(os.open("made", os.O_CREAT | os.O_RDWR, 0o640, dir_fd=at)) == ""
assert stat.S_IMODE(os.stat(BACK + "/moved/dir/made").st_mode) == 0o640
write(other + "/moved/dir/seen", "1")
assert sorted(os.listdir(f"/proc/self/fd/{at}")) == ["made", "seen"]

# The rest of what the daemon does to a backing.
os.symlink("second", long + "/link")
for flags, to in (NOREPLACE, "third"), (EXCHANGE, "link"):
    libc = ctypes.CDLL(None, use_errno=True)
    assert (
        libc.renameat2(
            -100,
            os.path.join(long, "second").encode(),
            -100,
            os.path.join(long, to).encode(),
            flags,
        )
        == -1
    )
    assert ctypes.get_errno() == errno.EINVAL
assert os.readlink(other + "/link") == "second"
os.setxattr(long + "/second", "user.x", b"value")
assert (
    os.listxattr(other + "/second") == ["user.x"]
    and os.getxattr(other + "/second", "user.x") == b"value"
)
os.removexattr(long + "/second", "user.x")
refused(lambda: os.getxattr(other + "/second", "user.x"), errno.ENODATA)
os.truncate(long + "/second", 2)
os.utime(long + "/second", ns=(5, 7))
st = os.stat(BACK + "/second")
assert (st.st_size, st.st_atime_ns, st.st_mtime_ns) == (2, 5, 7)
os.mkdir(long + "/dir")
os.rmdir(long + "/dir")
refused(lambda: os.stat(long + "/dir"), errno.ENOENT)
assert os.statvfs(long).f_blocks == os.statvfs(BACK).f_blocks
